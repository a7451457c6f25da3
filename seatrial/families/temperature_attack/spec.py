"""What the rest of the house reads of ``temperature_attack``."""

from seatrial.contracts.family import FamilySpec, HeldOut, Needs
from seatrial.contracts.models import SINGLE_LABEL_TEXTS
from seatrial.families.temperature_attack.flags import FLAGS
from seatrial.families.temperature_attack.metrics import METRICS
from seatrial.families.temperature_attack.params import TemperatureAttackParams

SPEC = FamilySpec(
    kind="temperature_attack",
    params=TemperatureAttackParams,
    tasks=SINGLE_LABEL_TEXTS,
    metrics=METRICS,
    flags=FLAGS,
    worker="workers.families.temperature_attack.family:FAMILY",
    narrative="seatrial.families.temperature_attack.narrative",
    needs=Needs(held_out=HeldOut("validation_samples", "validation_dataset")),
)
