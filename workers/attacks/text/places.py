"""Where in a text an attack may write: which parts of a pair, and no word that does not reach the model."""

from collections.abc import Sequence
from functools import cache
from typing import Any

from seatrial.contracts.datasets import PairParts

PARTS = ("premise", "hypothesis")


def edit_parts(attack: Any, parts: PairParts) -> None:
    """Let an attack edit these parts of a pair, whatever its recipe was published with.

    Args:
        attack: Of one example; of a text that is no pair it stays as it is.
        parts: ``published`` changes nothing: TextFooler alone edits one part, the hypothesis.
    """
    if parts == "published":
        return
    from textattack.constraints.pre_transformation import InputColumnModification

    rules = [each for each in attack.pre_transformation_constraints if not isinstance(each, InputColumnModification)]
    if parts != "both":
        rules.append(InputColumnModification(list(PARTS), set(PARTS) - {parts}))
    attack.pre_transformation_constraints = rules


def leave_unseen(attack: Any, original: Any, seen: Sequence[int]) -> None:
    """Let an attack leave the words alone that begin behind what the model sees of a text.

    Args:
        attack: Of one example.
        original: The text it begins with.
        seen: Characters of each part that reach the model.
    """
    rule = seen_rule()(seen_words(original, seen))
    attack.pre_transformation_constraints = [*attack.pre_transformation_constraints, rule]


def seen_words(original: Any, seen: Sequence[int]) -> list[int]:
    """Return how many words of each part begin within what the model sees."""
    counts = []
    for words, part, most in zip(original.words_per_input, original._text_input.values(), seen, strict=True):
        end, count = 0, 0
        for word in words:
            start = part.index(word, end)
            if start >= most:
                break
            end, count = start + len(word), count + 1
        counts.append(count)
    return counts


@cache
def seen_rule() -> type[Any]:
    """Return the class of the rule that leaves words alone."""
    from textattack.constraints import PreTransformationConstraint

    class SeenWords(PreTransformationConstraint):  # type: ignore[misc]
        """Allow the first words of each part alone."""

        def __init__(self, counts: Sequence[int]) -> None:
            self.counts = counts

        def _get_modifiable_indices(self, current_text: Any) -> set[int]:
            allowed: set[int] = set()
            begin = 0
            for words, count in zip(current_text.words_per_input, self.counts, strict=True):
                allowed.update(range(begin, begin + min(count, len(words))))
                begin += len(words)
            return allowed

    return SeenWords
