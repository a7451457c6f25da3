"""How much worse than the baseline: paired, unpaired, and when there is no answer."""

import math
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from seatrial.contracts.estimates import Estimate
from seatrial.contracts.noise import ATTACKERS
from seatrial.contracts.states import RunState
from seatrial.judging.comparability import differences
from seatrial.judging.regression import mover, paired_difference
from seatrial.judging.verdict import Measured, Pairing
from seatrial.statistics.bounded import mean_interval
from seatrial.statistics.proportions import score_interval
from tests.gates.audits import ACCURACY, MUS, SPAN, TEXT, audit, broken, check, gap, judged, mean, outcome, share

PARAMS = {"kind": SPAN, "epsilon": 0.1, "steps": 50, "norm": "linf", "attacks": [], "bins": 15}


def accuracy(hits: int, n: int, name: str = "aud_2", **how: Any) -> Measured:
    return audit(check({"clean_accuracy": share(hits, n)}, **({"params": PARAMS} | how)), name=name)


def records(right: list[bool]) -> pa.Table:
    return pa.table(
        {
            "example_id": range(len(right)),
            "errored": [False] * len(right),
            "label": [0] * len(right),
            "prediction_clean": [0 if hit else 1 for hit in right],
        }
    )


def paired_with(now: list[bool], then: list[bool]) -> Pairing:
    stored = {"aud_2": records(now), "aud_1": records(then)}
    return Pairing(lambda name, position, stage: stored[name], is_same_dataset=True)


def regression(now: Measured, then: Measured | None, bound: float = 0.05, **how: Any) -> Any:
    return outcome(now, {"metric": ACCURACY, "max_regression": bound}, baseline=then, **how)


def test_without_a_baseline_it_is_skipped() -> None:
    found = regression(accuracy(90, 100), None)
    assert (found.outcome, found.counts_as, found.judged) == ("skipped", "errored", None)
    assert found.reason.startswith("there is no baseline to compare it with (an audit is none of itself): ")
    assert "`seatrial baselines promote AUDIT`" in found.reason
    assert "on its page in the console" in found.reason


def test_the_same_answers_are_not_worse_by_more_than_chance() -> None:
    right = [True] * 480 + [False] * 20
    now, then = accuracy(480, 500), accuracy(480, 500, "aud_1")
    found = regression(now, then, paired=paired_with(right, right))
    assert found.judged.method == "paired"
    assert (found.outcome, found.judged.value) == ("passed", 0)
    assert found.baseline == now.checks[0].result.estimates["clean_accuracy"]
    assert "compared example by example on the 500 that both audits have" in found.reason
    unpaired = regression(now, then)
    assert unpaired.judged.high > found.judged.high
    assert "the records are not available" in unpaired.reason


def test_worse_is_lower_where_higher_is_better_and_higher_where_lower_is() -> None:
    assert regression(accuracy(70, 100), accuracy(90, 100, "aud_1")).judged.value == pytest.approx(0.2)
    now, then = (audit(check({"mus_worst": gap(value, value - 0.1, value + 0.1)}), name="a") for value in (0.6, 0.4))
    found = outcome(now, {"metric": MUS, "max_regression": 0}, baseline=then)
    assert (found.judged.value, found.requirement) == (pytest.approx(0.2), "not worse than the baseline")
    assert outcome(then, {"metric": MUS, "max_regression": 0.5}, baseline=now).outcome == "passed"


def test_a_model_that_lost_examples_fails_when_paired() -> None:
    then, now = [True] * 450 + [False] * 50, [True] * 400 + [False] * 100
    found = regression(accuracy(400, 500), accuracy(450, 500, "aud_1"), paired=paired_with(now, then))
    assert (found.outcome, found.judged.value) == ("failed", pytest.approx(0.1))


def test_the_headline_tells_how_much_worse() -> None:
    now, then = accuracy(60, 100), accuracy(95, 100, "aud_1")
    rule = {"metric": ACCURACY, "max_regression": 0.05}
    found = judged(now, rule, baseline=then)
    assert found.baseline == "aud_1"
    assert found.headline == (
        f"Do not ship: Accuracy without an attack ({ACCURACY}) is 35.0 points worse than the baseline's; "
        "the policy allows at most 5 points."
    )
    strictly = judged(now, rule | {"max_regression": 0}, baseline=then).headline
    assert strictly.endswith(" worse than the baseline's; the policy allows no loss.")


