"""How far one example's value can lie from the others', by metric: what a bootstrap cannot see in a sample."""

import math
from collections.abc import Mapping
from functools import lru_cache
from statistics import NormalDist
from typing import Any

from app.gates.evidence import Range
from app.gates.measured import MeasuredCheck
from seatrial.contracts.estimates import Metric, Result
from seatrial.contracts.metric_ranges import SIGNED, UNLIMITED, Reach, reach_of
from seatrial.contracts.policies import MetricName, parse_metric
from seatrial.families import METRICS

_RANKINGS = frozenset({"auroc", "aupr_in", "aupr_out", "fpr95"})

_FIXED = frozenset({"span_growth", "temperature"})
"""Metrics over other examples than those drawn: the first hundred of them, or those held out."""


@lru_cache(maxsize=4096)
def named(metric: str) -> MetricName:
    """Return a full metric name taken apart."""
    return parse_metric(metric)


@lru_cache(maxsize=4096)
def described(metric: str) -> Metric:
    """Return what a family says of a metric."""
    asked = named(metric)
    return next(
        one for one in METRICS[asked.family] if one.name == asked.name and set(one.qualifiers) == set(asked.qualifiers)
    )


def range_of(metric: str, check: MeasuredCheck) -> Range | None:
    """Return the least and largest value an example can have; None where they are not known."""
    asked, unit = named(metric), described(metric).unit
    if asked.name in UNLIMITED and not (asked.name == "nud" and asked.qualifiers.get("arm", "under") == "under"):
        return None
    if unit == "pixel l_2":
        top = _largest_radius(check.params)
    elif unit.startswith("nat") and check.result is not None:
        top = _largest_entropy(check.result, power=2 if unit == "nat^2" else 1)
    else:
        top = 1.0 if unit == "1" else None
    if top is None:
        return None
    return (-top if asked.name in SIGNED else 0.0), top


def limits_of(metric: str, check: MeasuredCheck) -> Reach:
    """Return between which values a metric lies, whatever is drawn: a place is one of as many as there are places."""
    reach = reach_of(described(metric))
    if named(metric).name != "rank" or check.result is None:
        return reach
    ranks = [one for name, one in check.result.estimates.items() if name.startswith("rank[")]
    return reach._replace(highest=float(sum(one.value is not None for one in ranks)))


def examples_of(metric: str, check: MeasuredCheck) -> int | None:
    """Return how many examples a number rests on where its ``n`` adds up two samples: those of the smaller one."""
    if named(metric).name not in _RANKINGS or check.result is None:
        return None
    counts = check.result.counts
    outliers = counts.get("outliers_n", 0) - counts.get("outliers_errored", 0)
    return min(outliers, counts.get("n", 0) - counts.get("errored", 0))


def is_fixed(metric: str) -> bool:
    """Tell whether a metric rests on the same examples however many are drawn."""
    return named(metric).name in _FIXED


def _largest_entropy(result: Result, *, power: int) -> float | None:
    """Return log C from where a family's histogram of entropies ends, or its square."""
    edges = result.series.get("entropy_histogram", {}).get("edges")
    return float(edges[-1]) ** power if edges else None


def _largest_radius(params: Mapping[str, Any]) -> float | None:
    """Return the radius of an example on whose class all draws agree, sigma Phi^-1(alpha^(1/n)) (Cohen et al. 2019)."""
    try:
        share = math.exp(math.log(params["alpha"]) / params["n"])
        return max(0.0, float(params["sigma"] * NormalDist().inv_cdf(share)))
    except (KeyError, ValueError):
        return None
