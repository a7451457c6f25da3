"""Lexicons of a few entries, and words to attack."""

from collections.abc import Mapping

LETTERS = "abcdefghijklmnopqrstuvwxyz"


class FewLexicons:
    """Stands where Lexicons stands."""

    def __init__(
        self,
        typos: Mapping[str, tuple[str, ...]] | None = None,
        respellings: Mapping[str, tuple[tuple[str, float], ...]] | None = None,
        glyphs: Mapping[str, tuple[tuple[str, float], ...]] | None = None,
    ) -> None:
        self._typos = typos or {"their": ("thier", "ther"), "people": ("poeple",), "Friday": ("Firday",)}
        self._respellings = respellings or {"people": (("peepel", 2.0), ("peaple", 1.0)), "night": (("nite", 1.0),)}
        self._glyphs = glyphs or {letter: ((letter.upper(), 3.0), (f"{letter}\u0301", 1.0)) for letter in LETTERS}

    def typos(self, source: str) -> Mapping[str, tuple[str, ...]]:
        return self._typos

    def respellings(self) -> Mapping[str, tuple[tuple[str, float], ...]]:
        return self._respellings

    def glyphs(self, source: str) -> Mapping[str, tuple[tuple[str, float], ...]]:
        return self._glyphs


SENTENCE = "Most people saw their ships, at night; they can't count them on Friday."
