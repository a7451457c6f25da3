"""Mean and standard deviation of models that were trained several times, as the papers' tables give them."""

from typing import Literal

from pydantic import Field

from seatrial.contracts.base import Read
from seatrial.contracts.estimates import Estimate, Flag

Trend = Literal["better", "worse", "undecided", "changed", "unchanged"]
"""What a difference says of the second: `undecided` when its interval holds 0; `changed` where no way is better."""


class ComparedAudit(Read):
    """One training run's audit."""

    audit: str = Field(description="Id of the audit.")
    model: str = Field(description="Id of the model.")
    model_name: str = Field(description="Name of the model.")
    model_version: str = Field(description="Version of the model: one training run.")
    flags: list[Flag] = Field(description="Doubts about its numbers, notes left out.")


class GroupNumber(Read):
    """A number over the training runs of a group."""

    mean: float = Field(description="Mean over the group's audits.")
    sd: float | None = Field(
        description="Standard deviation over them, n - 1 in the denominator; null of one audit alone."
    )
    n: int = Field(description="Audits.")
    values: list[float] = Field(description="What each audit measured, in the order of the group's `audits`.")


class ComparisonGroup(Read):
    """Training runs of one model, or whatever was put together."""

    name: str = Field(description="Name of the models, or the one asked for.")
    audits: list[ComparedAudit] = Field(description="In the order asked for.")
    numbers: dict[str, GroupNumber] = Field(description="By full metric name.")


class NumberDifference(Read):
    """A number of two audits."""

    first: Estimate = Field(description="The number of the first audit.")
    second: Estimate = Field(description="The number of the second.")
    difference: Estimate = Field(description="The second less the first, example by example where records allow it.")
    trend: Trend = Field(
        description="What the difference says of the second: `better`, `worse`, `changed` where no way is better, "
        "`undecided` where its interval holds 0, `unchanged` where all examples agree."
    )
    how: str = Field(description="How they were compared.")


class ComparisonRead(Read):
    """Groups of audits that ran alike, number by number."""

    samples: int = Field(description="Examples drawn of the dataset, the same by every audit.")
    seed: int = Field(description="Seed of the audits, by which they were drawn.")
    metrics: list[str] = Field(
        description="Full names: what shipped policies judge, then the others in the order of the families."
    )
    groups: list[ComparisonGroup] = Field(description="In the order asked for.")
    differences: dict[str, NumberDifference] = Field(
        default_factory=dict,
        description="Of two audits alone, by full metric name: both numbers, and the second less the first with its "
        "interval. Empty where there are more.",
    )
    page: str | None = Field(default=None, description="Where the console compares them; given for two audits only.")
    not_compared: dict[str, str] = Field(
        description="Numbers some audit has and that are not compared, by full name, and why."
    )
