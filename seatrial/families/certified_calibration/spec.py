"""What the rest of the house reads of ``certified_calibration``."""

from collections.abc import Iterator, Mapping
from typing import Any

from seatrial.contracts.controls import Evidence
from seatrial.contracts.family import FamilySpec, Misfit, Qualifiers, Situation
from seatrial.contracts.models import ARRAYS
from seatrial.contracts.passes import only_one
from seatrial.contracts.stopping import Stopping
from seatrial.families.certified_calibration.flags import FLAGS
from seatrial.families.certified_calibration.metrics import METRICS
from seatrial.families.certified_calibration.params import CertifiedCalibrationParams
from seatrial.families.certified_calibration.stage_costs import stage_costs
from seatrial.families.certified_calibration.uncertainty import concerned
from seatrial.families.shared.robust_accuracy import without_gradients
from seatrial.families.shared.robust_accuracy_flags import with_flags_about
from seatrial.reporting.balls import within_ball


def canonical(name: str, qualifiers: Qualifiers, params: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return parameters with what the block ``uncertainty`` says of this metric, and nothing it says of others."""
    block = params.get("uncertainty")
    return params if not block else {**params, "uncertainty": concerned(name, block)}


def misfits(params: CertifiedCalibrationParams, situation: Situation) -> Iterator[Misfit]:
    """Find parts asked of one pass, and what needs gradients of a model that gives none; a certificate needs none."""
    if params.uncertainty is not None and params.uncertainty.parts:
        yield from only_one(situation.passes, "uncertainty/parts")
    if situation.has_gradients:
        return
    if params.ace_attacks:
        yield Misfit(
            f"{params.ace_attacks[0]} needs gradients, and so the model's weights; an endpoint can be certified: leave "
            "the attack out.",
            "ace_attacks/0",
        )
    if params.uncertainty is not None and params.uncertainty.attack:
        yield Misfit(
            "attacking the span needs gradients, and so the model's weights; an endpoint can be certified: leave the "
            "attack out.",
            "uncertainty/attack",
        )
    if params.robust_accuracy is not None:
        yield from without_gradients(params.robust_accuracy)


def attacked(params: Mapping[str, Any]) -> str:
    """Return what was attacked beside the certificates, which are no attack."""
    told = []
    if params.get("ace_attacks") and params.get("attack_radius"):
        told.append(f"{within_ball({'norm': 'l2', 'epsilon': params['attack_radius']})} by ACE attacks")
    if also := params.get("robust_accuracy"):
        told.append(f"{within_ball(also)} by AutoAttack")
    return " and ".join(told)


CERTIFIED = (
    "certified_accuracy",
    "certified_share",
    "average_certified_radius",
    "cce",
    "cce_system",
    "cbs",
    "interval_width",
)
"""What holds for every input within a radius."""

SPEC = FamilySpec(
    kind="certified_calibration",
    params=CertifiedCalibrationParams,
    stopping=Stopping(whole=lambda params: ""),
    tasks=ARRAYS,
    metrics=METRICS,
    flags=with_flags_about(FLAGS),
    worker="workers.families.certified_calibration.family:FAMILY",
    narrative="seatrial.families.certified_calibration.narrative",
    evidence=(
        *(Evidence(control=control, metrics=CERTIFIED) for control in ("AISVS 11.2.5", "AISVS 11.2.6", "AISVS 11.2.7")),
        # Stability and sensitivity, clauses 5.3 and 5.4, by a verifier that is not deterministic (6.2.1.3).
        Evidence(
            control="ISO/IEC 24029-2 5.3",
            metrics=("certified_accuracy", "certified_share", "average_certified_radius"),
        ),
        Evidence(control="ISO/IEC 24029-2 5.4", metrics=("interval_width", "cce", "cce_system", "cbs")),
        *(
            Evidence(control=control, metrics=("robust_accuracy",))
            for control in ("AISVS 11.2.1", "AML.T0015", "AML.T0043")
        ),
        Evidence(control="AISVS 11.3.1", metrics=("ece", "brier"), qualifiers={"attack": (None,), "radius": (None,)}),
    ),
    misfits=misfits,
    canonical=canonical,
    stage_costs=stage_costs,
    attacked=attacked,
    unlike_hardware=1e-3,
)
