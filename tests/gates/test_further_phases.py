"""How many further examples and survivors are told of a share measured in two phases, against drawing as many."""

from itertools import product

import numpy as np
import pytest

from app.cli.verdicts import _row
from app.reports.sarif import _properties
from seatrial.families.shared.robust_accuracy import RobustAccuracyParams
from seatrial.judging.evidence import Evidence
from seatrial.judging.measured import MeasuredCheck
from seatrial.judging.sample_size import POWER
from seatrial.judging.two_phases import further_of, prices_of
from seatrial.judging.verdict import judge
from seatrial.reporting.outcomes import further_in_words, rounded_up
from seatrial.statistics.nested import nested_proportion
from seatrial.statistics.products import Phases
from tests.gates.audits import SOURCE, SPAN, audit, check, policy

PRICES = (32.0, 11_000.0)
MEASURED = {"robust_accuracy": RobustAccuracyParams(epsilon=0.03, survivors=50).model_dump(mode="json")}
ROBUST = f"{SPAN}.robust_accuracy"


def evidence(standing: int, n: int, held: int, attacked: int) -> Evidence:
    return Evidence(nested_proportion(standing, n, held, attacked), phases=Phases(standing, n, held, attacked))


def measured(standing: int, n: int, held: int, attacked: int) -> MeasuredCheck:
    counts = {"robust_accuracy_first_n": n, "robust_accuracy_first_standing": standing, "robust_accuracy_n": attacked}
    return check({"robust_accuracy": nested_proportion(standing, n, held, attacked)}, params=MEASURED, counts=counts)


@pytest.mark.parametrize(
    ("phases", "bound", "times"),
    [
        ((1000, 2000, 45, 50), 0.41, 1),
        ((1000, 2000, 45, 50), 0.47, 1),
        ((1000, 2000, 45, 50), 0.41, 10),
        ((60, 100, 48, 50), 0.5, 1),
        ((3000, 10_000, 270, 300), 0.28, 1),
    ],
)
def test_they_decide_four_times_in_five(phases: tuple[int, int, int, int], bound: float, times: int) -> None:
    standing, n, held, attacked = phases
    found = further_of(evidence(*phases), bound, PRICES, times=times)
    assert found is not None
    rng = np.random.default_rng(1)
    decided = []
    for _ in range(400):
        stood = rng.binomial(n + found.examples, standing / n)
        second = min(stood, attacked + found.survivors)
        then = nested_proportion(
            int(stood), n + found.examples, int(rng.binomial(second, held / attacked)), int(second), alpha=0.05 / times
        )
        decided.append(then.high < bound if bound > standing / n * held / attacked else then.low > bound)
    # Rounded counts, and with Holm's correction a side that is scaled instead of worked out at its level.
    assert POWER - 0.1 < np.mean(decided) < POWER + 0.12


def test_no_pair_costs_less() -> None:
    phases, bound = (1000, 2000, 45, 50), 0.41
    found = further_of(evidence(*phases), bound, PRICES)
    assert found is not None
    price = found.examples * PRICES[0] + found.survivors * PRICES[1]
    for examples, survivors in product(range(0, 40_001, 500), range(0, 1001, 10)):
        # Each pair that costs a tenth less is too few, by the same measure: no further pair is told to be enough.
        if examples * PRICES[0] + survivors * PRICES[1] < 0.9 * price:
            n, attacked = 2000 + examples, 50 + survivors
            standing = max(attacked, round(n / 2))
            then = nested_proportion(standing, n, round(0.9 * attacked), attacked)
            chance = np.sqrt(0.81 * 0.25 / n + 0.25 * 0.09 / attacked)
            assert (then.value - then.low) + 0.8416 * chance > 0.45 - 0.41


def test_only_survivors_are_asked_for_where_the_first_phase_is_large_enough() -> None:
    found = further_of(evidence(5000, 10_000, 45, 50), 0.41, PRICES)
    assert found is not None
    assert found.examples == 0
    assert found.survivors > 100


def test_a_dataset_that_does_is_not_exceeded() -> None:
    free = further_of(evidence(1000, 2000, 45, 50), 0.41, PRICES)
    held = further_of(evidence(1000, 2000, 45, 50), 0.41, PRICES, most=500)
    assert free is not None
    assert held is not None
    assert free.examples > 500 >= held.examples
    assert held.survivors > free.survivors
    hopeless = further_of(evidence(1000, 2000, 45, 50), 0.445, PRICES, most=500)
    assert hopeless is not None
    assert hopeless.examples > 500


def test_a_value_at_its_bound_is_decided_by_none() -> None:
    assert further_of(evidence(1000, 2000, 45, 50), 0.45, PRICES) is None


def test_what_was_not_measured_in_two_phases_is_refused() -> None:
    found = Evidence(nested_proportion(50, 100, 50, 50))
    with pytest.raises(ValueError, match="two phases"):
        further_of(found, 0.4, PRICES)


def test_prices_are_of_one_example_in_each_phase() -> None:
    first, second = prices_of(measured(1000, 2000, 45, 50))
    # Two passes without and ten with their way back; of AutoAttack the 5,000 questions of Square are most.
    assert first == 32
    assert 5000 < second < 20_000


def test_a_rule_tells_both_wherever_it_is_shown() -> None:
    judgement = judge(policy({"metric": ROBUST, "min": 0.41}), SOURCE, audit(measured(1000, 2000, 45, 50)), left=5000)
    (rule,) = judgement.rules
    assert rule.outcome == "inconclusive"
    assert rule.further_survivors is not None
    assert 0 < (rule.further_examples or 0) <= 5000
    told = further_in_words(rule.further_examples or 0, 5000, rule.further_survivors)
    assert " more examples and " in told
    assert told in rule.reason
    assert told in judgement.headline
    examples, survivors = (rounded_up(number) for number in (rule.further_examples or 0, rule.further_survivors))
    assert _row(rule)[-1] == f"{examples:,} and {survivors:,} survivors"
    assert _properties(rule)["furtherSurvivors"] == rule.further_survivors


def test_a_rule_about_all_that_stand_tells_examples_alone() -> None:
    (rule,) = judge(policy({"metric": ROBUST, "min": 0.41}), SOURCE, audit(measured(50, 100, 45, 50)), left=5000).rules
    assert rule.outcome == "inconclusive"
    assert rule.further_examples
    assert rule.further_survivors is None
    assert "further_survivors" not in rule.model_dump()