def test_audits_of_different_data_are_compared_by_their_intervals_and_it_is_said() -> None:
    answers = [True] * 90 + [False] * 10
    pairing = Pairing(paired_with(answers, answers).read, is_same_dataset=False)
    found = regression(accuracy(90, 100), accuracy(90, 100, "aud_1"), paired=pairing)
    assert found.judged.method == "mover"
    assert "not compared example by example: the audits are of different datasets" in found.reason


@pytest.mark.parametrize(("doubts", "told"), [("error", "passed"), ("warning", "errored")])
def test_a_baseline_of_other_data_is_a_doubt_however_good_the_number_is(doubts: str, told: str) -> None:
    other = Pairing(lambda *of: None, is_same_dataset=False)
    found = regression(accuracy(499, 500), accuracy(250, 500, "aud_1"), paired=other, doubts=doubts)
    assert found.outcome == told
    assert ("in doubt (other_dataset)" in found.reason) is (told == "errored")


@pytest.mark.parametrize(("name", "value"), [("epsilon", 0.2), ("steps", 100), ("norm", "l2"), ("restarts", 5)])
def test_audits_that_mean_different_things_are_not_compared(name: str, value: Any) -> None:
    now = audit(check({"mus_worst": gap(0.4, 0.3, 0.5)}, params=PARAMS))
    then = audit(check({"mus_worst": gap(0.4, 0.3, 0.5)}, params=PARAMS | {name: value}), name="aud_1")
    found = outcome(now, {"metric": MUS, "max_regression": 0.5}, baseline=then)
    assert found.outcome == "errored"
    assert f"{name} is" in found.reason
    assert f"{value} in the baseline" in found.reason


@pytest.mark.parametrize(("name", "value"), [("attacks", ["ace"]), ("bins", 30), ("robust_accuracy", {"epsilon": 0.1})])
def test_what_a_number_does_not_depend_on_may_differ(name: str, value: Any) -> None:
    assert differences(MUS, PARAMS, PARAMS | {name: value}) == []


def test_clean_accuracy_does_not_depend_on_the_attack() -> None:
    assert differences(ACCURACY, PARAMS, PARAMS | {"epsilon": 0.2, "steps": 9, "norm": "l2"}) == []
    assert differences(f"{SPAN}.ece[arm=clean]", PARAMS, PARAMS | {"bins": 30}) == [
        "bins is 15 here and 30 in the baseline"
    ]


def test_a_parameter_an_older_audit_did_not_have_is_at_its_default() -> None:
    assert differences(MUS, PARAMS, PARAMS | {"random_start": False}) == []
    assert differences(MUS, PARAMS, PARAMS | {"random_start": True}) != []


TEXT_PARAMS = {"kind": TEXT, "recipes": ["pwws"], "arms": ["calibrated"], "validation_samples": 200}
GAMES = {"kind": "transductive_attack", "attacks": ["fpa"], "repeats": 1, "epsilon": 0.3}
DENT, RMC = {"name": "dent", "preset": "small", "changes": {}}, {"name": "rmc", "preset": "small", "changes": {}}
OVERESTIMATE = "transductive_attack.overestimate[defence=dent]"
NOISE, BY_VISUAL = {"kind": "low_level_attack"}, "[attacker=visual,level=0.2]"
NOISY = "low_level_attack.{}".format
CERTIFY = {"kind": "certified_calibration", "sigma": 0.25, "n": 1000, "radii": [0.0, 0.25], "bins": 15}


