"""Numbers that are means over examples and that a family declares without working them out itself."""

from collections.abc import Callable, Mapping
from itertools import product
from typing import Any

import numpy as np

from seatrial.contracts.estimates import Estimate, Result, metric_name
from seatrial.contracts.family import SHARE, FamilySpec, Measurement, Metric
from seatrial.contracts.metric_ranges import example_range_of
from seatrial.families.shared.per_example import NoMeanError, Records, Values, read_values
from seatrial.statistics.estimating import mean, proportion
from seatrial.statistics.samples import ByColumn


def with_declared_means(
    result: Result, spec: FamilySpec, params: Mapping[str, Any], read: Callable[[str], ByColumn | None]
) -> Result:
    """Return what a family reduced its records to, with its :func:`declared_means` behind its own estimates."""
    declared = declared_means(spec, params, read, result)
    return result.model_copy(update={"estimates": {**result.estimates, **declared}})


def declared_means(
    spec: FamilySpec,
    params: Mapping[str, Any],
    read: Callable[[str], ByColumn | None],
    result: Result,
) -> dict[str, Estimate]:
    """Return the means a family declares and has not published, each with its interval.

    Those are the metrics with ``per_example`` whose qualifiers' values are declared too, as far as their records are
    there. Where every example has 0 or 1, it is a share with a Clopper-Pearson interval; else a mean with that of
    :func:`~seatrial.statistics.estimating.mean`.

    Args:
        spec: The family.
        params: Of the check, as stored.
        read: Stage to its records; None where there are none.
        result: What the family published.
    """
    found = {}
    for metric in spec.metrics:
        for qualifiers in _forms(metric):
            name = metric_name(metric.name, **qualifiers)
            if name in result.estimates:
                continue
            values = _values(metric, Records(params, qualifiers, read))
            if values is None or values.decisions is not None:
                continue
            is_share = metric.range == SHARE and bool(np.isin(values.values, (0, 1)).all())
            span = example_range_of(metric, Measurement(qualifiers, params, result)) or metric.range
            found[name] = proportion(values.values > 0) if is_share else mean(values.values, span)
    return found


def _forms(metric: Metric) -> list[dict[str, str]]:
    """Return the qualifiers a metric is published with; none at all where they are not declared."""
    if metric.per_example is None or set(metric.values) != set(metric.qualifiers):
        return []
    every = product(*(metric.values[key] for key in metric.qualifiers))
    return [dict(zip(metric.qualifiers, values, strict=True)) for values in every]


def _values(metric: Metric, records: Records) -> Values | None:
    try:
        return read_values(metric, records)
    except NoMeanError:
        return None
