"""Intervals are made as the page of the families says, and end where a number can be."""

import numpy as np
import pytest

from seatrial.contracts.estimates import split_name
from seatrial.families.low_level_attack.spec import SPEC
from seatrial.statistics.clusters import interval_of
from tests.families.low_level_attack.fabricated import parameters, sampled
from workers.families.low_level_attack import estimates
from workers.families.low_level_attack.audit import Audit
from workers.families.low_level_attack.intervals import correlation_interval, surely_below
from workers.families.low_level_attack.resampling import Resampled

LABELS = "multi-label-classification"
TASKS = ["text-classification", "token-classification", LABELS]


@pytest.mark.parametrize("task", TASKS)
def test_every_interval_holds_its_number_and_stays_in_its_range(task: str) -> None:
    params = parameters(attackers=["visual", "truncate"], levels=[0.5, 0.8], draws=2)
    result = estimates.reduce(params, sampled(task, params, n=60), 3)
    again = estimates.reduce(params, sampled(task, params, n=60), 3)
    assert result.estimates == again.estimates
    for name, found in result.estimates.items():
        if found.low is None:
            continue
        base, qualifiers = split_name(name)
        lowest, highest = SPEC.find_metric(base, qualifiers).range
        assert found.low <= found.value <= found.high, name
        assert lowest <= found.low, name
        assert highest is None or found.high <= highest, name
    told = {split_name(name)[0] for name, found in result.estimates.items() if found.low is not None}
    assert told >= {"score", "relative_score", "mean_relative_score", "score_drop", "flip_rate", "rank", "ece"}


@pytest.mark.parametrize("task", TASKS)
def test_what_is_left_of_a_score_is_about_what_resampling_says(task: str) -> None:
    params = parameters(attackers=["visual"], levels=[0.8])
    done = sampled(task, params, n=200)
    result, drawn = estimates.reduce(params, done, 3), Resampled(Audit(params, done), 3)
    attacked, found = drawn.attacked("visual"), result.estimates["relative_score[attacker=visual,level=0.8]"]
    low, high = interval_of(attacked.cells[0.8].score / attacked.before)
    # Of the rarest label there are twenty texts, of which one that was not seen counts for that much.
    room = 0.09 if task == LABELS else 4 / 200 / float(attacked.before[0])
    assert low - room < found.low < low + 0.02
    assert high - 0.02 < found.high < high + room


def test_a_correlation_of_points_without_noise_is_known_and_one_drowned_in_it_is_not() -> None:
    x = np.tile(np.arange(6.0), (1001, 1))
    noise = np.random.default_rng(0).normal(size=(1001, 6))
    exact = correlation_interval(x, -x, 10**9, [0])
    assert exact == (pytest.approx(-1, abs=1e-6), pytest.approx(-1, abs=1e-6))
    low, high = correlation_interval(x, -x + 0.2 * noise, 10**9, [0])
    assert low == -1 < high < -0.9
    assert correlation_interval(x, -x + 9 * noise, 10**9, [0]) == (-1, 1)
    # Ten examples may have missed one that changes everything.
    assert correlation_interval(0.1 * x, -0.1 * x, 10, [0])[1] > -0.9
    assert correlation_interval(x, 0 * x, 100, [0]) is None


def test_attackers_are_only_ranked_apart_by_examples_that_tell_them_apart() -> None:
    decisions = np.ones(40)
    harmful, weak, idle = (np.arange(40) >= lost for lost in (30, 6, 5))
    found = surely_below([one.astype(float) for one in (harmful, weak, idle)], decisions)
    assert found.tolist() == [[False, True, True], [False, False, False], [False, False, False]]


def test_ends_of_ranks_are_places_there_are() -> None:
    params = parameters(attackers=["truncate", "visual", "intrude"], levels=[0.8], combined=True)
    result = estimates.reduce(params, sampled("text-classification", params), 0)
    ranks = [result.estimates[f"rank[attacker={name}]"] for name in params.runs("text-classification")]
    assert len(ranks) == 4
    assert {end for rank in ranks for end in (rank.low, rank.high)} <= {1, 2, 3, 4}
