"""The tables the attackers draw from: misspellings, spellings that sound alike, look-alikes, and the stopwords.

Four are shipped (``data/``, whose NOTICE.md has their licences); two more are an operator's to install, into the folder
``SEATRIAL_RESOURCES`` names. workers/resources/SOURCES.md says where each comes from.
"""

import json
import lzma
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache, lru_cache
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal, TypeAlias

from seatrial.contracts.noise import ATTACKERS, COMBINED, Noise

DATA = Path(__file__).parent / "data"

STOPWORDS = DATA / "stopwords-english.txt"
CODESPELL = DATA / "typos-codespell.tsv.xz"
RESPELLINGS = DATA / "respellings.tsv.xz"
DEJAVU = {"dejavu": DATA / "glyphs-dejavu.json", "dejavu_bmp": DATA / "glyphs-dejavu-bmp.json"}

INSTALLED = {
    "typos-nlpaug": Path("typos-nlpaug") / "spelling_en.txt",
    "confusables": Path("confusables") / "confusables.json",
}
"""Files of the resources that are installed, in the folder of resources."""

Typos: TypeAlias = Literal["codespell", "nlpaug"]
Glyphs: TypeAlias = Literal["dejavu", "dejavu_bmp", "confusables"]
Weighted: TypeAlias = tuple[tuple[str, float], ...]


class LexiconError(Exception):
    """A lexicon is not installed, or its file is not what it should be; the message says which and why."""


@dataclass(frozen=True)
class Lacking:
    """A resource some noise cannot be made without.

    Attributes:
        field: The parameter that asks for it, ``typos`` or ``glyphs``.
        resource: Its name among ``seatrial resources``.
        why: What was looked for, and where.
        command: What installs it.
    """

    field: str
    resource: str
    why: str
    command: str


class Lexicons:
    """Tables by name, each read when it is first asked for and once in a process; none can be changed.

    Args:
        folder: What ``SEATRIAL_RESOURCES`` names; it need not exist. None: there is only what is shipped.
    """

    def __init__(self, folder: Path | None) -> None:
        self._folder = folder

    def typos(self, source: Typos) -> Mapping[str, tuple[str, ...]]:
        """Return misspellings of words, upper and lower case apart; some words are among their own.

        Raises:
            LexiconError: The table of ``nlpaug`` is not installed, or damaged.
        """
        return _codespell() if source == "codespell" else self._installed("typos-nlpaug", read_nlpaug)

    def respellings(self) -> Mapping[str, Weighted]:
        """Return other spellings of lower-case words that sound alike, with weights that sum to 1, likeliest first."""
        return _respellings()

    def glyphs(self, source: Glyphs) -> Mapping[str, Weighted]:
        """Return look-alikes of characters with weights, nearest first: cosines of their images, or 1 for each.

        Raises:
            LexiconError: ``confusables`` is not installed, or damaged.
        """
        return self._installed("confusables", read_confusables) if source == "confusables" else _dejavu(source)

    def lacking(self, noise: Noise, attackers: Iterable[str]) -> Lacking | None:
        """Return the first resource some attackers lack for a noise, None where all can run.

        ``combined`` draws among the others named; named alone, among all.

        >>> lacking = Lexicons(None).lacking(Noise(typos="nlpaug"), ["natural_typo"])
        >>> lacking.field, lacking.command
        ('typos', 'seatrial resources install typos-nlpaug')
        >>> Lexicons(None).lacking(Noise(typos="nlpaug"), ["visual"])
        """
        named = set(attackers)
        named = set(ATTACKERS) if named == {COMBINED} else named
        for attacker, field, resource, read in (
            ("natural_typo", "typos", "typos-nlpaug", lambda: self.typos(noise.typos)),
            ("visual", "glyphs", "confusables", lambda: self.glyphs(noise.glyphs)),
        ):
            if attacker in named:
                try:
                    read()
                except LexiconError as error:
                    return Lacking(field, resource, str(error), f"seatrial resources install {resource}")
        return None

    def _installed(self, resource: str, read: Callable[[Path], Mapping[str, Any]]) -> Mapping[str, Any]:
        if self._folder is None:
            raise LexiconError(f"{resource} is not shipped, and there is no folder of resources")
        path = self._folder / INSTALLED[resource]
        try:
            written = path.stat().st_mtime_ns
        except OSError:
            raise LexiconError(f"there is no {path}") from None
        return _read(read, path, written)


