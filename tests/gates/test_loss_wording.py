"""How differences from a baseline are told: which way each end of their interval lies."""

from seatrial.reporting.outcomes import measured
from tests.gates.audits import ACCURACY, judged, outcome
from tests.gates.test_regression import accuracy


def test_a_gain_that_is_undecided_says_which_way_each_end_lies() -> None:
    now, then = accuracy(52, 60), accuracy(49, 60, "aud_1")
    found = judged(now, {"metric": ACCURACY, "max_regression": 0.02}, baseline=then)
    low, high = (100 * end for end in (found.rules[0].judged.low, found.rules[0].judged.high))
    assert found.headline.startswith(
        f"Not decided: Accuracy without an attack ({ACCURACY}) is 5.0 points better than the baseline's "
        f"(between {-low:.1f} points better and {high:.1f} points worse); "
    )
    assert found.rules[0].reason.startswith("the interval of the loss [-0.")
    assert f"; better by 0.0500 [{-high / 100:.4f}, {-low / 100:.4f}]" in measured(found.rules[0])


def test_a_loss_told_by_its_value_is_called_one() -> None:
    rule = {"metric": ACCURACY, "max_regression": 0.05, "interval": "ignored"}
    found = outcome(accuracy(60, 100), rule, baseline=accuracy(95, 100, "aud_1"))
    assert found.reason.startswith("a loss of 0.3500 is above 0.05")
