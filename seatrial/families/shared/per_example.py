"""What an example contributes to a number, read from the records of a check.

A metric that is a mean over examples, or over the decisions about them, says so by ``per_example``
(:class:`seatrial.contracts.family.Metric`). Those that are not (calibration errors, rankings, gaps, rates among the
examples one model got right) have none: of these two audits are compared by their intervals.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, reduce
from typing import Any

import numpy as np
import pyarrow.compute as pc
from numpy.typing import NDArray

from seatrial.contracts.family import Formula, Metric, load
from seatrial.statistics.arrays import Floats
from seatrial.statistics.samples import ByColumn

Columns = Mapping[str, NDArray[Any]]


@dataclass(frozen=True)
class Values:
    """What a metric is the mean of.

    Attributes:
        example_ids: (n,) ascending.
        values: (n,).
        decisions: (n,) how many decisions each value is the sum of, where the metric is the sum of the values over that
            of these; None where it is their mean.
    """

    example_ids: NDArray[np.int64]
    values: Floats
    decisions: Floats | None = None

    def on(self, example_ids: NDArray[np.int64]) -> Floats:
        """Return the values of some of its examples, ascending."""
        return self.values[np.searchsorted(self.example_ids, example_ids)]

    def decided(self, example_ids: NDArray[np.int64]) -> Floats:
        """Return the decisions about some of its examples, ascending; 1 each where the metric is a mean."""
        if self.decisions is None:
            return np.ones(len(example_ids))
        return self.decisions[np.searchsorted(self.example_ids, example_ids)]


@dataclass(frozen=True)
class Records:
    """The records of one check, with what a metric asks of them.

    Attributes:
        params: Of the check.
        qualifiers: Of the metric.
        read: Stage to its records; None where there are none.
    """

    params: Mapping[str, Any]
    qualifiers: Mapping[str, str]
    read: Callable[[str], ByColumn | None]

    def columns(self, stage: str, names: Sequence[str], *, where: str | None = None) -> Columns | None:
        """Return columns of a stage by the names they were asked by, ``{arm}`` filled in from the metric.

        None where they are not recorded.

        Args:
            stage: Its name.
            names: Of columns.
            where: A column that is not null in the rows to keep; by default those that did not error.
        """
        table = self.read(stage.format(**self.qualifiers))
        if table is None:
            return None
        asked = {name: name.format(**self.qualifiers) for name in ("example_id", *names)}
        if not {where or "errored", *asked.values()} <= set(table.column_names):
            # Recorded by a version that kept less.
            return None
        kept = pc.invert(table.column("errored")) if where is None else pc.is_valid(table.column(where))
        read = {column: table.column(column).filter(kept).to_numpy() for column in dict.fromkeys(asked.values())}
        return {name: read[column] for name, column in asked.items()}

    def values(self, formula: Formula) -> Values | None:
        """Return what a formula makes of its columns; undefined values are left out."""
        columns = self.columns(formula.stage, formula.columns)
        return (
            None
            if columns is None
            else values_of(columns["example_id"], formula.of(*(columns[name] for name in formula.columns)))
        )


class NoMeanError(Exception):
    """Of what the model does, a metric is no mean over examples."""


PerExample = Callable[[Records], Values | None]
"""What an example contributes; None where that is not recorded."""


def values_of(example_ids: NDArray[Any], values: NDArray[Any]) -> Values:
    """Return values by example, those that are not finite left out."""
    order = np.argsort(example_ids, kind="stable")
    ordered = values[order].astype(np.float64)
    defined = np.isfinite(ordered)
    return Values(example_ids[order].astype(np.int64)[defined], ordered[defined])


def combine(parts: Sequence[Values | None], of: Callable[[list[Floats]], Floats]) -> Values | None:
    """Return what ``of`` makes of several values of the examples that all have; None where one is missing."""
    each = [values for values in parts if values is not None]
    if not each or len(each) < len(parts):
        return None
    common = reduce(lambda ids, values: np.intersect1d(ids, values.example_ids), each[1:], each[0].example_ids)
    return Values(common, of([values.on(common) for values in each]))


@cache
def _resolved(reference: str) -> Formula | PerExample:
    resolved: Formula | PerExample = load(reference)
    return resolved


def read_values(metric: Metric, records: Records) -> Values | None:
    """Return what a metric is the mean of; None where it is no such mean or the records are not there.

    Raises:
        NoMeanError: For models of another task it is a mean, for this one it is not.
    """
    if metric.per_example is None:
        return None
    how = _resolved(metric.per_example) if isinstance(metric.per_example, str) else metric.per_example
    return records.values(how) if isinstance(how, Formula) else how(records)
