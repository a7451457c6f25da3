"""How likely letters spell a phoneme between two others, and what a pronunciation may be spelt.

Counts are of CMUdict's words, aligned by expectation maximisation (``phoneme_letters.json.xz``): how often each
phoneme, stress aside, is spelt by which letters, and how often so between which neighbours. ``#`` is the border of a
word.
"""

import json
import lzma
import math
from collections.abc import Mapping, Sequence
from pathlib import Path

COUNTS = Path(__file__).parent / "phoneme_letters.json.xz"
ENOUGH = 8
"""Fewer sightings of a phoneme between its neighbours than these say less than all its sightings."""
WIDTH = 60
"""Spellings followed at a time."""


class Spelling:
    """P(letters | phoneme and its neighbours), the neighbours left aside where they were seen too seldom.

    Args:
        counts: ``uni`` by phoneme, ``tri`` by three phonemes for the middle one: letters and how often.
    """

    def __init__(self, counts: Mapping[str, Mapping[str, Mapping[str, int]]]) -> None:
        self._alone = {phoneme: _shares(letters) for phoneme, letters in counts["uni"].items()}
        self._between = {
            tuple(three.split()): _shares(letters)
            for three, letters in counts["tri"].items()
            if sum(letters.values()) >= ENOUGH
        }

    @classmethod
    def counted(cls) -> "Spelling":
        """Return that of the counts kept here."""
        return cls(json.loads(lzma.decompress(COUNTS.read_bytes())))

    def shares(self, before: str, phoneme: str, after: str) -> Mapping[str, float]:
        """Return how likely letters spell a phoneme, likeliest first; they sum to 1."""
        return self._between.get((before, phoneme, after)) or self._alone[phoneme]

    def spellings(self, phonemes: Sequence[str], width: int = WIDTH) -> dict[str, float]:
        """Return the likeliest spellings of a pronunciation with their probabilities, likeliest first."""
        bordered = ("#", *phonemes, "#")
        found = {"": 1.0}
        for before, phoneme, after in zip(bordered, bordered[1:], bordered[2:], strict=False):
            longer: dict[str, float] = {}
            for spelling, probability in found.items():
                for letters, share in self.shares(before, phoneme, after).items():
                    longer[spelling + letters] = longer.get(spelling + letters, 0.0) + probability * share
            found = dict(sorted(longer.items(), key=lambda each: (-each[1], each[0]))[:width])
        return found

    def aligned(self, word: str, phonemes: Sequence[str]) -> list[tuple[str, str]] | None:
        """Return which letters of a word spell which of its phonemes, most likely; None where they cannot."""
        bordered = ("#", *phonemes, "#")
        best: dict[int, tuple[float, tuple[tuple[str, str], ...]]] = {0: (0.0, ())}
        for before, phoneme, after in zip(bordered, bordered[1:], bordered[2:], strict=False):
            reached: dict[int, tuple[float, tuple[tuple[str, str], ...]]] = {}
            for letters, share in self.shares(before, phoneme, after).items():
                for start, (cost, pairs) in best.items():
                    end = start + len(letters)
                    if word.startswith(letters, start):
                        total = cost - math.log(share)
                        if end not in reached or total < reached[end][0]:
                            reached[end] = (total, (*pairs, (letters, phoneme)))
            best = reached
        return list(best[len(word)][1]) if len(word) in best else None


def _shares(letters: Mapping[str, int]) -> dict[str, float]:
    total = sum(letters.values())
    return {each: count / total for each, count in sorted(letters.items(), key=lambda pair: (-pair[1], pair[0]))}
