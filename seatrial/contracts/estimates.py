"""What every family reports: estimates with intervals, series, flags, counts."""

import re
from typing import Any, Literal

from pydantic import BaseModel, Field

IntervalMethod = Literal[
    "clopper-pearson",
    "least",
    "gaffke",
    "gaffke-seen",
    "resampled",
    "paired",
    "mover",
    "exact",
    "widened",
    "bootstrap",
    "none",
]
"""How an interval was made. `clopper-pearson`: exactly, of a share; `least`: the same of the least of several.
`gaffke`: of a mean or a ratio in a known range, as if one example at its end had not been seen; `gaffke-seen`: as if it
lay twice as far beyond those seen as they reach. `resampled`: with random weights or outcomes, leaving the same room,
or of order statistics. `paired`: of a comparison on the same examples. `mover`: from two intervals. `exact`: nothing is
estimated. `widened`: a percentile bootstrap, widened for what it does not see; `bootstrap`: one that is not, as results
stored before 2026-11-23 hold and as nothing is told any more."""


class Estimate(BaseModel):
    """A number and the interval it is known to lie in, at 95 % unless the result says otherwise."""

    value: float | None = Field(description="Point estimate, in the metric's unit; null when undefined on this sample.")
    low: float | None = Field(description="Lower end of the interval; null when undefined.")
    high: float | None = Field(description="Upper end of the interval; null when undefined.")
    n: int = Field(ge=0, description="Examples the number rests on.")
    method: IntervalMethod = Field(description="How the interval was made.")

    def negative(self) -> "Estimate":
        """Return the estimate of the number times -1.

        >>> Estimate(value=0.25, low=0.0, high=0.5, n=9, method="exact").negative().low
        -0.5
        """

        def turned(number: float | None) -> float | None:
            return None if number is None else 0.0 - number

        return self.model_copy(update={"value": turned(self.value), "low": turned(self.high), "high": turned(self.low)})


class Flag(BaseModel):
    """Something the reader must know before trusting a number."""

    code: str = Field(description="Snake-case name, stable across versions.", examples=["zero_gradients"])
    severity: Literal["info", "warning", "error"] = Field(description="`error`: the numbers must not be relied on.")
    message: str = Field(description="What it means and what to do.")


class Looks(BaseModel):
    """How an audit was looked at that stops as soon as it is decided.

    Its intervals are those of the look it ended at. All looks together miss the truth at most 5 % of the time.
    """

    sizes: list[int] = Field(min_length=1, description="Examples at each look; the last are all that were asked for.")
    alphas: list[float] = Field(description="Error rate, of both ends together, each look may spend; they sum to 0.05.")
    ended: int = Field(ge=1, description="Looks taken; the numbers are of the last of them.")

    may_pass: bool = Field(
        default=True,
        description="Whether a rule may pass on it: at the last look, and before it on 125 examples or more, without a "
        "doubt so far and with seed 0.",
    )

    @property
    def examples(self) -> int:
        """Examples at the look it ended at."""
        return self.sizes[self.ended - 1]

    @property
    def level(self) -> float:
        """Error rate of the intervals: what the look it ended at may spend."""
        return self.alphas[self.ended - 1]

    @property
    def is_early(self) -> bool:
        """Whether it ended before all that were asked for were measured."""
        return self.ended < len(self.sizes)


class Result(BaseModel):
    """The parts every family's result has."""

    estimates: dict[str, Estimate] = Field(description="By metric name, qualifiers in brackets: `s_ece[arm=over]`.")
    series: dict[str, Any] = Field(default_factory=dict, description="Curves and histograms behind the figures.")
    flags: list[Flag] = Field(default_factory=list, description="Doubts about the numbers, with what to do.")
    counts: dict[str, int] = Field(description="Whole numbers every rate can be recomputed from.")
    looks: Looks | None = Field(
        default=None,
        exclude_if=lambda looks: looks is None,
        description="Of an audit that stops when it is decided: at how many examples it did, and the error rate spent "
        "at each look; absent from others.",
    )


def metric_name(name: str, **qualifiers: object) -> str:
    """Return a metric's name as published in ``estimates``.

    >>> metric_name("s_ece", arm="over")
    's_ece[arm=over]'
    >>> metric_name("mus")
    'mus'
    """
    inside = ",".join(
        f"{key}={value:g}" if isinstance(value, float) else f"{key}={value}" for key, value in qualifiers.items()
    )
    return f"{name}[{inside}]" if inside else name


def split_name(name: str) -> tuple[str, dict[str, str]]:
    """Return a metric's name without its family, and its qualifiers.

    >>> split_name("any_family.s_ece[arm=over]")
    ('s_ece', {'arm': 'over'})
    """
    base, _, inside = name.partition("[")
    # A value may hold commas of its own: `recipe=textfooler (variant: a, b)`.
    pairs = (pair.partition("=") for pair in re.split(r",(?=\s*\w+=)", inside.removesuffix("]")) if pair)
    return base.rpartition(".")[2], {key: value for key, _, value in pairs}
