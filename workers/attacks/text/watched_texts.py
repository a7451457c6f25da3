"""TextAttack's texts, watched: a search can be stopped in the middle of writing candidates, and long texts can be held.

A text of 5,000 words has 5,000 candidates of 5,000 words before the first question is asked.
"""

from collections import OrderedDict
from collections.abc import Callable, Sequence
from functools import cache, lru_cache
from types import FunctionType
from typing import Any

import torch
from rapidfuzz.distance import Levenshtein

from seatrial.noise.unspaced import is_unspaced
from workers.attacks.text.unspaced_words import first_words, whole_words
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
    attacked.check, attacked._keeps_words = check, any(map(is_unspaced, parts))
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


def within_edits(reference: str, text: str, most: int) -> bool:
    """Return whether two texts are at most so many edits of a character apart (Levenshtein).

    The library TextAttack asks takes 2.7 ms for two texts of 200 words: half of an attack's own time.
    """
    return Levenshtein.distance(reference, text, score_cutoff=most) <= most


@cache
def _watched_text() -> type[Any]:
    # Not at the top: it takes 5 s and needs the environment prepared.
    from textattack.shared import AttackedText, attacked_text
    from textattack.shared.utils import words_from_text

    def words_inside(text: str) -> list[str]:
        return whole_words(text, words_from_text)

    known_words = lru_cache(maxsize=KNOWN_WORDS)(lambda text: tuple(words_inside(text)))

    def words_of(text: str) -> list[str]:
        # For every candidate TextAttack cuts every one of its words into words again: four fifths of an attack's own
        # time. It cuts at white space first, except a text with Chinese characters, which it has segmented as a whole.
        if is_unspaced(text):
            return first_words(text, words_from_text)
        return [
            word
            for chunk in text.split()
            for word in (known_words(chunk) if len(chunk) <= WORD_CHARACTERS else words_inside(chunk))
        ]

    own = AttackedText.generate_new_attacked_text
    known = vars(attacked_text)
    made_from_words = FunctionType(own.__code__, {**known, "words_from_text": words_of})
    made_from_pieces = FunctionType(own.__code__, {**known, "words_from_text": words_inside})

    class WatchedText(AttackedText):  # type: ignore[misc]
        """A text that can be interrupted while its descendants are made."""

        check: Callable[[], None]
        _places: list[int] | None = None
        _words: list[str] | None
        _words_per_input: list[list[str]] | None
        _keeps_words = False

        def __init__(self, *of: Any, words: list[str] | None = None, **options: Any) -> None:
            self._kept = words
            super().__init__(*of, **options)

        @property
        def words(self) -> list[str]:
            if not self._words:
                self._words = self._kept or words_of(self.text)
            return self._words

        @property
        def words_per_input(self) -> list[list[str]]:
            if not self._words_per_input:
                self._words_per_input = _parted(self.words, list(self._text_input.values()))
            return self._words_per_input

        def generate_new_attacked_text(self, new_words: Sequence[str]) -> Any:
            self.check()
            made = self._with_words_swapped(new_words)
            if made is None:
                made = (made_from_pieces if self._keeps_words else made_from_words)(self, new_words)
                made.__class__ = type(self)
                # Made by TextAttack, it may have cut itself into words.
                made._words, made._kept = None, None
                if self._keeps_words:
                    made._kept = [word for new in new_words for word in words_inside(new)]
            made.check, made._keeps_words = self.check, self._keeps_words
            if not self._keeps_words and len(made.words) > LONG_WORDS:
                # Read again from the text when asked for.
                made._words = None
            return made

        def _with_words_swapped(self, new_words: Sequence[str]) -> Any:
            """Return what TextAttack makes where words are replaced one by one; None where it is more than that.

            TextAttack walks along all words for that; nearly all are as they were.
            """
            words = self.words
            if len(self._text_input) > 1 or len(new_words) != len(words):
                return None
            swapped = [place for place, (old, new) in enumerate(zip(words, new_words, strict=True)) if old != new]
            # A word that is none, or several, moves all that stand behind it.
            one = words_inside if self._keeps_words else words_of
            if any(len(one(new_words[place])) != 1 for place in swapped):
                return None
            if self._places is None:
                self._places = _places(self.text, words, one)
            if len(self._places) != len(words):
                return None
            pieces, end = [], 0
            for place in swapped:
                pieces += [self.text[end : self._places[place]], new_words[place]]
                end = self._places[place] + len(words[place])
            of = self.attack_attrs
            attributes = {"label_names": of["label_names"]} if "label_names" in of else {}
            attributes |= {
                "newly_modified_indices": set(swapped),
                "previous_attacked_text": self,
                "modified_indices": of["modified_indices"] | set(swapped),
                "original_index_map": of["original_index_map"].copy(),
            }
            [column] = self._text_input
            made = OrderedDict([(column, "".join([*pieces, self.text[end:]]))])
            return type(self)(made, attack_attrs=attributes, words=list(new_words) if self._keeps_words else None)

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


def _parted(words: Sequence[str], parts: Sequence[str]) -> list[list[str]]:
    """Return the words of each part of a text, given those of the whole in order."""
    found: list[list[str]] = []
    at = 0
    for part in parts:
        end, mine = 0, []
        while at < len(words) and (place := part.find(words[at], end)) >= 0:
            end = place + len(words[at])
            mine.append(words[at])
            at += 1
        found.append(mine)
    return found


def _places(text: str, words: Sequence[str], words_of: Callable[[str], list[str]]) -> list[int]:
    """Return where each word begins, as TextAttack finds it; fewer where one is not a word by itself."""
    places, end = [], 0
    for word in words:
        if len(words_of(word)) != 1:
            break
        places.append(text.index(word, end))
        end = places[-1] + len(word)
    return places
