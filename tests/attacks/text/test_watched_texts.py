"""Texts that are made faster than TextAttack makes them, and are the same."""

import random

import editdistance
import pytest

from workers.attacks.text.textattack_environment import prepare
from workers.attacks.text.watched_texts import watched, within_edits

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
def test_the_limit_of_edits_is_the_exact_distance(seed: int) -> None:
    rng = random.Random(seed)
    original = watched("a dull film without any life in its long and loud scenes", lambda: None)
    text = original
    answers = set()
    for _ in range(25):
        place = rng.randrange(len(text.words))
        word = rng.choice([text.words[place][1:] or "q", text.words[place] + "z", original.words[place]])
        text = text.replace_word_at_index(place, word)
        exact = editdistance.eval(original.text, text.text)
        assert [within_edits(original, text, most) for most in range(40)] == [exact <= most for most in range(40)]
        # Against another text than the original the bound says nothing.
        assert within_edits(text, original, exact)
        answers.add(exact < text.most_edits)
    assert answers == {True, False}
