"""Edits of TextAttack's that would tear a character apart, kept out of an attack."""

from functools import cache
from typing import Any

from seatrial.noise.graphemes import graphemes, is_torn


def keep_characters_whole(attack: Any, text: str) -> None:
    """Let an attack write no candidate that tears a grapheme cluster apart.

    TextAttack edits code points: it takes an accent off its letter, or moves it to the letter before. Nothing changes
    for a text whose every cluster is one code point, as it is in ASCII.

    Args:
        attack: Of one example; its own constraints stay.
        text: What is attacked.
    """
    clusters = graphemes(text)
    if len(clusters) < len(text):
        attack.constraints = [_constraint()(), *attack.constraints]


@cache
def _constraint() -> type[Any]:
    from textattack.constraints import Constraint

    class WholeCharacters(Constraint):  # type: ignore[misc]
        """Refuse texts in which a cluster is torn apart, or a new one stands."""

        def __init__(self) -> None:
            super().__init__(compare_against_original=False)

        def _check_constraint(self, transformed_text: Any, reference_text: Any) -> bool:
            return not is_torn(reference_text.text, transformed_text.text)

    return WholeCharacters
