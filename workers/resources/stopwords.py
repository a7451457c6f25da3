"""The stopword list TextAttack's recipes leave alone, shipped with the package."""

from functools import cache

from workers.resources.checksums import LEXICONS

SHIPPED = LEXICONS / "stopwords-english.txt"


@cache
def english() -> tuple[str, ...]:
    """Return NLTK's English stopwords, 198 of them, in the order of its file.

    >>> len(english()), english()[:3]
    (198, ('a', 'about', 'above'))
    """
    return tuple(SHIPPED.read_text("utf-8").split())


class ShippedStopwords:
    """Stands where NLTK's reader of its stopwords corpus stands, whatever the machine has of that corpus.

    NLTK's own reader refuses files another account may write to, as in a checkout shared by a group.
    """

    def fileids(self) -> list[str]:
        """Return the languages there are."""
        return ["english"]

    def words(self, fileids: str = "english") -> list[str]:
        """Return the stopwords of a language.

        Raises:
            LookupError: It is another one than English.
        """
        if fileids != "english":
            raise LookupError(f"there are no stopwords of {fileids!r}, only of 'english'")
        return list(english())
