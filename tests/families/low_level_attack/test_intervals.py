"""Intervals are made as the page of the families says, and end where a number can be."""

import pytest

from seatrial.statistics.clusters import interval_of
from tests.families.low_level_attack.fabricated import parameters, sampled
from workers.families.low_level_attack import estimates
from workers.families.low_level_attack.audit import Audit
from workers.families.low_level_attack.resampling import Resampled


@pytest.mark.parametrize("task", ["text-classification", "text-pair-classification"])
def test_what_is_left_of_a_score_has_the_hull_of_a_bootstrap_and_of_the_interval_of_its_drop(task) -> None:
    params = parameters(attackers=["visual"], levels=[0.5, 0.8])
    done = sampled(task, params, n=80)
    result = estimates.reduce(params, done, 3)
    drawn = Resampled(Audit(params, done), 3)
    before = result.estimates["score[level=0]"].value
    for level in params.levels:
        of = f"[attacker=visual,level={level:g}]"
        attacked, drop = drawn.attacked("visual"), result.estimates[f"score_drop{of}"]
        low, high = interval_of(attacked.cells[level].score / attacked.before)
        found = result.estimates[f"relative_score{of}"]
        assert found.low == pytest.approx(min(low, 1 - drop.high / before))
        assert found.high == pytest.approx(max(high, 1 - drop.low / before))


def test_ends_of_ranks_are_places_there_are() -> None:
    params = parameters(attackers=["truncate", "visual", "intrude"], levels=[0.8], combined=True)
    result = estimates.reduce(params, sampled("text-classification", params), 0)
    ranks = [result.estimates[f"rank[attacker={name}]"] for name in params.runs("text-classification")]
    assert len(ranks) == 4
    assert {end for rank in ranks for end in (rank.low, rank.high)} <= {half / 2 for half in range(2, 9)}
