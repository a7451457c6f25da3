"""The stopwords TextAttack's recipes leave alone, as TextAttack asks for them."""

from seatrial.noise.lexicons import stopword_list


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
        return list(stopword_list())
