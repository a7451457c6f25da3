"""How the work of a check is shared among its stages, for what is told of its progress."""

from collections.abc import Mapping
from typing import Any

from seatrial.contracts.costs import Passes, StageShares, place_of
from seatrial.families.certified_calibration.params import ATTACKED_DRAWS, CertifiedCalibrationParams
from seatrial.families.shared.robust_accuracy import RobustAccuracyParams

BACKWARD = 3.0
"""Forward passes a forward and backward pass takes the time of."""


def stage_shares(params: Mapping[str, Any], stage: str, samples: int) -> StageShares | None:
    """Return where a stage stands, in forward passes.

    Args:
        params: As stored with the check.
        stage: Its name.
        samples: Examples audited.
    """
    asked = CertifiedCalibrationParams.model_construct(**params)
    steps, draws = asked.attack_steps, asked.attack_draws
    judged = min(asked.n, ATTACKED_DRAWS)
    costs = {"certify": samples * float(asked.n0 + asked.n + 1)}
    for name in asked.ace_attacks:
        costs[name] = samples * _time(Passes(steps * draws + draws + judged, steps * draws))
    uncertainty = params.get("uncertainty") or {}
    if uncertainty.get("attack"):
        radii = sum(radius > 0 for radius in asked.radii)
        each = Passes((steps + 2) * draws + judged, steps * draws)
        for part in ("span", *uncertainty.get("parts", ())) if radii else ():
            costs |= dict.fromkeys((f"{part}_raise", f"{part}_lower"), radii * samples * _time(each))
    if robust := params.get("robust_accuracy"):
        phases = RobustAccuracyParams.model_construct(**robust).phases(samples)
        costs |= {name: _time(passes) for name, passes in phases.items()}
    return place_of(stage, costs)


def _time(passes: Passes) -> float:
    return passes.forward + BACKWARD * passes.backward
