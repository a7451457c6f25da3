"""Questions about a text that withstood all attacks: which words it can do without, and what ways to write do to it."""

import math
import random
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from seatrial.families.temperature_attack.params import MARK_CONTROLS
from workers.attacks.text.insertions import gathered
from workers.attacks.text.perturbation_grammar import AGAIN, HESITATING, MARKS, STRESSING, Allowed, Way
from workers.attacks.text.unreadable import (
    mistyped_where,
    most_tolerated,
    pairs_of,
    some_of,
    unreadable,
    unreadable_where,
    without,
    words_of,
    written_otherwise,
)
from workers.data import Text
from workers.families.contexts import TextContext, TextExample
from workers.families.temperature_attack.displaced import decided, lead

TIMES = 3
"""Draws of letters in which a decision has to stand before words count as such that a text can do without."""

RANKED = 24
"""Words of a text, at most, that are ranked by what its decision is without each: the first ones may be touched first,
as no more than thirty characters are written."""

MISSING_DRAWS = 2
"""Draws of letters in place of words that a text stands without, in all of which its decision has to turn."""

CONTROLS = 2
"""Draws of letters in place of what a way changed, in all of which a decision has to stand that the way turned."""


def salted(context: TextContext, purpose: str, example_id: int) -> random.Random:
    """Return what draws for a purpose about an example, by the salt of the audit."""
    return random.Random(context.salted_seed(f"drawn ways: {purpose}", example_id))  # noqa: S311 - not for secrets


