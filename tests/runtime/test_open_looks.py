"""Looks that are passed over: as soon as one number tells, and unmeasured where they will hardly end the check."""

import numpy as np
import pyarrow as pa

from seatrial.contracts.estimates import Looks
from seatrial.contracts.policies import Policy
from seatrial.contracts.registry import family
from seatrial.statistics.looks import look_sizes, spending
from workers.runtime.open_looks import UNLIKELY, NotReachedError, Read, following, is_surely_open

SIZES = look_sizes(1000)
SPEC = family("uncertainty_span")


def after(examples: int) -> Looks:
    return Looks(sizes=SIZES, alphas=spending(len(SIZES)), ended=1 + SIZES.index(examples))


def about(metric: str, bound: float, *more: str) -> Policy:
    rules = [{"metric": f"uncertainty_span.{one}", "min": bound} for one in (metric, *more)]
    return Policy(name="p", rules=rules)  # type: ignore[arg-type]


def attacked(right: np.ndarray[tuple[int], np.dtype[np.bool_]]) -> Read:
    """Return records of attacks, and of nothing that follows them."""
    n = len(right)
    columns = {"example_id": np.arange(n), "label": np.zeros(n, int), "prediction_clean": (~right).astype(int)}
    table = pa.table({**columns, "errored": np.zeros(n, bool)})

    def read(stage: str) -> pa.Table:
        if stage != "attack":
            raise NotReachedError(stage)
        return table

    return read


def first(examples: int, share: float) -> Read:
    return attacked(np.arange(examples) < round(share * examples))


def next_after(examples: int, share: float, bound: float, *, seed: int = 0) -> int:
    policy = about("clean_accuracy", bound)
    return following(policy, SPEC, {}, first(examples, share), after(examples), seed=seed).examples


def next_after_all(right: np.ndarray[tuple[int], np.dtype[np.bool_]]) -> int:
    policy = about("clean_accuracy", 0.5)
    return following(policy, SPEC, {}, attacked(right), after(len(right)), seed=0).examples


def test_at_its_bound_every_other_look_is_passed_over() -> None:
    assert [next_after(n, 0.5, 0.5) for n in (30, 60, 125, 250)] == [125, 250, 500, 1000]


def test_away_from_its_bound_none_is() -> None:
    assert next_after(60, 0.3, 0.5) == 125
    assert next_after(125, 0.6, 0.5) == 250


def test_looks_that_may_not_pass_are_passed_over_where_failing_is_unlikely() -> None:
    assert next_after(30, 1.0, 0.9) == 125
    assert next_after(30, 0.9, 0.5) == 125
    assert next_after(125, 0.9, 0.5) == 250
    assert next_after(125, 0.9, 0.5, seed=1) == next_after(30, 1.0, 0.9, seed=1) == 1000
    assert next_after(30, 0.0, 0.1) == 60


def test_one_number_that_is_not_measured_yet_leaves_what_another_says() -> None:
    policy, at_bound = about("clean_accuracy", 0.5, "mus_worst"), first(250, 0.5)
    assert is_surely_open(policy, SPEC, {}, at_bound, after(250), seed=0)
    assert following(policy, SPEC, {}, at_bound, after(250), seed=0).examples == 1000
    unknown = about("mus_worst", 0.5)
    assert not is_surely_open(unknown, SPEC, {}, at_bound, after(250), seed=0)
    assert following(unknown, SPEC, {}, at_bound, after(250), seed=0).examples == 500


def test_looks_that_are_passed_over_would_seldom_have_decided() -> None:
    draw = np.random.default_rng(5)
    passed_over = decided = 0
    for truth in draw.uniform(0.35, 0.65, 300):
        right = draw.random(1000) < truth
        for n, later in ((60, 125), (125, 250), (250, 500)):
            if next_after_all(right[:n]) > later:
                passed_over += 1
                decided += not is_surely_open(
                    about("clean_accuracy", 0.5), SPEC, {}, attacked(right[:later]), after(later), seed=0
                )
    assert passed_over > 150
    assert decided <= UNLIKELY * passed_over
