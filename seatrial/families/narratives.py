"""Plain sentences about results: one pure module per family, with the same functions."""

from collections.abc import Mapping
from typing import Any, Protocol, runtime_checkable

from seatrial.contracts.estimates import Result
from seatrial.families.certified_calibration import narrative as certified_calibration
from seatrial.families.low_level_attack import narrative as low_level_attack
from seatrial.families.shared import generic_narrative as generic
from seatrial.families.temperature_attack import narrative as temperature_attack
from seatrial.families.transductive_attack import narrative as transductive_attack
from seatrial.families.uncertainty_span import narrative as uncertainty_span
from seatrial.reporting.schemas import Answer, Comparison, Scale


class Narrative(Protocol):
    """What a family's module says about a result."""

    def title(self, kind: str) -> str:
        """Return what the family measures."""
        ...

    def subject(self) -> str:
        """Return what a check doubts: `confidence`, `robustness`."""
        ...

    def question(self, params: Mapping[str, Any]) -> str:
        """Return what a check asks."""
        ...

    def answer(self, result: Result, params: Mapping[str, Any], classes: int | None) -> Answer:
        """Return what the numbers say; doubtful numbers never read as good ones."""
        ...

    def scale(self, result: Result, classes: int | None) -> Scale | None:
        """Return the range an attacker controls, when the family has one."""
        ...

    def describe_figure(self, name: str) -> str:
        """Return what a figure shows, for those who do not see it."""
        ...

    def terms(self, params: Mapping[str, Any]) -> list[str]:
        """Return the glossary entries a check's report uses."""
        ...


@runtime_checkable
class Comparing(Protocol):
    """What the module of a family that changes texts says besides."""

    def comparisons(self, result: Result, labels: list[str] | None) -> list[Comparison]:
        """Return some texts beside what attacks made of them, the most telling first."""
        ...


_NARRATIVES: dict[str, Narrative] = {
    "certified_calibration": certified_calibration,
    "low_level_attack": low_level_attack,
    "temperature_attack": temperature_attack,
    "transductive_attack": transductive_attack,
    "uncertainty_span": uncertainty_span,
}


def narrative_of(kind: str) -> Narrative:
    """Return the narrative of a family; a plain one for a family that has none of its own."""
    return _NARRATIVES.get(kind, generic)


def comparisons_of(kind: str, result: Result, labels: list[str] | None) -> list[Comparison]:
    """Return texts to be read side by side; none for a family that changes none."""
    narrative = narrative_of(kind)
    return narrative.comparisons(result, labels) if isinstance(narrative, Comparing) else []
