"""A family without words of its own: its numbers stand for themselves."""

from collections.abc import Mapping
from typing import Any

from seatrial.contracts.estimates import Result
from seatrial.families.shared.figures import describe
from seatrial.reporting.schemas import Answer, Scale


def title(kind: str) -> str:
    """Return the family's name as words.

    >>> title("pixel_noise")
    'Pixel noise'
    """
    return kind.replace("_", " ").capitalize()


def subject() -> str:
    """Return what a check doubts."""
    return "confidence"


def question(params: Mapping[str, Any]) -> str:
    """Return the question behind every check."""
    return "Is the confidence this model shows real?"


def answer(result: Result, params: Mapping[str, Any], classes: int | None) -> Answer:
    """Return that the numbers must be read, or that they must not."""
    doubts = [flag for flag in result.flags if flag.severity != "info"]
    if doubts:
        return Answer(standing="unproven", headline="The numbers are in doubt; read the flags first.", findings=[])
    return Answer(standing="unproven", headline="Measured; the numbers below tell how far it holds.", findings=[])


def scale(result: Result, classes: int | None) -> Scale | None:
    """Return nothing: only a family knows its range."""
    return None


def describe_figure(name: str) -> str:
    """Return the figure's name as words."""
    return describe(name, {})


def terms(params: Mapping[str, Any]) -> list[str]:
    """Return the terms every report uses."""
    return ["clean", "confidence", "confidence interval", "flag"]
