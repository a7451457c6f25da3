"""Two audits example by example: which records a metric is the mean of, and how two audits' are put side by side."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from seatrial.families.shared.per_example import NoMeanError, Records, Values, read_values
from seatrial.judging.measured import MeasuredCheck
from seatrial.judging.ranges import described, named
from seatrial.statistics.arrays import Floats

LEAST_SHARED = 0.5
"""Share of the smaller sample that two audits must have in common to be compared on that."""


class Pairs(NamedTuple):
    """A metric's values in two audits on the examples both have; the metric is their mean.

    Attributes:
        now: (n,) in an audit.
        then: (n,) in the other.
        weights: (n,) of the examples, with mean 1, where some were decided about more often than others: the values are
            multiplied by them.
    """

    now: Floats
    then: Floats
    weights: Floats | None = None


def is_mean(metric: str) -> bool:
    """Tell whether a metric is a mean over examples, or over the decisions about them."""
    return described(metric).per_example is not None


def values_of(metric: str, params: Mapping[str, Any], read: Callable[[str], pa.Table | None]) -> Values | None:
    """Return what a metric is the mean of; None where it is no such mean or the records are not there.

    Args:
        metric: Full name.
        params: Of the check.
        read: Stage to its records; None where there are none.

    Raises:
        NoMeanError: For models of another task it is a mean, for this one it is not.
    """
    return read_values(described(metric), Records(params, named(metric).qualifiers, read))


@dataclass(frozen=True)
class Pairing:
    """Where the records of an audit and its baseline are read from.

    Attributes:
        read: (audit id, position of the check, stage) to the stage's records; None where there are none. Asked again
            for every metric of a stage.
        is_same_dataset: Whether both audits drew from the same bytes, read in the same way: an example id is one of a
            dataset.
    """

    read: Callable[[str, int, str], pa.Table | None]
    is_same_dataset: bool

    def pair(self, metric: str, now: tuple[str, MeasuredCheck], then: tuple[str, MeasuredCheck]) -> Pairs | str:
        """Return a metric's values in two audits on the examples both have, or why they cannot be paired.

        Args:
            metric: Full name.
            now: Id of an audit, and its check.
            then: The same of the other.
        """
        if not is_mean(metric):
            return "it is not a mean over examples"
        if not self.is_same_dataset:
            return "the audits are of different datasets"
        try:
            first, second = self._values(metric, *now), self._values(metric, *then)
        except NoMeanError:
            return "for this task it is not a mean over examples"
        if first is None or second is None:
            return "the records are missing"
        return pairs_of(first, second)

    def _values(self, metric: str, audit: str, check: MeasuredCheck) -> Values | None:
        return values_of(metric, check.params, lambda stage: self.read(audit, check.position, stage))


def pairs_of(first: Values, second: Values) -> Pairs | str:
    """Return the values of a metric in two audits on the examples both have, or why they cannot be paired.

    A share of decisions is a mean over examples where both audits decided as often about each: sum(c) / sum(d) is the
    mean of c n / sum(d).
    """
    common = np.intersect1d(first.example_ids, second.example_ids)
    fewer = min(len(first.example_ids), len(second.example_ids))
    if len(common) < max(2, LEAST_SHARED * fewer):
        return f"the audits share {len(common)} examples only"
    if first.decisions is None or second.decisions is None:
        return Pairs(first.on(common), second.on(common))
    decisions = first.decided(common)
    if not np.array_equal(decisions, second.decided(common)):
        return "the two models make different numbers of decisions per example"
    if not decisions.any():
        return "there are no decisions about the examples both audits have"
    each = len(common) / decisions.sum()
    return Pairs(first.on(common) * each, second.on(common) * each, decisions * each)
