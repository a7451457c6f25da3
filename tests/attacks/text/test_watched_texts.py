"""Texts that are made faster than TextAttack makes them, and are the same."""

import random
from collections import Counter

import editdistance
import pytest
import torch

from seatrial.noise.graphemes import graphemes
from tests.attacks.text.classifiers import LetterCounter, at
from workers.attacks.text.attacking import Job, attack_all
from workers.attacks.text.label_only import decisions, searching_labels
from workers.attacks.text.recipes import load_recipe
from workers.attacks.text.scoring import ScoringService
from workers.attacks.text.textattack_environment import prepare
from workers.attacks.text.watched_texts import watched, within_edits
from workers.resources.library import Library

PARTS = ["a", "dull", "it's", "co-op", "I", "'quoted'", "...", "x/y", "café", "100%", "SPLIT", "@home", "an", "電影"]
NEW = ["b", "dul", "", "two words", "-", "it", "a-b", "x/y", "éa", "S"]


@pytest.fixture(scope="module", autouse=True)
def _prepared() -> None:
    prepare()


def _plain(text):
    from textattack.shared import AttackedText

    return AttackedText(text)


@pytest.mark.parametrize("seed", range(40))
def test_descendants_are_textattacks(seed: int) -> None:
    rng = random.Random(seed)
    # TextAttack dies where the first words are deleted one after the other and nothing stands before them.
    text = " ".join(["(", *rng.choices(PARTS, k=rng.randint(1, 12))])
    ours, theirs = watched(text, lambda: None), _plain(text)
    for _ in range(6):
        assert (ours.text, ours.words) == (theirs.text, theirs.words)
        assert ours.attack_attrs["modified_indices"] == theirs.attack_attrs["modified_indices"]
        newly = "newly_modified_indices"
        assert ours.attack_attrs.get(newly) == theirs.attack_attrs.get(newly)
        assert ours.attack_attrs.keys() == theirs.attack_attrs.keys()
        assert (ours.attack_attrs["original_index_map"] == theirs.attack_attrs["original_index_map"]).all()
        words = list(ours.words)
        if not words:
            break
        for place in rng.sample(range(len(words)), min(len(words), rng.randint(1, 2))):
            words[place] = rng.choice([*NEW, words[place], words[place] + "z"])
        ours, theirs = ours.generate_new_attacked_text(words), theirs.generate_new_attacked_text(words)


@pytest.mark.parametrize("seed", range(10))
def test_the_limit_of_edits_is_textattacks(seed: int) -> None:
    rng = random.Random(seed)
    original = text = "a dull film without any life in its long and loud scenes, 映画 cafe\u0301"
    for _ in range(25):
        place = rng.randrange(len(text))
        text = text[:place] + rng.choice(["", "z", "映"]) + text[place + rng.randint(0, 1) :]
        exact = editdistance.eval(original, text)
        assert [within_edits(original, text, most) for most in range(40)] == [exact <= most for most in range(40)]


@pytest.mark.parametrize("name", ["deepwordbug", "label_only"])
def test_attacks_leave_accents_with_their_letters(name: str) -> None:
    recipe = load_recipe("deepwordbug", Library.of())
    text = "une come\u0301die le\u0301ge\u0300re et tre\u0300s dro\u0302le"
    asked = LetterCounter()
    for seed in range(8):
        used = recipe if name == "deepwordbug" else searching_labels(recipe)
        view = at(1.0, torch.float32) if name == "deepwordbug" else decisions
        label = int(asked.of(text).argmax())
        attack_all([Job(0, text, label, seed, view, used)], ScoringService(asked, max_bytes=0), query_budget=60)
    assert watched(text, lambda: None).words == text.split()
    tried = {other for batch in asked.batches for other in batch} - {text}
    assert len(tried) > 20
    accents = Counter(cluster for cluster in graphemes(text) if len(cluster) > 1)
    for other in tried:
        assert not Counter(cluster for cluster in graphemes(other) if len(cluster) > 1) - accents
