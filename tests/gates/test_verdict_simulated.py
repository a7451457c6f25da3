"""Gates asked 2,000 times about a metric that lies exactly at the bound: how often they pass and fail it."""

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import pytest

from seatrial.judging.evidence import ALPHA, decide, ends
from seatrial.judging.regression import mover, paired_difference
from seatrial.statistics.estimating import mean
from seatrial.statistics.proportions import score_interval
from tests.gates.audits import ACCURACY, MUS, audit, check, judged, share

TIMES = 2000

MOST = ALPHA / 2 + 2.5 * np.sqrt(ALPHA / 2 * (1 - ALPHA / 2) / TIMES)
"""What an outcome of probability alpha / 2 exceeds once in 160 runs of 2,000 simulations; seeds are fixed."""


def shares_of(outcomes: list[str]) -> tuple[float, float]:
    return outcomes.count("passed") / len(outcomes), outcomes.count("failed") / len(outcomes)


@cache
def verdict_on(hits: int, n: int, bound: float) -> str:
    return judged(audit(check({"clean_accuracy": share(hits, n)})), {"metric": ACCURACY, "min": bound}).verdict


@pytest.mark.parametrize("n", [20, 100, 500])
@pytest.mark.parametrize("rate", [0.02, 0.3, 0.5, 0.9])
def test_a_proportion_at_its_bound_is_decided_at_most_alpha_of_the_time(n: int, rate: float) -> None:
    drawn = np.random.default_rng(n).binomial(n, rate, TIMES)
    passed, failed = shares_of([verdict_on(int(hits), n, rate) for hits in drawn])
    assert max(passed, failed) <= MOST


Population = tuple[Callable[[np.random.Generator, tuple[int, int]], Any], float]

POPULATIONS: dict[str, Population] = {
    "uniform": (lambda rng, size: rng.random(size), 0.5),
    "lopsided": (lambda rng, size: rng.beta(0.3, 3, size), 0.3 / 3.3),
    "rare": (lambda rng, size: (rng.random(size) < 0.03).astype(float), 0.03),
    "mostly nothing": (lambda rng, size: (rng.random(size) < 0.1) * rng.random(size), 0.05),
}
"""Draws of values in [0, 1], and their mean."""


@pytest.mark.drill
@pytest.mark.parametrize("n", [30, 100, 500])
@pytest.mark.parametrize("population", POPULATIONS)
def test_a_mean_at_its_bound_is_decided_at_most_alpha_of_the_time(n: int, population: str) -> None:
    draw, truth = POPULATIONS[population]
    published = [mean(one, (0.0, 1.0)) for one in draw(np.random.default_rng(n), (TIMES, n))]
    passed, failed = shares_of([decide(ends(one), truth, "max") for one in published])
    assert max(passed, failed) <= MOST


@pytest.mark.drill
@pytest.mark.parametrize("n", [50, 200])
def test_a_mean_without_a_known_range_at_its_bound_is_decided_at_most_alpha_of_the_time(n: int) -> None:
    published = [mean(one, (0.0, None)) for one in np.random.default_rng(n).exponential(size=(TIMES, n))]
    passed, failed = shares_of([decide(ends(one), 1.0, "max") for one in published])
    assert max(passed, failed) <= MOST


def test_the_gate_itself_decides_a_mean_at_its_bound_at_most_alpha_of_the_time() -> None:
    draw, truth = POPULATIONS["lopsided"]
    rule, times = {"metric": MUS, "max": truth}, TIMES // 4
    published = [mean(one, (0.0, 1.0)) for one in draw(np.random.default_rng(0), (times, 100))]
    outcomes = [judged(audit(check({"mus_worst": one}, classes_nat=1.0)), rule).verdict for one in published]
    assert max(shares_of(outcomes)) <= ALPHA / 2 + 2.5 * np.sqrt(ALPHA / 2 * (1 - ALPHA / 2) / times)


@pytest.mark.parametrize(("worse", "better"), [(0.06, 0.03), (0.02, 0.0), (0.3, 0.2)])
def test_a_paired_regression_at_its_bound_is_decided_at_most_alpha_of_the_time(worse: float, better: float) -> None:
    n = 200
    drawn = np.random.default_rng(5).multinomial(n, [worse, better, 1 - worse - better], TIMES)[:, :2]
    interval = cache(score_interval)
    outcomes = [decide(interval(int(b), int(c), n), worse - better, "max") for b, c in drawn]
    assert max(shares_of(outcomes)) <= MOST


