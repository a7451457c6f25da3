"""Plain sentences about results: one pure module per family, with the same functions."""

import logging
from collections.abc import Mapping
from functools import cache
from typing import Any, Protocol, runtime_checkable

from seatrial.contracts.estimates import Result
from seatrial.contracts.family import load
from seatrial.contracts.registry import find_family
from seatrial.families.shared import generic_narrative as generic
from seatrial.reporting.schemas import Answer, Comparison, Scale

log = logging.getLogger(__name__)


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


@cache
def narrative_of(kind: str) -> Narrative:
    """Return the narrative of a family; a plain one for a family that has none of its own, or that is not there."""
    spec = find_family(kind)
    if spec is None or not spec.narrative:
        return generic
    try:
        narrative: Narrative = load(spec.narrative)
    except Exception:
        # Another distribution's may fail in any way when imported: its numbers are reported all the same.
        log.exception("the narrative of the family %s cannot be loaded", kind)
        return generic
    return narrative


def comparisons_of(kind: str, result: Result, labels: list[str] | None) -> list[Comparison]:
    """Return texts to be read side by side; none for a family that changes none."""
    narrative = narrative_of(kind)
    return narrative.comparisons(result, labels) if isinstance(narrative, Comparing) else []
