"""A leaderboard: models audited alike, in the order of one number."""

from datetime import datetime
from typing import Any

from pydantic import Field

from seatrial.contracts.base import Read
from seatrial.contracts.estimates import Estimate, Flag


class LeaderboardGroup(Read):
    """Audits that ran alike, but for the parameter in `across`: only what is in one group is compared."""

    id: str = Field(description="Name of the group: the same for the same data, parameters, examples and seed.")
    samples: int = Field(description="Examples drawn of the dataset.")
    seed: int = Field(description="Seed of the audits.")
    params: dict[str, Any] = Field(description="Parameters of the check, defaults filled in.")
    models: int = Field(description="Models measured so; with `across`, once for each value.")
    newest_audit: str = Field(description="Id of the newest of their audits.")


class LeaderboardRow(Read):
    """A model's place."""

    rank: int | None = Field(description="Place, 1 is the best; models with equal values share it. Null: undefined.")
    rank_low: int | None = Field(description="The best place comparisons leave open.")
    rank_high: int | None = Field(description="The worst place comparisons leave open.")
    model: str = Field(description="Id of the model.")
    model_name: str = Field(description="Name of the model.")
    model_version: str = Field(description="Version of the model.")
    audit: str = Field(description="Id of the newest audit of the model in the group.")
    check: int = Field(description="Position of the check in the audit, from 0.")
    finished_at: datetime | None = Field(description="When the audit ended.")
    verdict: str | None = Field(description="Verdict of the audit, where it was submitted with a policy.")
    flags: list[Flag] = Field(description="Doubts about the numbers, notes left out.")
    estimates: dict[str, Estimate] = Field(description="All numbers of the check, by name.")
    difference: Estimate | None = Field(
        description="The metric less that of the audit asked for in `against`; null without one, and for it itself."
    )
    compared: str = Field(description="How the difference was made, or why there is none.")
    varied: Any = Field(default=None, description="Value of the parameter asked for in `across`; null without one.")
    is_efficient: bool | None = Field(
        default=None,
        description="Whether it is on the Pareto front of `metric` and `beside`: no other row is as good in both and "
        "better in one, by their values. Null where either is undefined or none was asked for.",
    )


class LeaderboardRead(Read):
    """Models in the order of one metric."""

    dataset: str = Field(description="Id of the dataset asked for; audits of the same bytes under other ids count.")
    dataset_name: str = Field(description="Name of the dataset.")
    dataset_version: str = Field(description="Version of the dataset.")
    check: str = Field(description="Family of the check.")
    metric: str | None = Field(description="What the rows are sorted by, without the family; null where nothing is.")
    better: str | None = Field(description="Which way is good for a model; of `neither` there are no ranks.")
    against: str | None = Field(description="Id of the audit the differences are measured from.")
    group: LeaderboardGroup | None = Field(description="What all rows have in common; null where nothing was measured.")
    groups: list[LeaderboardGroup] = Field(description="All groups there are, those with most models first.")
    metrics: list[str] = Field(description="Names of all numbers some row has, in the order of the family.")
    rows: list[LeaderboardRow] = Field(description="The models, the best first; those without the number last.")
    across: str | None = Field(default=None, description="Parameter that rows may differ in, a row for each value.")
    beside: str | None = Field(default=None, description="The other number of the Pareto front.")
    left_out: int = Field(description="Models of the group beyond the newest that a leaderboard shows.")
