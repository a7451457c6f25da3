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

PARTS = ["a", "dull", "it's", "co-op", "I", "'quoted'", "...", "x/y", "café", "100%", "SPLIT", "@home", "an", "영화"]
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


SENTENCES = {
    "zh": "ABC film 这部电影非常好看、演员的表演也很精彩。",
    "ja": "この映画はとても面白かったです。",
    "th": "หนังเรื่องนี้สนุกมากและนักแสดงก็เล่นดี",
}


@pytest.mark.parametrize("language", SENTENCES)
def test_words_keep_their_places_where_no_space_parts_them(language: str) -> None:
    rng = random.Random(0)
    text = first = watched(SENTENCES[language], lambda: None)
    # Between the words stand spaces and punctuation alone.
    assert len(first.words) > 4
    assert max(len(graphemes(word)) for word in first.words) <= 4
    assert [c for c in "".join(first.words) if c.isalnum()] == [c for c in first.text if c.isalnum()]
    edited: set[int] = set()
    for letter in "stuvwxyz":
        place = rng.randrange(len(first.words))
        word = graphemes(text.words[place])
        at = rng.randrange(len(word))
        new = "".join([*word[:at], letter, *word[at + (len(word) > 2) :]])
        before, text = text, text.replace_word_at_index(place, new)
        edited.add(place)
        assert text.words == [*before.words[:place], new, *before.words[place + 1 :]]
        assert text.attack_attrs["modified_indices"] == edited
        assert text.attack_attrs["newly_modified_indices"] == {place}
    assert text.text != first.text
    shorter = text.replace_word_at_index(2, "")
    assert shorter.words == [*text.words[:2], *text.words[3:]]


@pytest.mark.parametrize("name", ["deepwordbug", "label_only"])
@pytest.mark.parametrize("language", SENTENCES)
def test_attacks_find_the_word_that_decides_where_no_space_parts_words(language: str, name: str) -> None:
    class OneWord(LetterCounter):
        def of(self, text):
            word = {"zh": "精彩", "ja": "面白", "th": "เรื่อง"}[language]
            return torch.tensor([0.0, 1.0 if word in text else -1.0])

    recipe = load_recipe("deepwordbug", Library.of())
    used, view = (recipe, at(1.0)) if name == "deepwordbug" else (searching_labels(recipe), decisions)
    jobs = [Job(0, SENTENCES[language], 1, 0, view, used)]
    [outcome] = attack_all(jobs, ScoringService(OneWord(), max_bytes=0), query_budget=100)
    assert outcome.status == "succeeded"
    assert outcome.perturbed_share < 0.2


def test_words_of_a_part_of_a_pair_are_those_of_the_whole() -> None:
    pair = watched(("a cafe\u0301, it's", "这部电影 - 很好"), lambda: None)
    assert pair.words_per_input == [["a", "cafe\u0301", "it's"], ["这部", "电影", "很", "好"]]
    place = len(pair.words) - 3
    edited = pair.replace_word_at_index(place, "电x影").replace_word_at_index(0, "the")
    assert edited.words_per_input == [["the", "cafe\u0301", "it's"], ["这部", "电x影", "很", "好"]]
    assert edited.tokenizer_input == ("the cafe\u0301, it's", "这部电x影 - 很好")


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
