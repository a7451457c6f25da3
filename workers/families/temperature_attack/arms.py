"""The arms: through what each attacker looks at the model, fitted on validation examples alone."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import torch

from seatrial.families.temperature_attack.params import AS_SERVED, LABEL_ONLY, TemperatureAttackParams
from seatrial.statistics.arrays import Floats
from workers.calibration.rounding import detect_digits, fit_rounded_temperature
from workers.calibration.scaling import (
    TEMPERATURES,
    FittedTemperature,
    Scaling,
    fit_platt,
    fit_temperature,
    fit_temperature_lbfgs,
)
from workers.families.contexts import Records
from workers.families.temperature_attack.records import CleanSample, SearchSample, read_validation
from workers.families.temperature_attack.search import conclude


@dataclass(frozen=True)
class Arm:
    """What an attacker sees.

    Attributes:
        scaling: From raw logits to probabilities; :meth:`Scaling.probabilities` is the attack's view of the model.
        temperature: What the served logits are divided by; as served the design temperature itself; None where the arm
            is no temperature.
        degenerate: Why the arm is not what its name says, where it is not: see :class:`FittedTemperature`,
            :class:`FittedPlatt` and :class:`Found`.
        ridge: Penalty a Platt scaling needed.
    """

    scaling: Scaling
    temperature: float | None
    degenerate: str | None = None
    ridge: float = 0.0


@dataclass(frozen=True)
class Arms:
    """All arms of an audit: ``as_served`` first, ``label_only`` last, the others in the order they were asked for."""

    by_name: dict[str, Arm]

    def __getitem__(self, name: str) -> Arm:
        """Return an arm."""
        return self.by_name[name]

    @property
    def others(self) -> list[str]:
        """Names of all but ``as_served``."""
        return [name for name in self.by_name if name != AS_SERVED]


def resolve_arms(params: TemperatureAttackParams, validation: Records | None, searches: Sequence[Records]) -> Arms:
    """Return every arm's scaling.

    Pure: the same records give the same arms. Fits take milliseconds; the paper's optimiser takes seconds, once in a
    process for the same examples.

    Args:
        params: Which arms.
        validation: Records of stage ``validation``; None where no arm is fitted.
        searches: Records of the rounds of the temperature search, in order.
    """
    sample = None if validation is None else read_validation(validation)
    served = Arm(Scaling(params.design_temperature, is_native=True), params.design_temperature)
    asked = {name: _resolve(name, params, sample, searches) for name in params.arms}
    # What is seen there are decisions, which have no temperature.
    labels = Arm(Scaling(params.design_temperature, is_native=True), None)
    return Arms({AS_SERVED: served} | asked | {LABEL_ONLY: labels})


def fitted_temperature(params: TemperatureAttackParams, validation: Records) -> float:
    """Return the exact calibrated temperature on top of the served logits, whether or not it is an arm."""
    return _fit_exactly(params, read_validation(validation)).temperature


def served_logits(params: TemperatureAttackParams, sample: CleanSample) -> Floats:
    """Return served logits (n, classes) in float64."""
    logits: Floats = Scaling(params.design_temperature).logits(sample.logits).numpy()
    return logits


def view_at(params: TemperatureAttackParams, temperature: float) -> Scaling:
    """Return through what the temperature search looks at the model."""
    return Scaling(params.design_temperature, temperature, is_single=params.precision == "float32")


def rounded_to(params: TemperatureAttackParams, sample: CleanSample) -> int | None:
    """Return to how many digits an endpoint rounded the probabilities it serves; None where it did not."""
    # Endpoints' logits are doubles, and what a design temperature makes of rounded numbers is not rounded.
    is_served = sample.logits.dtype == torch.float64 and params.design_temperature == 1
    return detect_digits(sample.logits.numpy()) if is_served and len(sample) else None


def limits_of(params: TemperatureAttackParams) -> tuple[float, float]:
    """Return the least and largest fitted temperature: the paper's range, for the raw logits.

    Applied to served logits it would cut honest fits off models served at extreme temperatures.
    """
    low, high = TEMPERATURES
    return low / params.design_temperature, high / params.design_temperature


def _resolve(
    name: str, params: TemperatureAttackParams, sample: CleanSample | None, searches: Sequence[Records]
) -> Arm:
    design = params.design_temperature
    if name == "transfer":
        # The source model's own scores, as they come.
        return Arm(Scaling(is_native=True), None)
    if name == "optimized":
        conclusion = conclude(SearchSample(searches).evaluated, params.temperature_search)
        return Arm(view_at(params, conclusion.temperature), conclusion.temperature, conclusion.failure)
    if sample is None:
        raise ValueError(f"arm {name} is fitted on validation examples: their records are needed")
    if name in ("platt_vector", "platt_matrix"):
        platt = fit_platt(served_logits(params, sample), sample.labels, name.removeprefix("platt_"))
        if platt.degenerate == "no_examples":
            return Arm(Scaling(design), None, platt.degenerate)
        rows = platt.weights.tolist()
        weights = tuple(rows) if platt.weights.ndim == 1 else tuple(tuple(row) for row in rows)
        scaling = Scaling(design, weights=weights, bias=tuple(platt.bias.tolist()))
        return Arm(scaling, None, platt.degenerate, platt.ridge)
    if name == "calibrated_paper":
        served = served_logits(params, sample)
        fitted = _fit_as_the_paper(served.tobytes(), served.shape, sample.labels.tobytes())
        is_single = params.precision == "float32"
        return Arm(Scaling(design, fitted.temperature, is_single=is_single), fitted.temperature, fitted.degenerate)
    fitted = _fit_exactly(params, sample)
    return Arm(Scaling(design, fitted.temperature), fitted.temperature, fitted.degenerate)


def _fit_exactly(params: TemperatureAttackParams, sample: CleanSample) -> FittedTemperature:
    served, limits = served_logits(params, sample), limits_of(params)
    if (digits := rounded_to(params, sample)) is not None:
        return fit_rounded_temperature(served, sample.labels, digits, limits=limits)
    return fit_temperature(served, sample.labels, limits=limits)


@lru_cache(maxsize=8)
def _fit_as_the_paper(served: bytes, shape: tuple[int, ...], labels: bytes) -> FittedTemperature:
    logits = np.frombuffer(served, dtype=np.float64).reshape(shape)
    return fit_temperature_lbfgs(logits.copy(), np.frombuffer(labels, dtype=np.int64).copy())
