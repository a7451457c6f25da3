"""Records to estimates: each number with its interval."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from seatrial.contracts.estimates import Estimate, metric_name
from seatrial.contracts.family import FROM_ZERO, SHARE
from seatrial.families.calibration.params import CalibrationParams
from seatrial.families.calibration.records import ATTACKED
from seatrial.statistics.arrays import Floats
from seatrial.statistics.binned import Found, classwise_ece, equal_mass_ece, ks_error, ks_p
from seatrial.statistics.estimating import calibration, estimate, mean, proportion, seed_of
from seatrial.statistics.groups import (
    GroupAccuracy,
    GroupCalibration,
    by_group,
    calibration_by_group,
    largest_interval,
    worst_interval,
)
from seatrial.statistics.ranking import rank
from seatrial.statistics.selective import aurc, conformal_threshold
from workers.calibration.scaling import FittedTemperature, fit_temperature, temperature_interval
from workers.families.calibration.sample import ArmSample

Estimates = dict[str, Estimate]


@dataclass(frozen=True)
class Audit:
    """A table of predictions, arm by arm, with what is worked out once.

    Attributes:
        params: What was asked.
        clean: The clean examples.
        attacked: The attacked ones.
        ood: The outliers.
        seed: Of the intervals, and of the halves of split conformal prediction.
    """

    params: CalibrationParams
    clean: ArmSample
    attacked: ArmSample
    ood: ArmSample
    seed: int

    @cached_property
    def groups(self) -> dict[str, GroupAccuracy]:
        """The accuracy of each group that is judged by itself."""
        if self.clean.groups is None:
            return {}
        return by_group(self.clean.groups, self.clean.correct, fewest=self.params.smallest_group)

    @cached_property
    def group_errors(self) -> dict[str, GroupCalibration]:
        """The calibration error of each of these groups."""
        if self.clean.groups is None:
            return {}
        return calibration_by_group(
            self.clean.groups,
            self.clean.confidence,
            self.clean.correct,
            self.params.bins,
            seed=seed_of(self.seed, "ece of groups"),
            fewest=self.params.smallest_group,
        )

    @cached_property
    def temperature(self) -> FittedTemperature:
        """The temperature that fits the clean examples best."""
        return fit_temperature(self.clean.logarithms, self.clean.labels)

    @cached_property
    def halves(self) -> tuple[NDArray[np.bool_], float]:
        """Which clean examples (n,) the conformal threshold is taken from, and the threshold."""
        # Drawn in the order of their ids, which no cut into shards changes.
        order = np.random.default_rng(seed_of(self.seed, "conformal halves")).permutation(len(self.clean))
        is_for_threshold = np.zeros(len(self.clean), dtype=bool)
        is_for_threshold[order[: len(order) // 2]] = True
        missed = 1 - self.clean.of_label[is_for_threshold]
        return is_for_threshold, conformal_threshold(missed, self.params.conformal_miss)


def estimate_all(audit: Audit) -> Estimates:
    """Return every number there are examples for."""
    clean = audit.clean
    found = _arm(audit, clean) | {
        "confidence": mean(clean.confidence, SHARE),
        "brier": mean(clean.brier, (0.0, 2.0)),
        "ks_p": estimate(ks_p(clean.confidence, clean.correct), None, len(clean)),
        "ks": _normed(ks_error(clean.confidence, clean.correct, seed=seed_of(audit.seed, "ks")), len(clean)),
        "ece_equal_mass": _normed(
            equal_mass_ece(clean.confidence, clean.correct, audit.params.bins, seed=seed_of(audit.seed, "equal mass")),
            len(clean),
        ),
        "ece_classwise": _normed(
            classwise_ece(clean.probabilities, clean.labels, audit.params.bins, seed=seed_of(audit.seed, "classwise")),
            len(clean),
        ),
        "aurc": _normed(aurc(clean.confidence, clean.correct, seed=seed_of(audit.seed, "aurc")), len(clean)),
        "temperature": _temperature(audit),
        "failure_auroc": _ranked(audit, clean.confidence[clean.correct], clean.confidence[~clean.correct], "failures")[
            "auroc"
        ],
    }
    found |= conformal(audit)
    if audit.clean.groups is not None:
        found["worst_group_accuracy"] = worst_group(audit.groups)
        found["worst_group_ece"] = worst_group_error(audit.group_errors)
    if len(audit.attacked):
        found |= _arm(audit, audit.attacked, ATTACKED)
    if len(audit.ood):
        ranked = _ranked(audit, clean.confidence, audit.ood.confidence, "ood")
        found |= {"ood_auroc": ranked["auroc"], "ood_fpr95": ranked["fpr95"]}
    return found


def conformal(audit: Audit) -> Estimates:
    """Return coverage and size of the prediction sets of the half that the threshold was not taken from."""
    is_for_threshold, threshold = audit.halves
    probabilities, of_label = audit.clean.probabilities[~is_for_threshold], audit.clean.of_label[~is_for_threshold]
    sizes = (1 - probabilities <= threshold).sum(axis=1).astype(np.float64)
    return {
        "conformal_coverage": proportion(1 - of_label <= threshold),
        "conformal_set_size": mean(sizes, (0.0, float(audit.clean.classes))),
    }


def worst_group(groups: dict[str, GroupAccuracy]) -> Estimate:
    """Return the lowest accuracy of any group."""
    if not groups:
        return estimate(None, None, 0)
    lowest = min(groups.values(), key=lambda one: one.accuracy)
    return estimate(lowest.accuracy, worst_interval(groups), lowest.n, "least")


def worst_group_error(groups: dict[str, GroupCalibration]) -> Estimate:
    """Return the largest calibration error of any group."""
    if not groups:
        return estimate(None, None, 0)
    largest = max(groups.values(), key=lambda one: one.ece)
    return estimate(largest.ece, largest_interval(groups), largest.n)


def _arm(audit: Audit, sample: ArmSample, arm: str | None = None) -> Estimates:
    qualifiers = {} if arm is None else {"arm": arm}
    measured = calibration(
        sample.confidence, sample.correct, audit.params.bins, seed=seed_of(audit.seed, f"ece {arm or 'clean'}")
    )
    found = {
        "accuracy": proportion(sample.correct),
        "ece": measured["ece"],
        "nll": mean(sample.nll, FROM_ZERO),
    }
    if arm is None:
        found["s_ece"] = measured["s_ece"]
    return {metric_name(name, **qualifiers): one for name, one in found.items()}


def _temperature(audit: Audit) -> Estimate:
    fitted, clean = audit.temperature, audit.clean
    if fitted.degenerate is not None:
        return estimate(None, None, len(clean))
    interval = temperature_interval(clean.logarithms, clean.labels, fitted.temperature)
    return estimate(fitted.temperature, interval, len(clean), "gaffke-seen")


def _ranked(audit: Audit, sure: Floats, unsure: Floats, purpose: str) -> Estimates:
    """Return how well low confidence finds the second group."""
    found = rank(1 - sure, 1 - unsure, seed=seed_of(audit.seed, purpose), lowest=0.0, highest=1.0)
    n = len(sure) + len(unsure)
    return {name: estimate(found.values[name], found.intervals[name], n) for name in ("auroc", "fpr95")}


def _normed(found: Found, n: int) -> Estimate:
    return estimate(*found, n)