@pytest.mark.parametrize(
    ("metric", "now", "change", "matters"),
    [
        (f"{TEXT}.illusion_gap", TEXT_PARAMS, {"recipes": ["pwws", "bae"]}, True),
        (f"{TEXT}.illusion_gap[recipe=pwws]", TEXT_PARAMS, {"recipes": ["pwws", "bae"]}, False),
        (f"{TEXT}.illusion_gap[recipe=pwws]", TEXT_PARAMS, {"arms": []}, True),
        (f"{TEXT}.adversarial_accuracy[arm=as_served,recipe=pwws]", TEXT_PARAMS, {"arms": []}, False),
        (f"{TEXT}.adversarial_accuracy[arm=as_served,recipe=pwws]", TEXT_PARAMS, {"validation_samples": 9}, False),
        (f"{TEXT}.adversarial_accuracy[arm=calibrated,recipe=pwws]", TEXT_PARAMS, {"validation_samples": 9}, True),
        (f"{TEXT}.adversarial_accuracy[arm=calibrated,recipe=pwws]", TEXT_PARAMS, {"query_budget": 9}, True),
        (f"{TEXT}.illusion_gap", TEXT_PARAMS, {"design_temperature": 0.01}, False),
        (f"{TEXT}.clean_accuracy", TEXT_PARAMS, {"recipes": ["bae"], "query_budget": 9}, False),
        ("certified_calibration.cce[radius=0.25]", CERTIFY, {"radii": [0.25]}, False),
        ("certified_calibration.cce[radius=0.25]", CERTIFY, {"sigma": 0.5}, False),
        ("certified_calibration.cce[radius=0.25]", CERTIFY, {"bins": 10}, True),
        ("certified_calibration.cce[radius=0.25]", CERTIFY, {"confidence_bound": "standard"}, True),
        ("certified_calibration.certified_accuracy[radius=0.25]", CERTIFY, {"confidence_bound": "standard"}, False),
        ("certified_calibration.certified_accuracy[radius=0.25]", CERTIFY, {"n": 99}, True),
        *[
            (f"certified_calibration.{name}", CERTIFY | {"uncertainty": {}}, change, matters)
            for name, change, matters in (
                ("certified_accuracy[radius=0.25]", {"uncertainty": {"classes": 3}}, False),
                ("certified_span[uncertainty=gini,radius=0.25]", {"uncertainty": {"attack": True}}, False),
                ("certified_span[uncertainty=gini,radius=0.25]", {"uncertainty": {"classes": 3}}, True),
                ("certified_span[uncertainty=gini,radius=0.25]", {"uncertainty": {"coverage": 0.8}}, False),
                ("certified_span[uncertainty=gini,radius=0.25]", {"bins": 10, "radii": [0.25]}, False),
                ("certified_coverage[radius=0.25]", {"uncertainty": {"coverage": 0.8}}, True),
                ("certified_coverage[radius=0.25]", {"radii": [0.25]}, True),
                ("cce_classwise[radius=0.25]", {"bins": 10}, True),
                ("cce_classwise[radius=0.25]", {"noise": "independent", "uncertainty": {"price_failures": True}}, True),
                ("cce_classwise[radius=0.25]", {"confidence_bound": "standard"}, False),
                ("certified_ks[radius=0.25]", {"confidence_bound": "standard"}, True),
                ("certified_ks[radius=0.25]", {"bins": 10}, False),
            )
        ],
        (
            OVERESTIMATE,
            GAMES | {"defences": [DENT]},
            {"attacks": ["gmsa_min"]},
            True,
        ),
        (
            OVERESTIMATE,
            GAMES | {"defences": [DENT]},
            {"defences": [RMC, DENT]},
            False,
        ),
        (
            OVERESTIMATE,
            GAMES | {"defences": [DENT]},
            {"defences": [DENT | {"preset": "cifar10"}]},
            True,
        ),
        ("transductive_attack.clean_accuracy[defence=dent]", GAMES | {"defences": [DENT]}, {"epsilon": 0.1}, False),
        ("transductive_attack.static_accuracy", GAMES | {"defences": [DENT]}, {"defences": [RMC]}, False),
        ("uncertainty_span.robust_accuracy", PARAMS | {"robust_accuracy": {"epsilon": 0.1}}, {"epsilon": 0.2}, False),
        *[
            (NOISY(f"{name}{BY_VISUAL}"), NOISE, change, True)
            for name in ("score", "relative_score", "flip_rate", "characters_changed", "ece")
            for change in ({"variant": "paper"}, {"selection": "paper"}, {"phi": 0.5}, {"glyphs": "dejavu_bmp"})
        ],
        (NOISY(f"score{BY_VISUAL}"), NOISE, {"typos": "nlpaug"}, False),
        (NOISY("score[attacker=natural_typo,level=0.2]"), NOISE, {"typos": "nlpaug"}, True),
        (NOISY("score[attacker=natural_typo,level=0.2]"), NOISE, {"glyphs": "confusables"}, False),
        (NOISY(f"score{BY_VISUAL}"), NOISE, {"attackers": ["visual"], "levels": [0.2], "draws": 9}, False),
        (NOISY(f"score{BY_VISUAL}"), NOISE, {"selection": "code", "combined": True, "bins": 9}, False),
        (NOISY(f"persistent_score{BY_VISUAL}"), NOISE, {"draws": 9}, True),
        (NOISY(f"persistent_score{BY_VISUAL}"), NOISE, {"attackers": ["visual"]}, False),
        (NOISY(f"ece{BY_VISUAL}"), NOISE, {"bins": 9}, True),
        (NOISY("score[attacker=combined,level=0.2]"), NOISE, {"attackers": ["visual", "phonetic"]}, True),
        (NOISY("worst_case_score[level=0.2]"), NOISE, {"attackers": ["visual"]}, True),
        (NOISY("worst_case_score[level=0.2]"), NOISE, {"combined": True}, True),
        (NOISY("worst_case_score[level=0.2]"), NOISE, {"draws": 2}, True),
        (NOISY("worst_case_score[level=0.2]"), NOISE, {"levels": [0.2]}, False),
        (NOISY("worst_case_score[level=0.2]"), NOISE, {"attackers": list(reversed(ATTACKERS))}, False),
        (NOISY("mean_relative_score[level=0.2]"), NOISE, {"attackers": ["visual"]}, True),
        (NOISY("mean_relative_score[level=0.2]"), NOISE, {"draws": 2, "levels": [0.2]}, False),
        (NOISY("rank[attacker=visual]"), NOISE, {"attackers": ["visual", "phonetic"]}, True),
        (NOISY("rank[attacker=visual]"), NOISE, {"levels": [0.2]}, True),
        (NOISY("edit_correlation"), NOISE, {"levels": [0.2]}, True),
        *[(NOISY(f"score[attacker={name},level=0.2]"), NOISE, {"phi": 0.5}, True) for name in ("intrude", "segment")],
        *[
            (NOISY(f"score[attacker={name},level=0.2]"), NOISE, {"phi": 0.5}, False)
            for name in ("inner_shuffle", "disemvowel", "truncate", "natural_typo", "phonetic", "keyboard_typo")
        ],
        (NOISY("score[attacker=keyboard_typo,level=0.2]"), NOISE | {"variant": "paper"}, {"phi": 0.5}, True),
        (NOISY("score[attacker=combined,level=0.2]"), NOISE, {"phi": 0.5}, True),
        (NOISY("worst_case_score[level=0.2]"), NOISE, {"phi": 0.5}, True),
        (NOISY("worst_case_score[level=0.2]"), NOISE | {"attackers": ["truncate"]}, {"phi": 0.5}, False),
        (NOISY("edit_correlation"), NOISE, {"draws": 2, "bins": 3}, False),
        (NOISY("score[level=0]"), NOISE, {"variant": "paper", "attackers": ["visual"], "levels": [0.5]}, False),
        (NOISY("ece[level=0]"), NOISE, {"variant": "paper"}, False),
        (NOISY("ece[level=0]"), NOISE, {"bins": 9}, True),
        (
            "uncertainty_span.robust_accuracy",
            PARAMS | {"robust_accuracy": {"epsilon": 0.1}},
            {"robust_accuracy": {"epsilon": 0.2}},
            True,
        ),
    ],
)
def test_which_parameters_change_what_a_number_means(metric: str, now: Any, change: Any, matters: bool) -> None:
    assert bool(differences(metric, now, now | change)) == matters


