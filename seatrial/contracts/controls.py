"""Controls of published frameworks, and which numbers give evidence for them.

The controls are a data file with their sources, ``controls.json``; which number speaks for which, a family declares. A
number is evidence, never conformity: what else a control asks of an organisation no audit of a model can show.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from typing import Literal

from pydantic import Field, TypeAdapter

from seatrial.contracts.base import Read
from seatrial.contracts.estimates import split_name

Asks = Literal["measured", "judged", "held", "compared", "no_regression"]
"""What must be there for a control. `measured`: numbers; `judged`: a rule of the policy about one that was decided;
`held`: such a rule that passed, and none that did not; `compared`: a rule that compares one with a baseline's;
`no_regression`: such a rule that passed, and none that did not."""


class Control(Read):
    """A control of a published framework, in words of ours."""

    id: str = Field(description="As the framework numbers it.")
    framework: str = Field(description="Name of the framework.")
    version: str = Field(description="Which version the number is of.")
    title: str = Field(description="What it is about.")
    source: str = Field(description="Where it is published.")
    asks: Asks = Field(description="What of an audit has to be there.")


@dataclass(frozen=True, kw_only=True)
class Evidence:
    """Which numbers of a family speak for a control.

    Attributes:
        control: Id of the control.
        metrics: Names of metrics, without qualifiers.
        qualifiers: Values that count, by key, None for a number without that key; all values of a key not named here.
        unless: Codes of flags that take the evidence back, beside those of severity ``error``, which always do.
    """

    control: str
    metrics: tuple[str, ...]
    qualifiers: Mapping[str, tuple[str | None, ...]] = field(default_factory=dict)
    unless: tuple[str, ...] = ()

    def is_given_by(self, name: str) -> bool:
        """Return whether a published number speaks for the control.

        >>> attacked = Evidence(control="AML.T0015", metrics=("accuracy",), qualifiers={"arm": ("over",)})
        >>> attacked.is_given_by("a.accuracy[arm=over]"), attacked.is_given_by("accuracy[arm=clean]")
        (True, False)
        """
        metric, given = split_name(name)
        return metric in self.metrics and all(given.get(key) in values for key, values in self.qualifiers.items())


@cache
def controls() -> tuple[Control, ...]:
    """Return the controls that are known, in the order they are told."""
    text = (files("seatrial.contracts") / "controls.json").read_text(encoding="utf-8")
    return tuple(TypeAdapter(list[Control]).validate_json(text))
