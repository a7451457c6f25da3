"""Tables of predictions that are made up, and their results."""

from typing import Any

import numpy as np

from seatrial.contracts.estimates import Result
from seatrial.contracts.registry import flags_of
from seatrial.families.calibration.params import CalibrationParams
from seatrial.families.calibration.records import STAGE
from seatrial.families.shared.settling import settled
from workers.data.predictions import Predictions
from workers.families.calibration.family import FAMILY
from workers.families.calibration.sample import to_records
from workers.families.contexts import Records

PARAMS = CalibrationParams(kind="calibration")


def made(n: int = 400, classes: int = 4, *, heat: float = 1.0, seed: int = 0, arms: tuple[float, ...] = (1.0,)) -> Any:
    """Return probabilities ``heat`` times as sharp as those the labels follow."""
    rng = np.random.default_rng(seed)
    logits = 2 * rng.normal(size=(n, classes))
    true = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    labels = np.minimum((np.cumsum(true, axis=1) < rng.random((n, 1))).sum(axis=1), classes - 1)
    told = np.exp(heat * logits) / np.exp(heat * logits).sum(axis=1, keepdims=True)
    places = rng.choice(len(arms), n, p=arms)
    return told, np.where(places == 2, -1, labels), places


def predictions(
    scores: Any, labels: Any, arms: Any = None, groups: list[str] | None = None, *, is_logits: bool = False
) -> Predictions:
    """Return a table as a shard gets it."""
    n = len(labels)
    places = np.zeros(n, dtype=np.int64) if arms is None else np.asarray(arms)
    return Predictions(np.arange(n), np.asarray(labels), places, groups, np.asarray(scores, float), is_logits)


def reduced(records: Records, params: CalibrationParams = PARAMS, seed: int = 1) -> Result:
    """Return the result as it is stored."""
    result = FAMILY.reduce(params, {STAGE: records}, seed)
    assert {flag.code for flag in result.flags} <= flags_of("calibration").keys()
    return settled("calibration", params.model_dump(mode="json"), result)


def judged(*table: Any, params: CalibrationParams = PARAMS, **more: Any) -> Result:
    """Return what is said of a table."""
    return reduced(to_records(predictions(*table, **more)), params)


def codes(result: Result) -> set[str]:
    """Return the codes of a result's flags."""
    return {flag.code for flag in result.flags}