def test_what_is_not_set_is_told_as_what_it_stands_for() -> None:
    assert differences(NOISY(f"score{BY_VISUAL}"), NOISE | {"phi": 0.3}, NOISE) == [
        "phi is 0.3 here and not set (the level) in the baseline"
    ]


def test_a_difference_inside_a_parameter_is_named() -> None:
    now, then = ({"robust_accuracy": {"epsilon": epsilon, "steps": 20}} for epsilon in (0.1, 0.2))
    assert differences(f"{SPAN}.robust_accuracy", PARAMS | now, PARAMS | then) == [
        "robust_accuracy/epsilon is 0.1 here and 0.2 in the baseline"
    ]


def test_of_several_baseline_checks_the_one_that_means_the_same_is_taken() -> None:
    then = audit(
        check({"mus_worst": gap(0.9, 0.8, 1.0)}, params=PARAMS | {"steps": 9}),
        check({"mus_worst": gap(0.4, 0.3, 0.5)}, params=PARAMS, position=1),
    )
    now = audit(check({"mus_worst": gap(0.4, 0.3, 0.5)}, params=PARAMS))
    assert outcome(now, {"metric": MUS, "max_regression": 0.5}, baseline=then).judged.value == 0


def test_a_baseline_without_the_number() -> None:
    now, rule = audit(check({"mus_worst": gap(0.4, 0.3, 0.5)})), {"metric": MUS, "max_regression": 0.5}
    for then, told in (
        (audit(check({}, kind=TEXT)), "skipped"),
        (audit(check({"mus": gap(0.4, 0.3, 0.5)})), "skipped"),
        (audit(broken(RunState.FAILED)), "errored"),
        (audit(check({"mus_worst": mean(0, None, None).model_copy(update={"value": None})})), "errored"),
    ):
        found = outcome(now, rule, baseline=then)
        assert (found.outcome, found.judged) == (told, None)
        assert "baseline" in found.reason


