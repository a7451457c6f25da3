"""The family as the runtime sees it: one stage, which copies what was answered, and the result."""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from seatrial.contracts.estimates import Result
from seatrial.families.calibration.params import CalibrationParams
from seatrial.families.calibration.records import ATTACKED, STAGE
from seatrial.statistics.estimating import diagram
from seatrial.statistics.selective import risk_coverage
from workers.families.calibration.estimates import Audit, estimate_all
from workers.families.calibration.figures import draw
from workers.families.calibration.flags import doubt
from workers.families.calibration.sample import ArmSample, read_arm, to_records
from workers.families.contexts import PredictionsContext, Records
from workers.families.protocol import DataInfo, Family, Shard, Stage, TargetInfo

CURVE_POINTS = 400
"""Points of a risk-coverage curve that are kept for the figure."""


class Calibration:
    """Hold what was answered against what came true."""

    def preflight(self, target: TargetInfo, data: DataInfo, params: CalibrationParams) -> None:
        """Accept every table: what is wrong with one was said when it was uploaded, or is a flag."""

    def next_stage(self, params: CalibrationParams, done: Mapping[str, Records]) -> Stage | None:
        """Return the only stage."""
        return None if STAGE in done else Stage(STAGE)

    def run(self, params: CalibrationParams, shard: Shard, context: PredictionsContext) -> Records:
        """Return what is true of each example beside what was answered."""
        return to_records(context.predictions())

    def reduce(
        self,
        params: CalibrationParams,
        done: Mapping[str, Records],
        seed: int,
        *,
        check_cancelled: Callable[[], None] = lambda: None,
    ) -> Result:
        """Turn records into estimates, series, flags and counts."""
        check_cancelled()
        records = done[STAGE]
        arms = {arm: read_arm(records, arm) for arm in ("clean", ATTACKED, "ood")}
        audit = Audit(params, arms["clean"], arms[ATTACKED], arms["ood"], seed)
        counts = {"n": records.num_rows, "errored": 0}
        counts |= {f"{arm}_n": len(sample) for arm, sample in arms.items()}
        counts["clean_correct"] = int(audit.clean.correct.sum())
        if not len(audit.clean):
            return Result(estimates={}, counts=counts)
        estimates = estimate_all(audit)
        return Result(
            estimates=estimates, series=_series(audit, params.bins), flags=doubt(audit, estimates), counts=counts
        )

    def figures(self, params: CalibrationParams, result: Result) -> Mapping[str, str]:
        """Draw the result: SVG text by name."""
        return draw(result) if result.series else {}


def _series(audit: Audit, bins: int) -> dict[str, Any]:
    arms = {"clean": audit.clean} | ({ATTACKED: audit.attacked} if len(audit.attacked) else {})
    found: dict[str, Any] = {
        "reliability": {arm: diagram(one.confidence, one.correct, bins) for arm, one in arms.items()},
        "risk_coverage": {arm: _curve(one) for arm, one in arms.items()},
    }
    if audit.clean.groups is not None:
        found["groups"] = {
            name: {
                "accuracy": one.accuracy,
                "low": one.interval[0],
                "high": one.interval[1],
                "n": one.n,
                "rest": one.rest,
                "p_holm": one.p,
                "ece": audit.group_errors[name].ece,
                "ece_interval": list(audit.group_errors[name].interval or ()) or None,
                "ece_p_holm": audit.group_errors[name].p,
            }
            for name, one in audit.groups.items()
        }
    return found


def _curve(sample: ArmSample) -> dict[str, list[float]]:
    coverage, risk = risk_coverage(sample.confidence, sample.correct)
    kept = np.unique(np.linspace(0, len(coverage) - 1, CURVE_POINTS).round().astype(int))
    return {"coverage": coverage[kept].tolist(), "risk": risk[kept].tolist()}


FAMILY: Family[CalibrationParams, PredictionsContext] = Calibration()
