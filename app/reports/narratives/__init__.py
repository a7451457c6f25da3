"""Plain sentences about results: one pure module per family, with the same five functions."""

from collections.abc import Mapping
from typing import Any, Protocol

from app.contracts.estimates import Result
from app.reports.narratives import generic, uncertainty_span
from app.reports.schemas import Answer, Scale


class Narrative(Protocol):
    """What a family's module says about a result."""

    def title(self, kind: str) -> str:
        """Return what the family measures."""
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

    def terms(self) -> list[str]:
        """Return the glossary entries the family uses."""
        ...


_NARRATIVES: dict[str, Narrative] = {"uncertainty_span": uncertainty_span}


def narrative_of(kind: str) -> Narrative:
    """Return the narrative of a family; a plain one for a family that has none of its own."""
    return _NARRATIVES.get(kind, generic)
