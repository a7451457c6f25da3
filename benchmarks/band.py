"""How often the band around the scores misses, and how wide the certificates are that rest on it.

    python -m benchmarks.band

Misses: the share of simulated samples in which the band that is exact in the tails, or the certified interval of a
one-dimensional model whose smoothed confidence is known everywhere, does not hold somewhere; asked: no more than alpha.
Widths: of certified intervals at alpha 0.001, by DKW from 100,000 draws, by `cdf` from a tenth and from as many. CCE:
exact, of 300 examples with as many laws of scores.
"""

import argparse

import numpy as np
from scipy.special import expit, ndtr

from workers.certification.band import tail_exact
from workers.certification.confidence import LEVELS, cdf_bounds, dkw_bounds, slack
from workers.certification.worst_calibration import worst_calibration_error

ALPHA, DRAWS = 0.001, 100_000
LAWS = {
    "saturated, logits N(7, 2)": (7.0, 2.0),
    "confident, logits N(3, 1)": (3.0, 1.0),
    "unsure, logits N(0.5, 1)": (0.5, 1.0),
    "another class, logits N(-6, 2)": (-6.0, 2.0),
}
SHIFTS = np.array([0.25, 0.5, 1.0, 2.0])
MODELS = {"flat": (0.8, 0.3), "sloped": (4.0, 1.0), "steep": (10.0, 4.0), "sure": (3.0, 6.0)}
NODES, WEIGHTS = np.polynomial.hermite_e.hermegauss(180)
SIGMA = 0.5


def histogram(scores: np.ndarray) -> np.ndarray:
    """Return counts by cell (1, LEVELS)."""
    return np.bincount(np.minimum((scores * LEVELS).astype(int), LEVELS - 1), minlength=LEVELS)[None]


def band_misses(rng: np.random.Generator, draws: int, alpha: float, runs: int) -> float:
    """Return how often the band does not hold for uniform scores, the worst of all continuous laws."""
    missed = 0
    for _ in range(runs):
        row = np.sort(rng.random(draws))
        _, most = tail_exact(draws - 1 - np.arange(draws), draws, alpha)
        least, _ = tail_exact(draws - np.arange(draws), draws, alpha)
        missed += bool((1 - row > most).any() or (1 - row < least).any())
    return missed / runs


def interval_misses(rng: np.random.Generator, model: str, draws: int, alpha: float, runs: int) -> float:
    """Return how often some confidence within some radius is outside of its certified interval."""
    a, b = MODELS[model]
    radii = np.array([0.0, 0.25, 0.6])
    ends = np.concatenate([-radii, radii])
    truth = (expit(a * (ends[:, None] + SIGMA * NODES) + b) @ WEIGHTS / WEIGHTS.sum()).reshape(2, -1)
    missed = 0
    for _ in range(runs):
        scores = expit(a * SIGMA * rng.standard_normal(draws) + b)
        lower, upper = cdf_bounds(histogram(scores), alpha, radii / SIGMA)
        missed += bool((truth.min(0) < lower[0]).any() or (truth.max(0) > upper[0]).any())
    return missed / runs


def intervals(rng: np.random.Generator, law: tuple[float, float], shifts: np.ndarray) -> dict[str, np.ndarray]:
    """Return certified intervals (2, k) by name."""
    scores = expit(rng.normal(*law, DRAWS))
    found = {"dkw": dkw_bounds(histogram(scores), slack(DRAWS, ALPHA), shifts)}
    for name, draws in (("cdf, a tenth of the draws", DRAWS // 10), ("cdf", DRAWS)):
        found[name] = cdf_bounds(histogram(scores[:draws]), ALPHA, shifts)
    return {name: np.concatenate(ends) for name, ends in found.items()}


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=4000)
    runs = parser.parse_args().runs
    rng = np.random.default_rng(0)
    for draws in (200, 2000, 20_000):
        print(f"band, {draws:6} draws, alpha 0.1: misses {band_misses(rng, draws, 0.1, runs):.4f} of {runs} samples")
    for model in MODELS:
        missed = interval_misses(rng, model, 2000, 0.1, runs)
        print(f"certified interval of a {model} model, 2000 draws, alpha 0.1: misses {missed:.4f}")
    print(f"\nwidths at alpha {ALPHA:g}, radius / sigma " + ", ".join(f"{shift:g}" for shift in SHIFTS))
    for law, numbers in LAWS.items():
        for name, (lower, upper) in intervals(rng, numbers, SHIFTS).items():
            print(f"  {law:32} {name:26}", "  ".join(f"{width:.3f}" for width in upper - lower))
    print("\nexact CCE of 300 examples, logits N(m, 1.5), m ~ N(4, 2), at radius / sigma 1")
    ends: dict[str, list[np.ndarray]] = {}
    means = rng.normal(4, 2, 300)
    for mean in means:
        for name, found in intervals(rng, (mean, 1.5), np.array([1.0])).items():
            ends.setdefault(name, []).append(found[:, 0])
    correct = rng.random(300) < ndtr(means / 2)
    for name, found in ends.items():
        lower, upper = np.array(found).T
        print(f"  {name:26} {worst_calibration_error(lower, upper, correct).value:.3f}")


if __name__ == "__main__":
    main()
