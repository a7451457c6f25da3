"""The families a check may name: one module each, one discriminated union over them."""

from collections.abc import Callable, Mapping
from typing import Annotated, Any, Protocol

from pydantic import Field

from seatrial.contracts.estimates import Metric
from seatrial.contracts.models import IMAGES, SINGLE_LABEL_TEXTS, TEXTS
from seatrial.families.certified_calibration import params as certified_calibration
from seatrial.families.certified_calibration.params import CertifiedCalibrationParams
from seatrial.families.low_level_attack import params as low_level_attack
from seatrial.families.low_level_attack.params import LowLevelAttackParams
from seatrial.families.shared.costs import Passes, StageShares
from seatrial.families.temperature_attack import params as temperature_attack
from seatrial.families.temperature_attack.params import TemperatureAttackParams
from seatrial.families.transductive_attack import params as transductive_attack
from seatrial.families.transductive_attack.params import TransductiveAttackParams
from seatrial.families.uncertainty_span import params as uncertainty_span
from seatrial.families.uncertainty_span.params import UncertaintySpanParams

AnyParams = (
    UncertaintySpanParams
    | TemperatureAttackParams
    | CertifiedCalibrationParams
    | TransductiveAttackParams
    | LowLevelAttackParams
)

CheckParams = Annotated[AnyParams, Field(discriminator="kind")]
"""Body of a check."""

METRICS: dict[str, list[Metric]] = {
    "uncertainty_span": uncertainty_span.METRICS,
    "temperature_attack": temperature_attack.METRICS,
    "certified_calibration": certified_calibration.METRICS,
    "transductive_attack": transductive_attack.METRICS,
    "low_level_attack": low_level_attack.METRICS,
}
"""Every metric a family publishes, by family."""

TASKS: dict[str, tuple[str, ...]] = {
    "uncertainty_span": (IMAGES,),
    "temperature_attack": SINGLE_LABEL_TEXTS,
    "certified_calibration": (IMAGES,),
    "transductive_attack": (IMAGES,),
    "low_level_attack": TEXTS,
}
"""What the models a family audits do."""

GRADIENT_FAMILIES = frozenset({"uncertainty_span", "certified_calibration", "transductive_attack"})
"""Families that need the model's weights: an endpoint will not do."""

STAGE_SHARES: dict[str, Callable[[Mapping[str, Any], str], StageShares | None]] = {
    "low_level_attack": low_level_attack.stage_shares,
}
"""Families that know, from parameters as stored and a stage's name, where in a check the stage stands."""


class Costed(Protocol):
    """What every family's parameters can say without running anything."""

    @property
    def kind(self) -> str:
        """The family."""
        ...

    def references(self) -> dict[str, str]:
        """Return ids of further models and datasets by the parameter that names them."""
        ...

    def held_out(self) -> int:
        """Return how many examples of the audit's dataset are needed beside its sample."""
        ...

    def passes(self, samples: int, sizes: dict[str, int], *, mean_words: float | None = None) -> Passes:
        """Return what the check takes at most."""
        ...


_PARAMS: dict[str, type[AnyParams]] = {
    "uncertainty_span": UncertaintySpanParams,
    "temperature_attack": TemperatureAttackParams,
    "certified_calibration": CertifiedCalibrationParams,
    "transductive_attack": TransductiveAttackParams,
    "low_level_attack": LowLevelAttackParams,
}


def params_contract(kind: str) -> type[AnyParams]:
    """Return the parameters of a family.

    Raises:
        KeyError: There is no such family.
    """
    return _PARAMS[kind]
