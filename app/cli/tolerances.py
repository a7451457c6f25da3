"""How far apart numbers may be and still count as the same, by family or for all."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from app.cli.exits import BadRequestError
from seatrial.contracts.near_names import instead
from seatrial.contracts.registry import families, family


@dataclass(frozen=True)
class Tolerances:
    """Largest differences that count as the same.

    Attributes:
        overall: Of families that are not named; None where nothing is said, and then nothing may differ.
        by_family: Of those that are.
    """

    overall: float | None = None
    by_family: Mapping[str, float] = field(default_factory=dict)

    @property
    def largest(self) -> float:
        """The largest of all."""
        return max((self.overall or 0.0, *self.by_family.values()))

    def of(self, family: str) -> float:
        """Return the one of a family."""
        return self.by_family.get(family, self.overall or 0.0)

    def on_unlike_hardware(self, kinds: Iterable[str]) -> "Tolerances":
        """Return them with what the families of these kinds allow there, where nothing is said of them.

        >>> one, other = list(families())[:2]
        >>> Tolerances(by_family={one: 0.0}).on_unlike_hardware([one, other]).of(other) == family(other).unlike_hardware
        True
        >>> Tolerances(0.0).on_unlike_hardware([one, other]).largest
        0.0
        """
        if self.overall is not None:
            return self
        return Tolerances(None, {kind: family(kind).unlike_hardware for kind in kinds} | dict(self.by_family))

    def __str__(self) -> str:
        """Return them for people.

        >>> str(Tolerances(0.1, {"of_one": 0.5})), str(Tolerances(0.25)), str(Tolerances(None, {"of_one": 0.5}))
        ('0.1 (of_one 0.5)', '0.25', 'of_one 0.5')
        """
        named = ", ".join(f"{family} {value:g}" for family, value in self.by_family.items())
        if self.overall is None:
            return named or "0"
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
    overall: float | None = None
    by_family = {}
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
