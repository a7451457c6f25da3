"""Records to the curves and histograms behind the figures, as JSON values: no NaN, nothing undefined but null."""

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

import numpy as np

from seatrial.contracts.datasets import GRID
from seatrial.families.certified_calibration.params import BOUNDS, CertifiedCalibrationParams
from seatrial.statistics.calibration import bin_edges, ece
from seatrial.statistics.estimating import diagram
from seatrial.statistics.samples import Sample
from workers.certification.admm import AdmmOutcome, Convergence
from workers.certification.brier import certified_brier
from workers.certification.worst_calibration import WorstCase
from workers.families.certified_calibration.records import column_of
from workers.families.certified_calibration.sample import (
    Certified,
    certified_at,
    is_answered,
    is_certified,
    is_correct,
    shown_radius,
    worst_case,
    worst_value,
)

FINE_RADII = 60

ENOUGH = 30
"""Examples on which growth with the radius is shown at least, if any radius certifies as many."""

LISTED = 2000
"""Examples of a worst case that are listed."""


def make_series(
    params: CertifiedCalibrationParams,
    certify: Sample,
    attacks: Mapping[str, Sample],
    admm: Mapping[float, AdmmOutcome] | None = None,
) -> dict[str, Any]:
    """Return every series of the family; those that would be of certified examples are None where there are none.

    Returns:
        ``curves`` (at the radii asked for) and ``fine_curve`` (at many); ``fixed_subset``: how the errors grow with the
        radius over the same examples; ``reliability``: the diagrams without an attack and of the worst case, at one
        radius (``chosen`` says why that one), over the examples certified there; ``worst_case``: each of these
        examples in it; ``interval_width``; ``sampling``; ``noise``: the grid it was rounded to; ``admm``, where it was
        asked for: how its best run converged at that radius.
    """
    shown = shown_radius(params, certify, attacks)
    series = {
        "curves": [_point(params, certify, radius) for radius in params.radii],
        "fine_curve": fine_curve(params, certify),
        "fixed_subset": fixed_subset(params, certify),
        "interval_width": [_widths(certify, radius) for radius in params.radii],
        "sampling": _sampling(params, certify),
        "noise": _noise(certify),
        "reliability": None,
        "worst_case": None,
    }
    if shown is not None:
        certified = certified_at(params, certify, shown[0])
        worst = worst_case(certified, params.bins)
        if worst is not None:
            series["reliability"] = {
                "radius": shown[0],
                "chosen": shown[1],
                "n": len(certified),
                "clean": diagram(certified.confidence, certified.correct, params.bins),
                "worst": worst_diagram(worst, params.bins),
            }
            outcome = (admm or {}).get(shown[0])
            if outcome is not None and outcome.convergence is not None:
                series["admm"] = {"radius": shown[0]} | _convergence(outcome, outcome.convergence)
            series["worst_case"] = {"radius": shown[0]} | _listed(certify, certified, worst)
    return series


def fine_curve(params: CertifiedCalibrationParams, certify: Sample) -> list[dict[str, float | None]]:
    """Return certified accuracy and share at evenly spaced radii, up to the largest asked for or reached."""
    largest = max([*params.radii, *certify.floats("radius")[is_answered(certify)].tolist()])
    points: list[dict[str, float | None]] = []
    for radius in np.linspace(0, largest, FINE_RADII).tolist():
        reached = is_certified(certify, radius)
        points.append(
            {
                "radius": radius,
                "certified_accuracy": _mean(reached & is_correct(certify)),
                "certified_share": _mean(reached),
            }
        )
    return points


def fixed_subset(params: CertifiedCalibrationParams, certify: Sample) -> dict[str, Any] | None:
    """Return how CCE and CBS grow with the radius over the same examples; neither ever falls, as no interval narrows.

    The examples are those certified at the largest radius that certifies at least ``ENOUGH``, or else any.
    """
    numbers = {radius: int(is_certified(certify, radius).sum()) for radius in params.radii}
    usable = [radius for radius, n in numbers.items() if n >= ENOUGH] or [
        radius for radius, n in numbers.items() if n > 0
    ]
    if not usable:
        return None
    rows = is_certified(certify, max(usable))
    subsets = {
        radius: certified_at(params, certify, radius, rows=rows) for radius in params.radii if radius <= max(usable)
    }
    points = [
        {"radius": radius, "cce": worst_value(subset, params.bins), "cbs": _brier(subset)}
        for radius, subset in subsets.items()
    ]
    return {"radius": max(usable), "n": numbers[max(usable)], "points": points}


