"""What a verdict is made from: the stored numbers of an audit, as plain values."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from seatrial.contracts.estimates import Estimate, Looks, Result, split_name
from seatrial.contracts.policies import MetricName
from seatrial.contracts.problems import StoredProblem
from seatrial.contracts.states import RunState

ALPHA = 0.05
"""Of the intervals of an audit that is not looked at before its end."""


@dataclass(frozen=True)
class MeasuredCheck:
    """One check of an audit.

    Attributes:
        position: In the audit, from 0.
        kind: Family.
        state: Only that of a check that succeeded has numbers.
        result: Numbers.
        error: Why it failed.
        params: Parameters, defaults filled in.
    """

    position: int
    kind: str
    state: RunState
    result: Result | None
    error: StoredProblem | None
    params: Mapping[str, Any]

    @property
    def looks(self) -> Looks | None:
        """How it was looked at, where it was to stop when it is decided."""
        return None if self.result is None else self.result.looks

    @property
    def level(self) -> float:
        """Error rate of its intervals, both ends together."""
        return ALPHA if self.looks is None else self.looks.level

    def published(self, asked: MetricName) -> dict[str, Estimate]:
        """Return the estimates a metric names, by full name; `*` names those with any value of the qualifier."""
        if self.result is None:
            return {}
        return {
            f"{self.kind}.{name}": estimate for name, estimate in self.result.estimates.items() if is_named(asked, name)
        }


@dataclass(frozen=True)
class Measured:
    """An audit.

    Attributes:
        audit: Its id.
        checks: In the order asked.
    """

    audit: str
    checks: Sequence[MeasuredCheck]


@lru_cache(maxsize=4096)
def _parts(name: str) -> tuple[str, tuple[tuple[str, str], ...]]:
    base, qualifiers = split_name(name)
    return base, tuple(qualifiers.items())


def is_named(asked: MetricName, name: str) -> bool:
    """Tell whether a number (without its family) is one of those asked for, ``*`` being any value of a qualifier."""
    base, qualifiers = _parts(name)
    if base != asked.name or len(qualifiers) != len(asked.qualifiers):
        return False
    return all(asked.qualifiers.get(key) in ("*", value) for key, value in qualifiers)
