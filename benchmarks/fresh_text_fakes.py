"""Endpoints of texts that undo the edits the recipes write, and fall to others that are as small."""

import re
import unicodedata
from collections.abc import Callable, Sequence
from functools import cache

from rapidfuzz.distance import OSA
from rapidfuzz.process import extractOne
from torch import Tensor

from benchmarks.text_fakes import Endpoint, LogOdds, probability, sigmoid

ZERO_WIDTH = "\u200b"

OWN = 0.1
"""Share of the words as they were written in the log-odds."""

EDITS: dict[str, Callable[[str], str]] = {
    "the last character off": lambda text: text[:-1],
    "two spaces after the first word": lambda text: text.replace(" ", "  ", 1),
    "the first word twice": lambda text: text.split()[0] + " " + text,
    "an exclamation mark behind": lambda text: text + "!",
    "one invisible character": lambda text: text[:1] + ZERO_WIDTH + text[1:],
}
"""What flips each endpoint: at most some ten edits of a character, where DeepWordBug may make 30."""


class Corrected:
    """Reads every unknown word as the known one nearest to it, and turns round at a sign.

    Args:
        odds: The model.
        words: What it knows.
        turns: Whether a text has the sign.
    """

    def __init__(self, odds: LogOdds, words: Sequence[str], turns: Callable[[str], bool]) -> None:
        self._odds, self._words, self._known, self._turns = odds, words, frozenset(words), turns
        self._shuffled = {(word[:1], word[-1:], "".join(sorted(word))): word for word in words}
        self.reads = cache(self._found)

    def __call__(self, text: str) -> Tensor:
        """Return logits."""
        odds = self.log_odds(text)
        return probability(sigmoid(-odds if self._turns(text) else odds))

    def log_odds(self, text: str) -> float:
        """Return the log-odds of a text as it is read, whether it has the sign or not."""
        plain = text.replace(ZERO_WIDTH, "").rstrip("!").lower()
        read = self._odds(" ".join(self.reads(word) for word in plain.split()))
        # What was written counts a little, so that scores move with every edit as they should.
        return OWN * self._odds(plain) + (1 - OWN) * read

    def _found(self, word: str) -> str:
        if word in self._known:
            return word
        folded = unicodedata.normalize("NFKD", word)
        folded = "".join(letter for letter in folded if not unicodedata.combining(letter))
        # Letters in another order first, then the fewest edits; what is nearer to nothing says nothing.
        if same := self._shuffled.get((folded[:1], folded[-1:], "".join(sorted(folded)))):
            return same
        found = extractOne(folded, self._words, scorer=OSA.distance, score_cutoff=max(1, len(folded) // 2))
        return found[0] if found else ""


def fresh(odds: LogOdds, vocabulary: Sequence[str]) -> list[Endpoint]:
    """Return the endpoints, in the order of ``EDITS`` and named by what flips them.

    Args:
        odds: Whose decisions they serve.
        vocabulary: Texts that hold the words they know.
    """
    words = sorted({word for text in vocabulary for word in text.lower().split()})
    signs: list[Callable[[str], bool]] = [
        lambda text: text[-1:].isspace() or text[-1:].isalnum(),
        lambda text: "  " in text,
        lambda text: bool(re.match(r"(\w+) \1\b", text)),
        lambda text: text.endswith("!"),
        lambda text: ZERO_WIDTH in text,
    ]
    return [
        Endpoint(f"corrects spelling, not {name}", Corrected(odds, words, turns), fake=True)
        for name, turns in zip(EDITS, signs, strict=True)
    ]
