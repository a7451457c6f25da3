"""The search that sees labels alone: what it finds, how it keeps to a recipe's constraints and to its budget."""

import pytest
import torch
from rapidfuzz.distance import Levenshtein

from tests.attacks.text.classifiers import LetterCounter
from workers.attacks.text.attacking import Job, Outcome, attack_all
from workers.attacks.text.label_only import decisions, searching_labels
from workers.attacks.text.recipes import Recipe, load_recipe
from workers.attacks.text.scoring import ScoringService
from workers.resources.library import Library

TEXT = "the wonderful old film is charming and moving but the awful ending remains tedious ."


class Keywords(LetterCounter):
    """Says 1 where any of its words is left in a text, always with the same confidence."""

    def __init__(self, *words: str) -> None:
        super().__init__()
        self._words = words

    def of(self, text: str) -> torch.Tensor:
        return torch.tensor([0.0, 2.0 if any(word in text.split() for word in self._words) else -2.0])


def recipe(name: str = "deepwordbug") -> Recipe:
    return load_recipe(name, Library.of())


def search(model: LetterCounter, *texts: str, of: str = "deepwordbug", budget: int = 100) -> list[Outcome]:
    service = ScoringService(model, max_bytes=10**8)
    searching = searching_labels(recipe(of))
    jobs = [Job(number, text, 1, 7 + number, decisions, searching) for number, text in enumerate(texts)]
    return attack_all(jobs, service, query_budget=budget)


def test_it_flips_what_equal_scores_hide_from_a_greedy_attack() -> None:
    hidden = Keywords("wonderful", "charming", "moving")
    service = ScoringService(hidden, max_bytes=10**8)
    [greedy] = attack_all([Job(0, TEXT, 1, 7, lambda logits: logits.softmax(1), recipe())], service)
    [found] = search(hidden, TEXT)
    assert (greedy.status, found.status) == ("failed", "succeeded")
    assert int(hidden.of(found.text).argmax()) == 0


def test_it_takes_back_what_a_flip_does_not_need() -> None:
    [found] = search(Keywords("awful"), TEXT)
    changed = [before for before, after in zip(TEXT.split(), found.text.split(), strict=True) if before != after]
    assert (found.status, changed) == ("succeeded", ["awful"])


class Guarded(Keywords):
    """Falls for nothing that holds what searches write in any of several ways: capitals, and letters of no keyboard."""

    def of(self, text: str) -> torch.Tensor:
        return super().of(text) if text.isascii() and text == text.lower() else torch.tensor([0.0, 2.0])


def test_whoever_withstands_all_ways_together_falls_for_one() -> None:
    outcomes = search(Guarded("wonderful", "charming", "moving", "film"), *[TEXT] * 20)
    assert sum(one.status == "succeeded" for one in outcomes) >= 18
    assert all(one.text.isascii() and one.text == one.text.lower() for one in outcomes if one.status == "succeeded")


def test_every_other_try_is_of_one_style() -> None:
    model = Keywords("the")
    search(model, TEXT, budget=100)
    words = [[(a, b) for a, b in zip(TEXT.split(), text.split(), strict=True) if a != b] for (text,) in model.batches]
    shorter = [all(len(b) == len(a) - 1 for a, b in changed) for changed in words if len(changed) > 5]
    longer = [all(len(b) == len(a) + 1 for a, b in changed) for changed in words if len(changed) > 5]
    assert sum(shorter) + sum(longer) > 0
    assert len(shorter) > 10


@pytest.mark.parametrize("budget", [2, 17])
def test_it_keeps_to_its_budget(budget) -> None:
    [found] = search(Keywords("the"), TEXT, budget=budget)
    # A stopword, which the recipe never touches.
    assert found.status == "unfinished"
    assert found.queries == budget


@pytest.mark.parametrize(("name", "words"), [("deepwordbug", None), ("pruthi", 1)])
def test_it_keeps_to_the_constraints_of_the_recipe(name, words) -> None:
    long = " ".join([TEXT] * 8)
    model = Keywords("the")
    search(model, long, of=name, budget=60)
    asked = [text for batch in model.batches for text in batch]
    assert len(asked) > 40
    for text in asked:
        changed = [(a, b) for a, b in zip(long.split(), text.split(), strict=True) if a != b]
        assert not {before for before, _ in changed} & {"the", "is", "and", "but"}
        assert Levenshtein.distance(long, text) <= 30 or words
        assert words is None or len(changed) <= words


def test_an_outcome_depends_on_its_job_alone() -> None:
    texts = [TEXT, TEXT.replace("film", "movie"), "a dull and clumsy story", ""]
    together = search(LetterCounter(), *texts)
    service = ScoringService(LetterCounter(preferred_texts=1), max_bytes=0)
    searching = searching_labels(recipe())
    alone = [
        attack_all([Job(number, texts[number], 1, 7 + number, decisions, searching)], service, query_budget=100)[0]
        for number in reversed(range(len(texts)))
    ]
    assert together == alone[::-1]


def test_decisions_are_the_first_of_several_that_tie() -> None:
    assert decisions(torch.tensor([[1.0, 3.0, 3.0], [2.0, 2.0, 0.0]])).tolist() == [[0, 1, 0], [1, 0, 0]]
