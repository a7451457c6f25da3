"""What an attack had to work with is counted without changing what it does."""

from dataclasses import replace

import pytest
from rapidfuzz.distance import Levenshtein

from tests.attacks.text.classifiers import LetterCounter
from tests.attacks.text.test_label_only import TEXT, Keywords, recipe
from workers.attacks.text.attacking import Job, Outcome, attack_all
from workers.attacks.text.scoring import ScoringService


def attacked(model: LetterCounter, text: str, name: str = "deepwordbug", *, measures: bool = True) -> Outcome:
    job = Job(0, text, 1, 3, lambda logits: logits.double().softmax(1), recipe(name), measures_strength=measures)
    return attack_all([job], ScoringService(model, max_bytes=10**8))[0]


@pytest.mark.parametrize("name", ["deepwordbug", "pruthi"])
def test_counting_changes_no_outcome(name) -> None:
    for model in (LetterCounter(), Keywords("the")):
        plain = attacked(model, TEXT, name, measures=False)
        assert replace(attacked(model, TEXT, name), strength=None) == plain


def test_words_without_a_candidate_are_those_the_recipe_leaves_alone() -> None:
    strength = attacked(Keywords("the"), TEXT).strength
    # Its stopwords: the, is, and, but, the.
    assert (strength.words, strength.without) == (14, 5)
    assert 2 * 9 <= strength.candidates <= 4 * 9
    assert not strength.is_limited
    long = attacked(Keywords("the"), " ".join([TEXT] * 20)).strength
    assert long.words <= 50


def test_a_limit_of_edits_that_ended_an_attack_is_seen() -> None:
    class Letters(LetterCounter):
        """Falls with every word that is edited, and never far enough."""

        def of(self, text):
            logits = Keywords("the").of(text)
            logits[1] -= 0.01 * sum(word not in TEXT for word in text.split())
            return logits

    long = " ".join([TEXT] * 6)
    # 54 words could be edited, and a limit of 30 letters is reached before that.
    assert attacked(Letters(), long).strength.is_limited
    assert not attacked(Letters(), TEXT).strength.is_limited
    job = Job(0, long, 1, 3, lambda logits: logits.double().softmax(1), recipe(), edit_share=0.3)
    service = ScoringService(Letters(), max_bytes=10**8)
    [further] = attack_all([replace(job, measures_strength=True)], service)
    assert not further.strength.is_limited
    assert 30 < Levenshtein.distance(long, further.text) <= 0.3 * len(long) + 1
    [less] = attack_all([replace(job, edit_share=0.01)], service)
    assert Levenshtein.distance(long, less.text) <= 0.01 * len(long) + 1
    # One word at most: that none alone helps says nothing of two.
    assert attacked(Keywords("the"), long, "pruthi").strength.is_limited
