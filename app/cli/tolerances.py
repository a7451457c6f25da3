"""How far apart numbers may be and still count as the same, by family or for all."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from app.cli.exits import BadRequestError
from seatrial.contracts.near_names import instead
from seatrial.contracts.registry import families


@dataclass(frozen=True)
class Tolerances:
    """Largest differences that count as the same.

    Attributes:
        overall: Of families that are not named.
        by_family: Of those that are.
    """

    overall: float = 0.0
    by_family: Mapping[str, float] = field(default_factory=dict)

    @property
    def largest(self) -> float:
        """The largest of all."""
        return max((self.overall, *self.by_family.values()))

    def of(self, family: str) -> float:
        """Return the one of a family."""
        return self.by_family.get(family, self.overall)

    def __str__(self) -> str:
        """Return them for people.

        >>> str(Tolerances(0.1, {"of_one": 0.5})), str(Tolerances(0.25))
        ('0.1 (of_one 0.5)', '0.25')
        """
        named = ", ".join(f"{family} {value:g}" for family, value in self.by_family.items())
        return f"{self.overall:g} ({named})" if named else f"{self.overall:g}"


def read_tolerances(words: Sequence[str]) -> Tolerances:
    """Return what ``NUMBER`` and ``FAMILY=NUMBER`` say; the last of a kind counts.

    Raises:
        BadRequestError: One is neither, or names no family.

    >>> one, other = list(families())[:2]
    >>> read = read_tolerances(["0.001", f"{one}=0.01"])
    >>> read.of(one), read.of(other)
    (0.01, 0.001)
    """
    overall, by_family = 0.0, {}
    for word in words:
        family, equals, number = word.rpartition("=")
        try:
            value = float(number)
        except ValueError:
            value = -1.0
        if not 0 <= value < float("inf"):
            raise BadRequestError(f"--tolerance {word!r}: a number from 0 on, or FAMILY=NUMBER, is needed")
        if equals and family not in families():
            raise BadRequestError(f"--tolerance {word!r}: there is no family {family!r}{instead(family, families())}")
        if equals:
            by_family[family] = value
        else:
            overall = value
    return Tolerances(overall, by_family)
