"""How the work of a check is shared among its stages, for what is told of its progress."""

from collections.abc import Mapping
from typing import Any

from seatrial.contracts.costs import Passes
from seatrial.families.certified_calibration.params import ATTACKED_DRAWS, CertifiedCalibrationParams
from seatrial.families.shared.robust_accuracy import RobustAccuracyParams


def stage_costs(params: Mapping[str, Any], samples: int) -> dict[str, float]:
    """Return the forward passes of each stage there may be, in the order in which they are run.

    Args:
        params: As stored with the check.
        samples: Examples audited.
    """
    asked = CertifiedCalibrationParams.model_construct(**params)
    steps, draws = asked.attack_steps, asked.attack_draws
    judged = min(asked.n, ATTACKED_DRAWS)
    costs = {"certify": samples * float(asked.n0 + asked.n + 1)}
    for name in asked.ace_attacks:
        costs[name] = samples * Passes(steps * draws + draws + judged, steps * draws).in_forward
    uncertainty = params.get("uncertainty") or {}
    if uncertainty.get("attack"):
        radii = sum(radius > 0 for radius in asked.radii)
        each = Passes((steps + 2) * draws + judged, steps * draws)
        for part in ("span", *uncertainty.get("parts", ())) if radii else ():
            costs |= dict.fromkeys((f"{part}_raise", f"{part}_lower"), radii * samples * each.in_forward)
    if robust := params.get("robust_accuracy"):
        phases = RobustAccuracyParams.model_construct(**robust).phases(samples)
        costs |= {name: passes.in_forward for name, passes in phases.items()}
    return costs
