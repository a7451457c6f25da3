"""What the rest of the house reads of ``certified_calibration``."""

from seatrial.contracts.family import FamilySpec, Needs
from seatrial.contracts.models import ARRAYS
from seatrial.families.certified_calibration.flags import FLAGS
from seatrial.families.certified_calibration.metrics import METRICS
from seatrial.families.certified_calibration.params import CertifiedCalibrationParams
from seatrial.families.shared import robust_accuracy_flags

SPEC = FamilySpec(
    kind="certified_calibration",
    params=CertifiedCalibrationParams,
    tasks=ARRAYS,
    metrics=METRICS,
    flags=(*FLAGS, *robust_accuracy_flags.FLAGS),
    worker="workers.families.certified_calibration.family:FAMILY",
    narrative="seatrial.families.certified_calibration.narrative",
    needs=Needs(gradients=True),
)