def test_a_doubtful_baseline_is_a_doubt() -> None:
    now = audit(check({"mus_worst": gap(0.4, 0.39, 0.41)}))
    then = audit(check({"mus_worst": gap(0.4, 0.39, 0.41)}, ("zero_gradients", "error")))
    assert outcome(now, {"metric": MUS, "max_regression": 0.5}, baseline=then).outcome == "errored"


def test_a_doubtful_baseline_is_a_doubt_example_by_example_too() -> None:
    doubted = audit(check({"clean_accuracy": share(90, 100)}, ("randomized_forward", "error")), name="aud_1")
    answers = [True] * 90 + [False] * 10
    found = regression(accuracy(90, 100), doubted, bound=0.5, paired=paired_with(answers, answers))
    assert (found.judged.method, found.outcome) == ("paired", "errored")


def test_numbers_without_intervals_make_none() -> None:
    now, then = (audit(check({"mus_worst": mean(0.4, *ends)})) for ends in ((0.3, 0.5), (None, None)))
    found = outcome(now, {"metric": MUS, "max_regression": 0.5}, baseline=then)
    assert (found.outcome, found.judged.value, found.judged.high) == ("inconclusive", 0, None)
    assert "no interval" in found.reason


@pytest.mark.parametrize("n", [40, 4_000])
def test_paired_means_get_the_interval_of_a_mean_in_their_range(n: int) -> None:
    rng = np.random.default_rng(0)
    worse = rng.beta(2, 5, n) - rng.beta(2, 5, n)
    found = paired_difference(worse, (0.0, 2.0)).judged
    assert found.value == pytest.approx(worse.mean())
    assert (found.low, found.high) == pytest.approx(mean_interval(worse, -2, 2))
    assert found.method == "paired"


def test_weighted_paired_means_are_those_of_sums_over_weights() -> None:
    """By drawing weights: one sentence more, of the size a tag drawn from all lies in, may be lost or gained whole."""
    rng = np.random.default_rng(3)
    weights = rng.integers(1, 9, 300).astype(float)
    weights = weights / weights.mean()
    worse = (rng.beta(2, 5, 300) - rng.beta(2, 5, 300)) * weights
    found = paired_difference(worse, (0.0, 1.0), weights).judged
    drawn, unseen = rng.standard_exponential((20_000, 300)), rng.standard_exponential(20_000) * np.mean(weights**2)
    total = drawn @ weights + unseen
    ends = np.quantile((drawn @ worse - unseen) / total, 0.025), np.quantile((drawn @ worse + unseen) / total, 0.975)
    assert (found.low, found.high) == pytest.approx(ends, abs=0.02 * (ends[1] - ends[0]))


