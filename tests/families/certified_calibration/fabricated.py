"""Records of audits that never ran: a made-up model whose logit is linear in the image, so that attacks are exact."""

import numpy as np
import pyarrow as pa
from scipy.special import expit

from seatrial.families.certified_calibration.params import BOUNDS, CertifiedCalibrationParams
from seatrial.statistics.exact import clopper_pearson_lower
from seatrial.statistics.samples import Sample
from workers.certification.bernoulli import abstains, certified_radius, predict
from workers.certification.confidence import LEVELS, cdf_bounds, dkw_bounds, slack, standard_bounds
from workers.families.certified_calibration.records import column_of

CLASSES = 4

SLOPE = 3.2
"""Norm of the logit's gradient: noise of sigma 0.25 moves it by 0.8."""

ATTACKED = 200
"""Draws an attacked confidence is measured with."""


def parameters(**changes: object) -> CertifiedCalibrationParams:
    return CertifiedCalibrationParams.model_validate({"kind": "certified_calibration", "n": 1000} | changes)


def records(
    params: CertifiedCalibrationParams,
    *,
    n: int = 120,
    seed: int = 0,
    sureness: float = 2.0,
    errored: frozenset[int] = frozenset(),
    clean_accuracy: float = 0.85,
) -> dict[str, pa.Table]:
    """Return the records of every stage.

    The candidate's logit under noise is normal, and a perturbation of norm r takes up to SLOPE r off it or adds it.

    Args:
        params: Of the check.
        n: Examples.
        seed: Of everything drawn.
        sureness: Mean logit of the candidate, over examples.
        errored: Positions of examples whose outputs were not finite.
        clean_accuracy: Without noise.
    """
    rng = np.random.default_rng(seed)
    logit = rng.normal(sureness, 1.5, n)
    correct = rng.random(n) < expit(logit * 1.2)
    draws = np.full(n, params.n) if params.sampling == "fixed" else rng.choice([params.n // 4, params.n], n)
    certify = _certify(params, rng, logit, draws) | {
        "label": rng.integers(0, CLASSES, n),
        "classes": np.full(n, CLASSES),
        "in_bfloat16": np.zeros(n, dtype=bool),
        "batch_dependent": np.zeros(n, dtype=bool),
        "rounding": np.zeros(n),
        "noise_distance": np.full(n, 1e-8),
    }
    label = certify["label"]
    certify["candidate"] = np.where(correct, label, (label + 1) % CLASSES)
    certify["certified_class"] = np.where(certify["abstained"], -1, certify["candidate"])
    others = np.where(certify["predicted_class"] == 1, (certify["candidate"] + 1) % CLASSES, -1)
    certify["predicted_class"] = np.where(certify["predicted_class"] == 0, certify["candidate"], others)
    certify["clean_prediction"] = np.where(rng.random(n) < clean_accuracy, label, (label + 2) % CLASSES)
    missing = np.isin(np.arange(n), list(errored))
    done = {"certify": table(label, missing, certify, missing)}
    for name in params.ace_attacks:
        lowers = correct if name.endswith("true") else np.ones(n, dtype=bool)
        raises = name.startswith("ace_raise")
        columns = _attack(params, rng, certify, logit, np.where(lowers, -1, 1) * (-1 if raises else 1))
        done[name] = table(label, missing, columns, missing | ~columns["attacked"])
    return done


def table(label, missing, columns, unknown) -> pa.Table:
    arrays = {"example_id": 10 + np.arange(len(label)), "label": label, "errored": missing}
    for name, values in columns.items():
        if name != "label":
            arrays[name] = pa.array(values, mask=missing if values.dtype == bool else unknown)
    return pa.table(arrays)


def samples(params: CertifiedCalibrationParams, **how: object) -> tuple[Sample, dict[str, Sample]]:
    """Return the certify sample and those of the attacks."""
    done = records(params, **how)
    return Sample(done["certify"]), {name: Sample(done[name]) for name in params.ace_attacks}


def _certify(params, rng, logit, draws) -> dict[str, np.ndarray]:
    scores = [expit(rng.normal(mean, SLOPE * params.sigma, size)) for mean, size in zip(logit, draws, strict=True)]
    hits = np.array([np.sum(one > 0.5) for one in scores])
    p_lower = clopper_pearson_lower(hits, draws, alpha=params.alpha)
    mean = np.array([one.mean() for one in scores])
    columns = {
        "predicted_class": predict(np.stack([hits, draws - hits], 1), alpha=params.alpha),
        "abstained": abstains(p_lower),
        "draws": draws,
        "hits": hits,
        "p_lower": p_lower,
        "p_upper": np.ones(len(hits)),
        "radius": certified_radius(p_lower, params.sigma),
        "confidence": mean,
    }
    eps, shifts = slack(draws, params.alpha), np.array(params.radii) / params.sigma
    histogram = np.stack([np.bincount((one * LEVELS).astype(int), minlength=LEVELS) for one in scores])
    ends = {
        "cdf": cdf_bounds(histogram, params.alpha, shifts),
        "dkw": dkw_bounds(histogram, eps, shifts),
        "standard": standard_bounds(mean, eps, shifts),
    }
    for bound in BOUNDS:
        for side, values in zip(("lower", "upper"), ends[bound], strict=True):
            for radius, column in zip(params.radii, values.T, strict=True):
                columns[column_of(side, bound, radius)] = column
    return columns


def _attack(params, rng, certify, logit, direction) -> dict[str, np.ndarray]:
    moved = logit + direction * SLOPE * params.attack_radius
    scores = expit(rng.normal(moved[:, None], SLOPE * params.sigma, (len(logit), ATTACKED)))
    return {
        "attacked": ~certify["abstained"] & (certify["radius"] >= params.attack_radius),
        "confidence": scores.mean(1),
        "standard_error": scores.std(1) / np.sqrt(ATTACKED),
        "distance": np.full(len(logit), params.attack_radius),
    }
