"""Where an attack may write: parts of pairs, and nothing that the model does not see."""

import dataclasses
from collections.abc import Sequence
from itertools import zip_longest

import pytest
import torch
from torch import Tensor

from tests.attacks.text.classifiers import LetterCounter, at
from workers.attacks.text.attacking import Job, Outcome, attack_all
from workers.attacks.text.importance import Example, leave_one_out, word_importances
from workers.attacks.text.label_only import decisions, searching_labels
from workers.attacks.text.places import seen_words
from workers.attacks.text.recipes import Recipe, load_recipe
from workers.attacks.text.scoring import ScoringService
from workers.attacks.text.watched_texts import watched
from workers.data import Text
from workers.resources.library import Library

SEEN = "the quiet film, however late, shows a wonderful and funny actor"
UNSEEN = " in the end of it all . nobody knows why"
PAIR = ("a quiet film shows the actor", "the plot is funny and late")


class Truncating(LetterCounter):
    """Sees the first characters of a text, or of each part of a pair."""

    def of(self, text: Text) -> Tensor:
        return super().of(text[: len(SEEN)] if isinstance(text, str) else tuple(part[:12] for part in text))

    def seen(self, text: Text) -> tuple[int, ...] | None:
        if isinstance(text, str):
            return (len(SEEN),) if len(text) > len(SEEN) else None
        return 12, 12


def attacked(text: Text, recipe: Recipe, asked: LetterCounter, **more) -> Outcome:
    view = decisions if type(recipe.built.search_method).__name__ == "LabelOnlySearch" else at(1.0)
    label = int(asked.of(text).argmax())
    job = Job(0, text, label, 5, view, recipe, measures_strength=True, **more)
    [outcome] = attack_all([job], ScoringService(asked, max_bytes=10**6), query_budget=80)
    assert outcome.error is None
    return outcome


@pytest.mark.parametrize("is_told_labels", [False, True])
def test_an_attack_on_a_text_that_is_cut_off_is_the_attack_on_what_is_left(is_told_labels: bool) -> None:
    recipe = load_recipe("deepwordbug", Library.of())
    recipe = searching_labels(recipe) if is_told_labels else recipe
    asked = Truncating()
    outcome = attacked(SEEN + UNSEEN, recipe, asked, seen=asked.seen(SEEN + UNSEEN))
    shorter = attacked(SEEN, recipe, LetterCounter())
    assert outcome.text.endswith(UNSEEN)
    if outcome.text.removesuffix(UNSEEN) != shorter.text:
        # A letter more and the model's end moves: what it says may then be another thing.
        assert len(shorter.text) > len(SEEN)
    assert outcome.strength is not None
    assert shorter.strength is not None
    assert (outcome.strength.words, outcome.strength.without) == (shorter.strength.words, shorter.strength.without)
    assert all(other.endswith(UNSEEN) for batch in asked.batches for other in batch)
    # Told nothing, it asks about words that cannot matter.
    blind = Truncating()
    assert attacked(SEEN + UNSEEN, recipe, blind).strength.words == shorter.strength.words + 9
    assert not all(other.endswith(UNSEEN) for batch in blind.batches for other in batch)


def test_unseen_words_have_no_importance() -> None:
    seen = Truncating().seen(SEEN + UNSEEN)
    shorter = leave_one_out(SEEN, "deletion")
    longer = leave_one_out(SEEN + UNSEEN, "deletion", seen=seen)
    assert [text.split() for text in longer] == [(text + UNSEEN).split() for text in shorter]
    assert len(leave_one_out(SEEN + UNSEEN, "deletion")) == len(shorter) + 9
    service = ScoringService(LetterCounter(), max_bytes=0)
    [found] = word_importances(service, [at(1.0)], [Example(SEEN + UNSEEN, 0, seen)], "saliency")
    assert found is not None
    assert found.shape == (1, len(shorter))


def test_words_that_begin_within_reach_are_seen() -> None:
    assert seen_words(watched("one two three", lambda: None), (7,)) == [2]
    assert seen_words(watched("one two three", lambda: None), (8,)) == [2]
    assert seen_words(watched("one two three", lambda: None), (9,)) == [3]
    assert seen_words(watched(("one two", "two three"), lambda: None), (4, 5)) == [1, 2]


def edited(asked: Sequence[Text], pair: tuple[str, str]) -> list[bool]:
    return [any(other[place] != part for other in asked) for place, part in enumerate(pair)]


@pytest.mark.parametrize(
    ("parts", "expected"),
    [
        ("published", [False, True]),
        ("both", [True, True]),
        ("premise", [True, False]),
        ("hypothesis", [False, True]),
    ],
)
def test_parts_of_pairs_are_edited_as_asked(parts, expected) -> None:
    from textattack.constraints.pre_transformation import InputColumnModification

    recipe = load_recipe("deepwordbug", Library.of())
    # As TextFooler is published.
    built = type(recipe.built)(
        recipe.built.goal_function,
        [
            *recipe.built.constraints,
            *recipe.built.pre_transformation_constraints,
            InputColumnModification(["premise", "hypothesis"], {"premise"}),
        ],
        recipe.built.transformation,
        recipe.built.search_method,
    )
    for search in (lambda one: one, searching_labels):
        asked = LetterCounter()
        attacked(PAIR, search(dataclasses.replace(recipe, built=built)), asked, pair_parts=parts)
        assert edited([text for batch in asked.batches for text in batch], PAIR) == expected
    # A text that is no pair has no parts to leave alone.
    assert attacked(SEEN, recipe, LetterCounter(), pair_parts=parts) == attacked(SEEN, recipe, LetterCounter())


def test_of_a_pair_each_part_is_left_alone_where_it_is_not_seen() -> None:
    asked = Truncating()
    attacked(PAIR, load_recipe("deepwordbug", Library.of()), asked, seen=asked.seen(PAIR))
    tried = [text for batch in asked.batches for text in batch]
    assert edited(tried, PAIR) == [True, True]
    for other in tried:
        for before, after in zip_longest(PAIR, other):
            assert after.endswith(before[before.index(" ", 12) :])


def test_the_seen_part_of_a_text_is_probed_alone() -> None:
    from workers.families.temperature_attack.probe import edit_path

    path = edit_path(SEEN + UNSEEN, 3, 40, (len(SEEN),))
    assert len(path) == len(edit_path(SEEN, 3, 40))
    assert all(text.endswith(UNSEEN) for text in path)
    assert not all(text.endswith(UNSEEN) for text in edit_path(SEEN + UNSEEN, 3, 40))
    assert torch.is_tensor(Truncating().of(path[-1]))