def worst_diagram(worst: WorstCase, bins: int) -> dict[str, Any]:
    """Return the reliability diagram of a worst case, each confidence in the bin the worst case counts it in.

    Confidences on an edge may count in either bin beside it, so they cannot be put into bins anew.
    """
    number = np.bincount(worst.bins, minlength=bins)
    diagram: dict[str, Any] = {"edges": bin_edges(bins).tolist(), "count": number.tolist()}
    for name, values in (("accuracy", worst.correct), ("confidence", worst.confidence)):
        sums = np.bincount(worst.bins, weights=values, minlength=bins)
        diagram[name] = [float(total / n) if n else None for total, n in zip(sums, number, strict=True)]
    return diagram


def _point(params: CertifiedCalibrationParams, certify: Sample, radius: float) -> dict[str, float | None]:
    certified = certified_at(params, certify, radius)
    return {
        "radius": radius,
        "n": len(certified),
        "certified_accuracy": _mean(certified.rows & is_correct(certify)),
        "certified_share": _mean(certified.rows),
        "cce": worst_value(certified, params.bins),
        "cbs": _brier(certified),
        "ece": ece(certified.confidence, certified.correct, params.bins),
    }


def _convergence(outcome: AdmmOutcome, found: Convergence) -> dict[str, Any]:
    best = outcome.values.index(max(outcome.values))
    return {
        "setting": None if outcome.best is None else asdict(outcome.best),
        "value": outcome.value,
        "steps": list(found.steps),
        "ece": [float(outcome.traces[best][step]) for step in found.steps],
        "violations": {
            name: {"l2": norms[0].tolist(), "linf": norms[1].tolist()} for name, norms in found.violations.items()
        },
        "assignments": [{"step": step, "values": values.tolist()} for step, values in found.assignments.items()],
    }


def _listed(certify: Sample, certified: Certified, worst: WorstCase) -> dict[str, Any]:
    first = slice(LISTED)
    return {
        "n": len(certified),
        "example_id": certify["example_id"][certified.rows][first].tolist(),
        "bin": worst.bins[first].tolist(),
        "sign": worst.signs[worst.bins[first]].tolist(),
        "confidence": worst.confidence[first].tolist(),
        "correct": worst.correct[first].tolist(),
    }


def _widths(certify: Sample, radius: float) -> dict[str, float | None]:
    answered = is_answered(certify)
    widths: dict[str, float | None] = {"radius": radius}
    for bound in BOUNDS:
        lower, upper = (certify.floats(column_of(side, bound, radius))[answered] for side in ("lower", "upper"))
        widths[bound] = _mean(upper - lower)
    return widths


def _sampling(params: CertifiedCalibrationParams, certify: Sample) -> dict[str, Any]:
    draws = certify["draws"].astype(np.int64)
    sampling: dict[str, Any] = {
        "sampling": params.sampling,
        "allowed": params.n,
        "mean": _mean(draws),
        "median": float(np.median(draws)) if len(draws) else None,
        "total": int(draws.sum()),
    }
    if params.sampling == "adaptive":
        # The numbers of draws are those at which it is looked whether to stop: a few dozen.
        values, examples = np.unique(draws, return_counts=True)
        sampling["histogram"] = {"draws": values.tolist(), "examples": examples.tolist()}
    return sampling


def _noise(certify: Sample) -> dict[str, Any]:
    moved, distance = certify.floats("rounding"), certify.floats("noise_distance")
    return {
        "grid": GRID,
        "distance": float(distance.max()) if len(distance) else None,
        "rounded": int(np.count_nonzero(moved)),
        "furthest": float(moved.max()) if len(moved) else None,
    }


def _brier(certified: Certified) -> float | None:
    return _mean(certified_brier(certified.lower, certified.upper, certified.correct))


def _mean(values: Any) -> float | None:
    return float(np.mean(values)) if len(values) else None
