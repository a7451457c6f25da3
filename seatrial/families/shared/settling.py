"""One interval for a number everywhere: the one that holds.

What is stored is told as it is, but for percentile bootstraps (method ``bootstrap``): those of results that versions
before 2026-11-23 stored, and those of families that publish them. Wherever one is stored or read it is widened first,
so that the API, reports, the console and the gate show the interval a rule is judged by.
"""

from collections.abc import Mapping
from typing import Any

from seatrial.contracts.estimates import Estimate, Result, split_name
from seatrial.contracts.family import Measurement
from seatrial.contracts.metric_ranges import example_range_of, examples_of, limits_of
from seatrial.contracts.registry import find_family
from seatrial.statistics.widening import widen, within

BOOTSTRAP = "bootstrap"


def settled(kind: str, params: Mapping[str, Any], result: Result) -> Result:
    """Return a result every interval of which is the one that holds; the same object where they all are.

    Args:
        kind: Family; what this version does not know is widened as of an unknown range.
        params: Of the check, as stored.
        result: Of the check.
    """
    found = {
        name: _settled(kind, params, result, name, estimate)
        for name, estimate in result.estimates.items()
        if estimate.method == BOOTSTRAP
    }
    return result.model_copy(update={"estimates": {**result.estimates, **found}}) if found else result


def settled_document(kind: str, params: Mapping[str, Any], document: Any) -> Any:
    """Return what :func:`settled` makes of a result as JSON values; what is no result, or has none, as it is."""
    if not document or all(one["method"] != BOOTSTRAP for one in document["estimates"].values()):
        return document
    found = settled(kind, params, Result.model_validate(document))
    return {**document, "estimates": {name: one.model_dump(mode="json") for name, one in found.estimates.items()}}


def _settled(kind: str, params: Mapping[str, Any], result: Result, name: str, estimate: Estimate) -> Estimate:
    spec, (base, qualifiers) = find_family(kind), split_name(name)
    metric = None if spec is None else spec.find_metric(base, qualifiers)
    if metric is None:
        return widen(estimate, None)
    measured = Measurement(qualifiers, params, result)
    widened = widen(estimate, example_range_of(metric, measured), examples=examples_of(metric, result))
    return within(widened, *limits_of(metric, measured))
