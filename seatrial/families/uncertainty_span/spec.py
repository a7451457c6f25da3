"""What the rest of the house reads of ``uncertainty_span``."""

from collections.abc import Iterator, Mapping
from typing import Any

from seatrial.contracts.controls import Evidence
from seatrial.contracts.family import FamilySpec, Misfit, Qualifiers, Situation
from seatrial.contracts.models import ARRAYS
from seatrial.contracts.passes import only_one
from seatrial.contracts.stopping import Stopping
from seatrial.families.shared.robust_accuracy import without_gradients
from seatrial.families.shared.robust_accuracy_flags import with_flags_about
from seatrial.families.uncertainty_span.flags import FLAGS
from seatrial.families.uncertainty_span.metrics import METRICS
from seatrial.families.uncertainty_span.params import UncertaintySpanParams
from seatrial.families.uncertainty_span.stage_costs import stage_costs
from seatrial.reporting.balls import within_ball


def canonical(name: str, qualifiers: Qualifiers, params: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return parameters without the radii at which outliers were attacked: those are in the metric's name."""
    if not params.get("outliers"):
        return params
    told = params["outliers"]
    ratio = told.get("inliers_per_outlier", 1)
    return {**params, "outliers": {"dataset": told.get("dataset"), "inliers_per_outlier": ratio}}


def misfits(params: UncertaintySpanParams, situation: Situation) -> Iterator[Misfit]:
    """Find what needs gradients, of a model that gives none, and sets that too few examples calibrate."""
    if params.conformal is not None and situation.samples < (fewest := params.conformal.fewest()):
        yield Misfit(
            f"Conformal sets that hold the label with probability {params.conformal.coverage:g} take at least {fewest} "
            f"examples, half of them to calibrate on; there are {situation.samples}: with fewer, every set holds every "
            "class.",
            "conformal/coverage",
        )
    if params.parts:
        yield from only_one(situation.passes, "parts")
    if situation.has_gradients:
        return
    told = "needs gradients, and so the model's weights; an endpoint is attacked by scores and decisions: leave it out"
    if params.attacks:
        yield Misfit(f"{params.attacks[0]} {told}.", "attacks/0")
    if params.outliers is not None:
        yield Misfit(f"The outlier protocol {told}.", "outliers")
    if params.transfer_model is not None:
        yield Misfit(f"What a transfer_model shows {told}.", "transfer_model")
    if params.robust_accuracy is not None:
        yield from without_gradients(params.robust_accuracy)


def attacked(params: Mapping[str, Any]) -> str:
    """Return the ball and how hard it was searched, and AutoAttack's where that is another."""
    if not (ball := within_ball(params)):
        return ""
    told = f"{ball}, effort {params.get('effort', 'standard')}"
    also = params.get("robust_accuracy")
    if not also:
        return told
    elsewhere = "" if within_ball(also) == ball else f" {within_ball(also)}"
    return f"{told} and by AutoAttack{elsewhere}"


def _whole(params: UncertaintySpanParams) -> str:
    """Say why a check is measured as a whole: how many outliers are drawn follows from how many examples there are."""
    return "" if params.outliers is None else "the outliers are drawn for all of its examples"


SPEC = FamilySpec(
    kind="uncertainty_span",
    params=UncertaintySpanParams,
    stopping=Stopping(whole=_whole),
    tasks=ARRAYS,
    metrics=METRICS,
    # Of gradients that are zero it speaks in its own words.
    flags=with_flags_about(FLAGS),
    worker="workers.families.uncertainty_span.family:FAMILY",
    narrative="seatrial.families.uncertainty_span.narrative",
    evidence=(
        *(
            Evidence(control=control, metrics=("mus", "mus_worst", "mus_calibrated", "msus", "robust_accuracy"))
            for control in ("AISVS 11.2.1", "AISVS 11.2.7", "AML.T0015", "AML.T0043")
        ),
        Evidence(control="AISVS 11.3.1", metrics=("ece", "s_ece", "mce", "brier"), qualifiers={"arm": ("clean",)}),
    ),
    stage_costs=stage_costs,
    misfits=misfits,
    canonical=canonical,
    attacked=attacked,
    unlike_hardware=1e-3,
    formerly={"effort": "quick"},
    audit_examples={
        "How far can an attacker push the uncertainty?": {
            "seed": 0,
            "samples": 500,
            "checks": [{"kind": "uncertainty_span", "norm": "linf", "epsilon": 0.1, "steps": 50}],
        },
        "May this model ship? Judged by a shipped policy when it ends": {
            "checks": [{"kind": "uncertainty_span", "norm": "linf", "epsilon": 0.03}],
            "policy": "standard",
            "baseline": "champion",
        },
        "Two radii, two norms, calibration attacks": {
            "samples": 1000,
            "checks": [
                {"kind": "uncertainty_span", "norm": "linf", "epsilon": 0.03, "attacks": ["ace", "max_miscalibration"]},
                {
                    "kind": "uncertainty_span",
                    "norm": "l2",
                    "epsilon": 1,
                    "steps": 40,
                    "random_start": True,
                    "restarts": 2,
                },
            ],
        },
    },
    policy_examples={
        "What must hold before a release": {
            "name": "release",
            "description": "Agreed with the product team.",
            "rules": [
                {"metric": "uncertainty_span.clean_accuracy", "min": 0.9, "label": "Accuracy"},
                {"metric": "uncertainty_span.mus_worst", "max": 0.5, "undecided": "fail"},
                {"metric": "uncertainty_span.s_ece[arm=over]", "max": 0.1, "severity": "warn"},
            ],
            "correction": "holm",
        }
    },
)
