"""What the rest of the house reads of ``uncertainty_span``."""

from collections.abc import Mapping
from typing import Any

from seatrial.contracts.family import FamilySpec, Needs, Qualifiers
from seatrial.contracts.models import ARRAYS
from seatrial.families.shared import robust_accuracy_flags
from seatrial.families.uncertainty_span.flags import FLAGS
from seatrial.families.uncertainty_span.metrics import METRICS
from seatrial.families.uncertainty_span.params import UncertaintySpanParams


def canonical(name: str, qualifiers: Qualifiers, params: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return parameters with the outliers' dataset alone: at which radii they were attacked is in the metric's name."""
    if not params.get("outliers"):
        return params
    return {**params, "outliers": {"dataset": params["outliers"].get("dataset")}}


SPEC = FamilySpec(
    kind="uncertainty_span",
    params=UncertaintySpanParams,
    tasks=ARRAYS,
    metrics=METRICS,
    # Of gradients that are zero it speaks in its own words.
    flags=(*FLAGS, *(flag for flag in robust_accuracy_flags.FLAGS if flag.code not in {own.code for own in FLAGS})),
    worker="workers.families.uncertainty_span.family:FAMILY",
    narrative="seatrial.families.uncertainty_span.narrative",
    needs=Needs(gradients=True),
    canonical=canonical,
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
