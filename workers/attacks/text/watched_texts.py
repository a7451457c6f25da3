"""TextAttack's texts, watched: a search can be stopped in the middle of writing candidates, and long texts can be held.

A text of 5,000 words has 5,000 candidates of 5,000 words before the first question is asked.
"""

from collections import OrderedDict
from collections.abc import Callable, Sequence
from functools import cache, lru_cache
from types import FunctionType
from typing import Any

import torch

from workers.data import Text

LONG_WORDS = 500
"""Candidates of longer texts do not keep their list of words, which takes ten times the text's own memory."""

KNOWN_WORDS = 2**16
"""Words whose parts are remembered."""

WORD_CHARACTERS = 40
"""Longer strings are no words."""

SEPARATOR = "<SPLIT>"
"""What TextAttack puts between the parts of a text, and cuts a text at wherever it finds it."""


class UnattackableTextError(Exception):
    """TextAttack or the model cannot handle this text."""


def watched(text: Text, check: Callable[[], None]) -> Any:
    """Return a ``textattack.shared.AttackedText`` that calls ``check`` before every new text made from it.

    Needs TextAttack to be prepared. Premise and hypothesis become columns of these names.

    Raises:
        UnattackableTextError: The text holds half a character (a lone surrogate) or TextAttack's own separator.
    """
    parts = (text,) if isinstance(text, str) else text
    for part in parts:
        if SEPARATOR in part:
            raise UnattackableTextError(f"the text contains {SEPARATOR}, which TextAttack keeps for itself")
        if any("\ud800" <= character <= "\udfff" for character in part):
            raise UnattackableTextError("the text contains half a character (a lone surrogate)")
    columns = ("text",) if isinstance(text, str) else ("premise", "hypothesis")
    attacked = _watched_text()(OrderedDict(zip(columns, parts, strict=True)))
    attacked.check = check
    return attacked


def changed_share(original: Sequence[str], final: Sequence[str]) -> float:
    """Return the number of words replaced, removed and added, relative to the original's; 0 for no words."""
    from editdistance import eval as edit_distance  # type: ignore[import-untyped]

    if not original:
        return 0.0
    if len(original) == len(final):
        # As TextAttack counts; an edit distance could take two neighbours that swapped places for one.
        return sum(before != after for before, after in zip(original, final, strict=True)) / len(original)
    return float(edit_distance(original, final)) / len(original)


@cache
def _watched_text() -> type[Any]:
    # Not at the top: it takes 5 s and needs the environment prepared.
    from textattack.shared import AttackedText, attacked_text
    from textattack.shared.utils import words_from_text

    @lru_cache(maxsize=KNOWN_WORDS)
    def known_words(text: str) -> list[str]:
        found: list[str] = words_from_text(text)
        return found

    def words_of(text: str) -> list[str]:
        # For every candidate TextAttack cuts every one of its words into words again: four fifths of an attack's own
        # time. Only words are remembered; whole texts come once.
        return known_words(text).copy() if len(text) <= WORD_CHARACTERS else words_from_text(text)

    own = AttackedText.generate_new_attacked_text
    made_from_words = FunctionType(own.__code__, {**vars(attacked_text), "words_from_text": words_of})

    class WatchedText(AttackedText):  # type: ignore[misc]
        """A text that can be interrupted while its descendants are made."""

        check: Callable[[], None]

        def generate_new_attacked_text(self, new_words: Sequence[str]) -> Any:
            self.check()
            made = made_from_words(self, new_words)
            made.__class__ = type(self)
            made.check = self.check
            if len(made.words) > LONG_WORDS:
                # Read again from the text when asked for.
                made._words = None
            return made

        def free_memory(self) -> None:
            # TextAttack's own calls itself along the chain of ancestors and dies after a thousand words.
            text: Any = self
            while text is not None:
                attributes = text.attack_attrs
                text = attributes.pop("previous_attacked_text", None)
                attributes.pop("last_transformation", None)
                for name in [name for name, value in attributes.items() if isinstance(value, torch.Tensor)]:
                    del attributes[name]

    return WatchedText
