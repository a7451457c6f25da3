"""What the rest of the house reads of ``calibration``."""

from seatrial.contracts.controls import Evidence
from seatrial.contracts.family import FamilySpec
from seatrial.contracts.models import PREDICTIONS
from seatrial.contracts.stopping import Stopping
from seatrial.families.calibration.flags import FLAGS
from seatrial.families.calibration.metrics import METRICS
from seatrial.families.calibration.params import CalibrationParams
from seatrial.families.calibration.records import STAGE

SPEC = FamilySpec(
    kind="calibration",
    params=CalibrationParams,
    stopping=Stopping(whole=lambda params: "its answers are there already, and looking at fewer saves nothing"),
    tasks=(PREDICTIONS,),
    metrics=METRICS,
    flags=FLAGS,
    worker="workers.families.calibration.family:FAMILY",
    narrative="seatrial.families.calibration.narrative",
    evidence=(
        Evidence(
            control="AISVS 11.3.1",
            metrics=("ece", "s_ece", "ece_equal_mass", "ece_classwise", "ks", "brier", "nll"),
            # Of clean examples: not those of another arm.
            qualifiers={"arm": (None,)},
        ),
    ),
    stage_costs=lambda params, samples: {STAGE: samples},
    unlike_hardware=1e-9,
    audit_examples={
        "Do the probabilities in a table come true?": {"samples": 10_000, "checks": [{"kind": "calibration"}]},
    },
    policy_examples={
        "Probabilities that may be shown to people": {
            "name": "probabilities",
            "rules": [
                {"metric": "calibration.accuracy", "min": 0.9},
                {"metric": "calibration.ece", "max": 0.05},
                {"metric": "calibration.failure_auroc", "min": 0.7},
            ],
        }
    },
)
