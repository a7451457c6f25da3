"""Endpoints that correct spelling and fall to what the recipes do not write, by somebody who had read the docs alone.

The recipes edit letters of words that say something: they leave function words alone, draw no word out, and add none.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from benchmarks.fresh_text_fakes import Corrected
from benchmarks.text_fakes import Endpoint, LogOdds
from seatrial.noise.lexicons import stopwords

SHORT = 4
"""Letters of a word that is taken for a function word where it is not known, at most."""

MISSPELT = 2
"""Function words from which on that are misspelt a text is another."""

FEW_WORDS = 3
"""Words that a last sentence has at least."""


@dataclass
class Begun(Endpoint):
    """Answers callers whose first request is of several texts, and others with a model of its own.

    Attributes:
        others: Who answers those.
        several: Whether the caller has begun with several; None before it has.
    """

    others: Callable[[str], Tensor] = field(default=lambda text: torch.zeros(2))
    several: bool | None = None

    def begin_session(self) -> None:
        """Be asked by another caller."""
        self.several = None

    def logits(self, texts: Sequence[str]) -> list[Tensor]:
        """Return what it says to each text, in order."""
        if self.several is None:
            self.several = len(texts) > 1
        return [(self.answer if self.several else self.others)(text) for text in texts]


def unread(odds: LogOdds, vocabulary: Sequence[str], model: Callable[[str], Tensor]) -> list[Endpoint]:
    """Return the endpoints.

    Args:
        odds: Whose decisions they serve.
        vocabulary: Texts that hold the words they know.
        model: What serves them as they are.
    """
    words = sorted({word for text in vocabulary for word in text.lower().split()})
    known = frozenset(words)

    def misspelt(text: str) -> int:
        short = (word for word in text.lower().split() if 1 < len(word) <= SHORT and word not in known)
        return sum(reads(word) in stopwords() for word in short)

    def last_sentence(text: str) -> Tensor:
        parts = [part for part in re.split(r"(?<=[.!?])\s+", text.strip()) if len(part.split()) >= FEW_WORDS]
        return corrected(parts[-1] if parts else text)

    def corrector(turns: Callable[[str], bool]) -> Corrected:
        return Corrected(odds, words, turns)

    corrected = corrector(lambda text: False)
    reads = corrected.reads
    return [
        Endpoint(
            "corrects spelling, turns at misspelt function words",
            corrector(lambda text: misspelt(text) >= MISSPELT),
            fake=True,
        ),
        Endpoint(
            "corrects spelling, turns at a drawn-out word",
            corrector(lambda text: re.search(r"([a-z])\1\1", text.lower()) is not None),
            fake=True,
        ),
        Endpoint("corrects spelling, its last sentence decides", last_sentence, fake=True),
        Begun("corrects spelling for callers that begin with several", corrected, fake=True, others=model),
    ]