@pytest.mark.drill
def test_a_paired_regression_of_a_mean_at_its_bound_is_decided_at_most_alpha_of_the_time() -> None:
    rng, n = np.random.default_rng(6), 60
    then = rng.beta(0.5, 0.5, (TIMES, n))
    # Half of the examples changed, to a mean of 5/9.
    now = np.where(rng.random((TIMES, n)) < 0.5, then, rng.beta(0.5, 0.4, (TIMES, n)))
    truth = (5 / 9 - 1 / 2) / 2
    intervals = [paired_difference(one, (0.0, 1.0)).interval for one in now - then]
    outcomes = [decide(interval, truth, "max") for interval in intervals if interval is not None]
    assert len(outcomes) == TIMES
    assert min(shares_of(outcomes)) > 0
    assert max(shares_of(outcomes)) <= MOST


HARM: dict[str, Callable[[np.random.Generator, Any], Any]] = {
    "whole sentences": lambda rng, tags: tags * (rng.random(tags.shape) < 0.1),
    "rather long ones": lambda rng, tags: tags * (rng.random(tags.shape) < np.minimum(1, 0.05 * tags / 10)),
    "one tag in half of them": lambda rng, tags: (rng.random(tags.shape) < 0.5) * 1.0,
    "tags here and there": lambda rng, tags: rng.binomial(tags.astype(int), 0.1) * 1.0,
    "for better and worse": lambda rng, tags: rng.binomial(tags.astype(int), 0.2) - rng.binomial(tags.astype(int), 0.1),
}
"""How many tags of sentences of so many are wrong that were right."""


@pytest.mark.drill
@pytest.mark.parametrize("harm", HARM)
def test_a_regression_of_a_tagger_at_its_bound_is_decided_at_most_alpha_of_the_time(harm: str) -> None:
    rng, n, times = np.random.default_rng(9), 100, TIMES // 5

    def sentences(size: Any) -> Any:
        return np.maximum(1, rng.gamma(2, 5, size).astype(int)) * 1.0

    every = sentences(1_000_000)
    truth = HARM[harm](rng, every).sum() / every.sum()
    outcomes = []
    for tags in sentences((times, n)):
        each = n / tags.sum()
        found = paired_difference(HARM[harm](rng, tags) * each, (0.0, 1.0), tags * each)
        outcomes.append(decide(found.interval or (-1.0, 1.0), truth, "max"))
    assert max(shares_of(outcomes)) <= ALPHA / 2 + 2.5 * np.sqrt(ALPHA / 2 * (1 - ALPHA / 2) / times)


def test_an_unpaired_regression_at_its_bound_is_decided_at_most_alpha_of_the_time() -> None:
    rng, proportion = np.random.default_rng(7), cache(share)
    outcomes = [
        decide(ends(mover(proportion(int(then), 150), proportion(int(now), 300))), 0.05, "max")
        for then, now in zip(rng.binomial(150, 0.9, TIMES), rng.binomial(300, 0.85, TIMES), strict=True)
    ]
    assert max(shares_of(outcomes)) <= MOST


@pytest.mark.slow
def test_with_holm_any_of_several_metrics_at_their_bounds_is_decided_at_most_alpha_of_the_time() -> None:
    rng, n = np.random.default_rng(8), 200
    rates = {"clean": 0.5, "over": 0.7, "under": 0.3}
    decided = {"none": 0, "holm": 0}
    proportion = cache(share)
    rules = [{"metric": f"uncertainty_span.accuracy[arm={arm}]", "min": rate} for arm, rate in rates.items()]
    for hits in rng.binomial(n, list(rates.values()), (TIMES // 2, 3)):
        numbers = {f"accuracy[arm={arm}]": proportion(int(k), n) for arm, k in zip(rates, hits, strict=True)}
        measured = audit(check(numbers))
        for correction in decided:
            found = judged(measured, *rules, correction=correction).rules
            decided[correction] += any(one.outcome != "inconclusive" for one in found)
    assert decided["holm"] / (TIMES // 2) <= ALPHA + 2.5 * np.sqrt(ALPHA * (1 - ALPHA) / (TIMES // 2))
    assert decided["none"] > 1.5 * decided["holm"]