def test_rounding_does_not_decide_the_interval_of_paired_means() -> None:
    steps = np.random.default_rng(0).integers(-1, 3, 40)
    found, exact = (paired_difference(steps / scale, (0.0, 20 / scale)).judged for scale in (10, 8))
    assert (found.low, found.high) == pytest.approx((0.8 * exact.low, 0.8 * exact.high), abs=1e-9)


@pytest.mark.parametrize("value", [0.25, 0.1, 0.7])
def test_paired_means_that_are_all_alike_leave_room_for_what_was_not_seen(value) -> None:
    # Neither 0.1 nor 0.7 sums to the same in every order; that is rounding and no spread.
    leaves = paired_difference(np.full(100, value), (0.0, 2.0)).judged
    assert leaves.method == "paired"
    assert (leaves.low, leaves.high) == pytest.approx(
        (value - 0.0362 * (2 + value), value + 0.0362 * (2 - value)), abs=4e-4
    )
    unknown = paired_difference(np.full(100, value), None).judged
    assert (unknown.low, unknown.high) == (None, None)


def test_mover_is_newcombe_s_method_for_two_proportions() -> None:
    # Newcombe (1998), table II, 56/70 less 48/80 by method 10 with Wilson intervals.
    one = Estimate(value=0.8, low=0.6918, high=0.8769, n=70, method="paired")
    two = Estimate(value=0.6, low=0.4904, high=0.7002, n=80, method="paired")
    found = mover(one, two)
    assert (found.low, found.high) == pytest.approx((0.0524, 0.3339), abs=2e-4)


def test_mover_of_two_normal_intervals_is_the_difference_s() -> None:
    one, two = gap(1.0, 0.7, 1.3, n=50), gap(0.5, 0.1, 0.9, n=70)
    found = mover(one, two)
    assert (found.value, found.low, found.high, found.n) == (0.5, pytest.approx(0.0), pytest.approx(1.0), 50)
    with pytest.raises(ValueError, match="value"):
        mover(one, two.model_copy(update={"value": None}))


def test_the_intervals_that_are_shown_are_those_that_are_combined() -> None:
    then, now = (audit(check({"mus_worst": mean(0.5, 0.4, 0.65, n=50)}, classes_nat=2.0), name=name) for name in "ab")
    found = outcome(now, {"metric": MUS, "max_regression": 0.5}, baseline=then).judged
    assert found.high == pytest.approx(math.hypot(0.65 - 0.5, 0.5 - 0.4))


def test_many_rules_for_one_number_read_its_records_once() -> None:
    read: list[str] = []

    def records(audit_id: str, position: int, stage: str) -> Any:
        read.append(audit_id)
        flags = [True] * 40
        return pa.table({"example_id": range(40), "errored": [False] * 40, "label": flags, "prediction_clean": flags})

    one = check({ACCURACY.partition(".")[2]: share(40, 40)})
    rules = [{"metric": ACCURACY, "max_regression": bound / 1000} for bound in range(100)]
    paired = Pairing(read=records, is_same_dataset=True)
    found = judged(audit(one), *rules, baseline=audit(one, name="aud_1"), paired=paired)
    assert len(found.rules) == 100
    assert sorted(read) == ["aud_1", "aud_2"]


def test_pairs_that_win_and_lose_are_judged_by_their_score_interval() -> None:
    found = paired_difference(np.array([1.0] * 9 + [-1.0] * 3 + [0.0] * 28), (0.0, 1.0))
    assert found.discordant == (9, 3)
    assert (found.judged.low, found.judged.high) == score_interval(9, 3, 40)
    assert paired_difference(np.array([1.0] * 9 + [-1.0] * 3 + [0.0] * 28), (0.0, 2.0)).discordant is None
