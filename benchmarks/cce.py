"""The exact certified calibration error against the paper's ADMM, and how its time grows.

    OMP_NUM_THREADS=1 python -m benchmarks.cce
    OMP_NUM_THREADS=1 python -m benchmarks.cce --examples 500 --steps 300 --shifts 0.5 --sizes 1000 --many-bins 10 100

Samples are drawn to look like a smoothed model's: confidences from a beta distribution among those certified at the
radius, answers right as often as the confidence says, intervals from the standard certificate with 100,000 draws at
alpha 0.001. A radius enters as its shift, r / sigma. Seconds are those of one core. First, for each shift, values and
times of the exact solver, of the quickest of ADMM's 16 runs, of all 16, of dECE and of the Brier confidences; then the
exact solver's time by examples and by bins. Ends with status 0 when the exact value is nowhere lower and the solver at
least 500 times as fast as a single run of ADMM, asked at 7000 examples. All of it takes about ten minutes.
"""

import argparse
import dataclasses
import json
import statistics
import sys
import time
from collections.abc import Callable
from typing import TypeVar

import numpy as np
from scipy.special import betainc, betaincinv, ndtr

from seatrial.statistics.arrays import Floats
from seatrial.statistics.calibration import ece
from workers.certification.admm import GRID, AdmmOutcome, admm_calibration_error
from workers.certification.brier import brier_confidences
from workers.certification.confidence import slack, standard_bounds
from workers.certification.dece import dece_calibration_error
from workers.certification.worst_calibration import worst_calibration_error

BETA = (4.0, 1.2)
"""Mean 0.77: a CIFAR-10 model under noise of sigma 0.25."""

ASKED = 500
T = TypeVar("T")


@dataclasses.dataclass(frozen=True)
class Sample:
    """Certified examples at one shift: each attribute is (n,)."""

    lower: Floats
    upper: Floats
    correct: Floats
    clean: Floats

    @classmethod
    def drawn(cls, examples: int, shift: float, seed: int = 0) -> "Sample":
        """Return examples whose class, at a probability equal to the confidence, is certified at the shift."""
        rng = np.random.default_rng(seed)
        unseen = betainc(*BETA, ndtr(shift))
        clean = np.minimum(betaincinv(*BETA, unseen + (1 - unseen) * rng.random(examples)), 1.0)
        eps = np.full(examples, float(slack(100_000, 0.001)))
        lower, upper = standard_bounds(clean, eps, np.array([shift]))
        correct = (rng.random(examples) < clean).astype(np.float64)
        return cls(lower[:, 0], upper[:, 0], correct, clean)

    def exact(self, bins: int) -> float:
        """Return the certified calibration error."""
        value = worst_calibration_error(self.lower, self.upper, self.correct, bins).value
        assert value is not None
        return value


def timed(call: Callable[[], T]) -> tuple[float, T]:
    """Return the processor seconds of a call, which other work on the machine does not lengthen, and its result."""
    began = time.process_time()
    result = call()
    return time.process_time() - began, result


def median_seconds(call: Callable[[], object], repeats: int) -> float:
    """Return the median of several timings, after one that does not count."""
    call()
    return statistics.median(timed(call)[0] for _ in range(repeats))


def contest(shift: float, options: argparse.Namespace) -> dict[str, float]:
    """Print and return the values and times of every way at one shift."""
    sample, bins = Sample.drawn(options.examples, shift), options.bins
    vectors = sample.lower, sample.upper, sample.correct, sample.clean
    exact = sample.exact(bins)
    exact_s = median_seconds(lambda: sample.exact(bins), options.repeats)
    runs: list[tuple[float, AdmmOutcome]] = [
        timed(lambda one=one: admm_calibration_error(*vectors, bins, settings=(one,), steps=options.steps))
        for one in GRID
    ]
    quickest_s, quickest = min(runs, key=lambda run: run[0])
    grid_s, grid = sum(seconds for seconds, _ in runs), max(outcome.value for _, outcome in runs)
    dece_s, dece = timed(lambda: dece_calibration_error(*vectors, bins, seed=0))
    brier_s, brier = timed(
        lambda: ece(brier_confidences(sample.lower, sample.upper, sample.correct), sample.correct, bins)
    )
    width = float(np.mean(sample.upper - sample.lower))
    print(f"\nr / sigma = {shift:g}: {options.examples} examples, {bins} bins, mean width {width:.3f}, ", end="")
    print(f"ECE without an attack {ece(sample.clean, sample.correct, bins):.4f}")
    print(f"  {'':26}{'value':>9}{'of exact':>10}{'seconds':>11}{'of exact':>11}")
    for name, value, seconds in (
        ("exact", exact, exact_s),
        (f"ADMM, quickest run ({quickest.steps[0]})", quickest.value, quickest_s),
        ("ADMM, all 16 runs", grid, grid_s),
        ("dECE", dece, dece_s),
        ("Brier confidences", brier, brier_s),
    ):
        print(f"  {name:26}{value:9.4f}{value / exact:10.1%}{seconds:11.4f}{seconds / exact_s:10.1f}x")
    return {
        "shift": shift,
        "exact": exact,
        "exact_s": exact_s,
        "admm_quickest_s": quickest_s,
        "admm_grid_s": grid_s,
        "largest_other": max(grid, dece, brier),
        "admm_of_exact": grid / exact,
    }


def scaling(options: argparse.Namespace) -> dict[str, dict[int, float]]:
    """Print and return the exact solver's seconds by examples and by bins."""
    shift = options.shifts[len(options.shifts) // 2]
    found: dict[str, dict[int, float]] = {"examples": {}, "bins": {}}
    print(f"\nThe exact solver's time at r / sigma = {shift:g}")
    for kind, counts in (("examples", options.sizes), ("bins", options.many_bins)):
        for count in counts:
            examples, bins = (count, options.bins) if kind == "examples" else (options.examples, count)
            sample = Sample.drawn(examples, shift)
            # Bound by a default: the next turn draws another sample.
            seconds = median_seconds(lambda sample=sample, bins=bins: sample.exact(bins), options.repeats)
            found[kind][count] = seconds
            print(f"  {examples:9,} examples, {bins:5,} bins {seconds * 1e3:11.2f} ms")
    return found


def main() -> int:
    """Print the tables and a line of JSON, and return the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--examples", type=int, default=7000)
    parser.add_argument("--bins", type=int, default=15)
    parser.add_argument("--shifts", type=float, nargs="+", default=[0.2, 0.5, 1.0], help="radii over sigma")
    parser.add_argument("--steps", type=int, default=3000, help="steps of a run of ADMM at most")
    parser.add_argument("--sizes", type=int, nargs="*", default=[1_000, 10_000, 100_000, 1_000_000])
    parser.add_argument("--many-bins", type=int, nargs="*", default=[10, 30, 100, 300, 1000])
    parser.add_argument("--repeats", type=int, default=5)
    options = parser.parse_args()
    numbers = [contest(shift, options) for shift in options.shifts]
    grown = scaling(options)
    faster = min(one["admm_quickest_s"] / one["exact_s"] for one in numbers)
    never_lower = all(one["exact"] >= one["largest_other"] - 1e-12 for one in numbers)
    print(f"\nat least {faster:.0f} times as fast as one run of ADMM ({ASKED} asked), ", end="")
    print("never lower" if never_lower else "LOWER SOMEWHERE")
    print(json.dumps({"contests": numbers, "seconds": grown}))
    return 0 if never_lower and faster >= ASKED else 1


if __name__ == "__main__":
    sys.exit(main())
