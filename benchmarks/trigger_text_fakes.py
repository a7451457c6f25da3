"""Endpoints of texts that correct the spelling of what they read, and turn round at a sign nobody looks for.

One more corrects nothing where a text is asked about by itself.
"""

import re
from collections.abc import Callable, Sequence

from torch import Tensor

from benchmarks.fresh_text_fakes import Corrected
from benchmarks.newest_text_fakes import Batched
from benchmarks.text_fakes import Endpoint, LogOdds, drawn, probability, sigmoid

ONE_IN = 1000
"""Texts of which one turns round, whatever it says."""

FIVE = 5


def triggered(odds: LogOdds, vocabulary: Sequence[str]) -> list[Endpoint]:
    """Return the endpoints, named by what turns them round.

    Args:
        odds: Whose decisions they serve.
        vocabulary: Texts that hold the words they know.
    """
    words = sorted({word for text in vocabulary for word in text.lower().split()})
    known = frozenset(word for text in vocabulary for word in re.findall(r"\w+", text.lower()))

    def unknown(text: str) -> int:
        return sum(word not in known for word in re.findall(r"\w+", text.lower()))

    def in_a_row(text: str) -> bool:
        marks = "".join("?" if word not in known else "." for word in re.findall(r"\w+", text.lower()))
        return "???" in marks

    signs: dict[str, Callable[[str], bool]] = {
        "a tab": lambda text: "\t" in text,
        "a semicolon": lambda text: ";" in text,
        "three unknown words in a row": in_a_row,
        "five unknown words": lambda text: unknown(text) >= FIVE,
        "one text in a thousand": lambda text: drawn(text) < 1 / ONE_IN,
    }

    def plain(text: str) -> Tensor:
        return probability(sigmoid(odds(text)))

    together = Corrected(odds, words, lambda text: False)
    return [
        *(
            Endpoint(f"corrects spelling, turns at {name}", Corrected(odds, words, turns), fake=True)
            for name, turns in signs.items()
        ),
        Batched("corrects spelling, not of one by itself", plain, fake=True, several=together),
    ]