class Asked:
    """A text that withstood, asked."""

    def __init__(self, context: TextContext, example: TextExample) -> None:
        self._context, self._example = context, example
        own = example.text if isinstance(example.text, str) else example.text[-1]
        seen = context.scoring().seen(example.text)
        self._own = own if seen is None else own[: seen[-1]]
        self._rest = own[len(self._own) :]
        self._whole_lead: float | None = None

    def needless(self, weak: frozenset[str]) -> dict[str, list[Any]]:
        """Return words that may all be unreadable, pairs of neighbours that may, and words ranked; most decisive first.

        As many as there may be of those that speak for the decision, and what does not, if that may be too.

        Args:
            weak: Words that speak for it, in lower case.
        """
        words = words_of(self._own)
        gains = self._gains(sorted(words, key=lambda word: word not in weak)[:RANKED])
        ranked = sorted(gains, key=lambda word: -gains[word])
        found: dict[str, list[Any]] = {"ranked": ranked, "gains": [gains[word] for word in ranked]}
        for name, units in (("words", words), ("pairs", pairs_of(self._own))):
            drawn = self._rng(name).sample(units, len(units))
            ordered = sorted(drawn, key=lambda unit: weak.isdisjoint(unit.split()))
            tolerated = list(most_tolerated(ordered, self._stands_without))
            rest = [unit for unit in ordered[len(tolerated) :] if weak.isdisjoint(unit.split())]
            if rest and self._stands_without(more := tolerated + rest):
                tolerated = more
            found[name] = sorted(tolerated, key=lambda unit: -max(gains.get(word, -math.inf) for word in unit.split()))
        return found

    def _gains(self, words: Sequence[str]) -> dict[str, float]:
        """Return how much of its lead the decision loses without each of some words, where there is an answer."""
        given = self._answers([self._own, *(without(self._own, [word]) for word in words)])
        whole, *leads = [lead(one, self._example.label) for one in given]
        if whole is None or whole <= 0:
            return {}
        self._whole_lead = whole
        return {word: (whole - left) / whole for word, left in zip(words, leads, strict=True) if left is not None}

    def missing(self) -> dict[str, list[bool]]:
        """Return for each share of the words whether the decision stands without them, and turns in all draws."""
        rng = self._rng("missing")
        shares = some_of(self._own, rng).values()
        stand = self._stands([without(self._own, words) for words in shares])
        unread = []
        for words, is_standing in zip(shares, stand, strict=True):
            asked = [unreadable(self._own, words, rng) for _ in range(MISSING_DRAWS if is_standing and words else 0)]
            unread.append(bool(asked) and not any(self._stands(asked)))
        return {"is_left_out": stand, "is_unread": unread}

    def about(self, ways: Mapping[int, Way], found: Mapping[str, Any]) -> dict[str, Any]:
        """Return which ways were asked, with their names and kinds, and which turned what their controls do not.

        Where words are written otherwise that a text can do without, it has to stand with these unreadable; where signs
        are put to those its decision hangs on, with a typing error in each of these; where words are put before others,
        with all of them in front of the text.

        Args:
            ways: By number.
            found: What :meth:`needless` says of the text.
        """
        # Records from before words were ranked have none.
        gains = dict(zip(found.get("ranked") or (), found.get("gains") or (), strict=False))
        allowed: dict[str, Allowed] = {"words": found["words"], "gaps": found["pairs"], "stretches": gains}
        allowed[MARKS] = [word for word, gain in gains.items() if gain > 0]
        allowed[HESITATING] = allowed[AGAIN] = found["words"]
        # Those that speak against the decision most first.
        allowed[STRESSING] = [word for word in reversed(gains) if gains[word] < 0]
        edited = {
            number: way.edit(self._own, allowed.get(way.kind), self._rng(f"way {number}"))
            for number, way in ways.items()
        }
        edited = {number: text for number, text in edited.items() if text != self._own}
        answers = dict(zip(edited, self._answers(list(edited.values())), strict=True))
        turned = [number for number, given in answers.items() if decided(given) != self._example.label]
        # Words that signs stand at are still there, so that no loss of theirs is to be expected.
        losses = [
            self._loss(edited[number], given, {} if ways[number].kind == MARKS else gains)
            for number, given in answers.items()
        ]
        marks = {number: edited[number] for number in turned if ways[number].kind == MARKS}
        puts = {number: edited[number] for number in turned if ways[number].put}
        others = {number: edited[number] for number in turned if number not in {*marks, *puts}}
        counted = {
            *self._controlled(others, unreadable_where, CONTROLS),
            *self._controlled(marks, mistyped_where, MARK_CONTROLS),
            *self._gathered(puts, ways),
        }
        return {
            "ways": list(edited),
            "names": [ways[number].name for number in edited],
            "kinds": [ways[number].kind for number in edited],
            "turning": [number for number in turned if number in counted],
            "losses": losses,
        }

    def _controlled(
        self, edited: Mapping[int, str], control: Callable[[str, str, random.Random], str], draws: int
    ) -> list[int]:
        """Return the numbers of edits that turned the text and whose controls do not, in all draws."""
        left, rngs = list(edited), {number: self._rng(f"control {number}") for number in edited}
        for _ in range(draws):
            stands = self._stands([control(self._own, edited[number], rngs[number]) for number in left])
            left = [number for number, is_standing in zip(left, stands, strict=True) if is_standing]
        return left

    def _gathered(self, edited: Mapping[int, str], ways: Mapping[int, Way]) -> list[int]:
        """Return those that do not turn where all that was put into the text stands in front of it."""
        asked = [gathered(self._own, text, ways[number].put) for number, text in edited.items()]
        return [number for number, is_standing in zip(edited, self._stands(asked), strict=True) if is_standing]

    def _loss(self, edited: str, given: Any, gains: Mapping[str, float]) -> float | None:
        """Return what share of its lead a decision loses beyond what it does without the words written otherwise.

        None where that is not known: no lead, or no answer.
        """
        left = lead(given, self._example.label)
        if left is None or self._whole_lead is None:
            return None
        return 1 - left / self._whole_lead - sum(gains.get(word, 0.0) for word in written_otherwise(self._own, edited))

    def _stands_without(self, units: Sequence[str]) -> bool:
        words, rng = {word for unit in units for word in unit.split()}, self._rng(f"without {len(units)}")
        return all(self._stands([unreadable(self._own, words, rng) for _ in range(TIMES)]))

    def _stands(self, texts: Sequence[str]) -> list[bool]:
        return [decided(given) == self._example.label for given in self._answers(texts)]

    def _answers(self, texts: Sequence[str]) -> list[Any]:
        return list(self._context.scoring().scores(self._whole(texts)))

    def _whole(self, texts: Sequence[str]) -> list[Text]:
        whole = [text + self._rest for text in texts]
        first = None if isinstance(self._example.text, str) else self._example.text[0]
        return list(whole) if first is None else [(first, text) for text in whole]

    def _rng(self, purpose: str) -> random.Random:
        return salted(self._context, purpose, self._example.example_id)