def stopwords() -> frozenset[str]:
    """Return NLTK's English stopwords, lower-case, 198 of them."""
    return frozenset(stopword_list())


@cache
def stopword_list() -> tuple[str, ...]:
    """Return NLTK's English stopwords in the order of its file.

    >>> len(stopword_list()), stopword_list()[:3]
    (198, ('a', 'about', 'above'))
    """
    return tuple(STOPWORDS.read_text("utf-8").split())


def read_nlpaug(path: Path) -> Mapping[str, tuple[str, ...]]:
    """Return the misspellings in a file of words, each line a word and its misspellings.

    Of two lines for one word the last counts, as in the paper's program (charNMT-noise, ``en.natural``).

    Raises:
        LexiconError: It is no such file.
    """
    try:
        lines = [line.split() for line in path.read_text("utf-8").split("\n")]
    except ValueError as error:
        raise LexiconError(f"{path} is no text: {error}") from error
    table = {line[0]: tuple(line[1:]) for line in lines if len(line) > 1}
    if not table or len(table) * 2 < len(lines):
        raise LexiconError(f"{path} is no table of misspellings: most of its lines are no words")
    return MappingProxyType(table)


def read_confusables(path: Path) -> Mapping[str, Weighted]:
    """Return the pairs of single characters in confusable-homoglyphs' JSON, in both directions, all of weight 1.

    Its list is Unicode's (UTS #39), where one of two is the other's skeleton: what shares a skeleton is not paired.

    Raises:
        LexiconError: It is no such file.
    """
    try:
        listed = json.loads(path.read_bytes())
        pairs = {(character, other["c"]) for character, others in listed.items() for other in others}
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise LexiconError(f"{path} is no list of confusables: {type(error).__name__}: {error}") from error
    table: dict[str, set[str]] = {}
    for one, other in pairs:
        if len(one) == len(other) == 1 and one != other:
            table.setdefault(one, set()).add(other)
            table.setdefault(other, set()).add(one)
    if not table:
        raise LexiconError(f"{path} is no list of confusables: it has no pair of characters")
    return MappingProxyType(
        {one: tuple((other, 1.0) for other in sorted(others)) for one, others in sorted(table.items())}
    )


@lru_cache(maxsize=8)
def _read(read: Callable[[Path], Mapping[str, Any]], path: Path, _: int) -> Mapping[str, Any]:
    # A file written anew is read anew.
    return read(path)


@cache
def _codespell() -> Mapping[str, tuple[str, ...]]:
    return MappingProxyType({word: tuple(rest.split()) for word, rest in _lines(CODESPELL)})


@cache
def _respellings() -> Mapping[str, Weighted]:
    return _Respellings(_lines(RESPELLINGS))


@cache
def _dejavu(source: str) -> Mapping[str, Weighted]:
    listed: dict[str, list[tuple[str, float]]] = json.loads(DEJAVU[source].read_bytes())
    return MappingProxyType({one: tuple((other, weight) for other, weight in others) for one, others in listed.items()})


def _lines(path: Path) -> Iterator[tuple[str, str]]:
    """Yield the first column and the rest of each line."""
    with lzma.open(path, "rt", encoding="utf-8") as file:
        for line in file:
            word, _, rest = line.rstrip("\n").partition("\t")
            yield word, rest


class _Respellings(Mapping[str, Weighted]):
    """Respellings by word, split when a word is looked up: unpacked all take 48 MB, packed 22."""

    def __init__(self, lines: Iterable[tuple[str, str]]) -> None:
        self._lines = dict(lines)

    def __getitem__(self, word: str) -> Weighted:
        spellings, _, hundredths = self._lines[word].partition("\t")
        counts = [int(count) for count in hundredths.split()]
        # Those the table leaves out have taken their hundredths with them.
        whole = sum(counts)
        return tuple((spelling, count / whole) for spelling, count in zip(spellings.split(), counts, strict=True))

    def __contains__(self, word: object) -> bool:
        return word in self._lines

    def __iter__(self) -> Iterator[str]:
        return iter(self._lines)

    def __len__(self) -> int:
        return len(self._lines)
