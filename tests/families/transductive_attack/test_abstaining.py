"""Defences that may refuse: the paper's pair against row by row, and what refusing cannot buy."""

import numpy as np
import pyarrow as pa
import pytest
from scipy import stats

from seatrial.contracts.estimates import metric_name
from seatrial.families.shared.per_example import Records
from seatrial.families.transductive_attack.params import game_of
from seatrial.families.transductive_attack.records import SELECTIVE_ERROR, holds
from tests.families.transductive_attack.fabricated import parameters, records, replaced
from workers.families.transductive_attack.estimates import count, estimate_all, selective_error
from workers.families.transductive_attack.flags import doubt
from workers.families.transductive_attack.sample import Outcomes

DEFENCE, ATTACK = "urejectron", "fpa"
OF = f"[defence={DEFENCE},attack={ATTACK}]"


def abstaining(n: int = 120, **changes):
    """A check of URejectron whose games every test changes as it likes."""
    params = parameters(defences=[DEFENCE], corruptions=["brightness"], **changes)
    return params, records(params, n=n)


def answered(done, stage: str, *, rejected, correct, clean_rejected=None, clean_right=None):
    """A game with these flags; what is not given is that nothing is refused and everything answered rightly."""
    table = done[stage]
    n = table.num_rows
    rejected, correct = np.broadcast_to(rejected, n), np.broadcast_to(correct, n)
    refused = np.zeros(n, bool) if clean_rejected is None else np.broadcast_to(clean_rejected, n)
    right = np.ones(n, bool) if clean_right is None else np.broadcast_to(clean_right, n)
    done[stage] = replaced(
        table,
        rejected=pa.array(rejected.copy()),
        correct=pa.array(correct & ~rejected),
        robust=pa.array(holds(correct.copy(), rejected, right, refused)),
        clean_rejected=pa.array(refused.copy()),
    )


def test_the_pair_is_that_of_equation_1_by_hand() -> None:
    params, done = abstaining(n=10)
    # Four are refused; of the six answered two are wrong.
    rejected = np.array([True] * 4 + [False] * 6)
    correct = np.array([False] * 6 + [True] * 4)
    answered(done, game_of(DEFENCE, ATTACK, 0), rejected=rejected, correct=correct)
    found, counts = estimate_all(params, done), count(params, done)
    error = found[f"selective_error{OF}"]
    exact = stats.binomtest(2, 6).proportion_ci(method="exact")
    assert (error.value, error.n) == (2 / 6, 6)
    assert (error.low, error.high) == pytest.approx((exact.low, exact.high))
    assert found[f"rejection_rate{OF}"].value == 0.4
    # Eq. 1 divides by all: 2 of 10.
    assert counts[f"wrong{OF}"] / (counts[f"n{OF}"] * counts[f"repeats{OF}"]) == 0.2
    assert error.value * (1 - found[f"rejection_rate{OF}"].value) == pytest.approx(0.2)


def test_over_repeats_it_is_the_ratio_of_sums_and_the_farthest_ends_of_the_whole_numbers_around_it() -> None:
    rng = np.random.default_rng(5)
    kept = rng.random((3, 40)) < 0.7
    wrong = kept & (rng.random((3, 40)) < 0.3)
    ids = np.arange(40)
    found = selective_error((Outcomes(ids, wrong), Outcomes(ids, kept)))
    assert found.value == pytest.approx(wrong.sum() / kept.sum())
    lower, upper = int(wrong.sum() // 3), int(-(-wrong.sum() // 3))
    sizes = {int(kept.sum() // 3), int(-(-kept.sum() // 3))}
    ends = [stats.binomtest(k, size).proportion_ci(method="exact") for k in (lower, upper) for size in sizes]
    assert found.low == pytest.approx(min(end.low for end in ends))
    assert found.high == pytest.approx(max(end.high for end in ends))


@pytest.mark.parametrize("kept_share", [0.1, 0.6])
def test_its_interval_covers_the_error_of_what_is_answered(kept_share: float) -> None:
    """Refusals that depend on how hard an example is; three repeats with luck of their own."""
    rng, missed, trials, ids = np.random.default_rng(11), np.zeros(2), 300, np.arange(60)
    # What is answered has difficulty below kept_share on the whole; an answer is wrong with chance difficulty / 2.
    truth = kept_share / 4
    for _ in range(trials):
        difficulty = rng.random(60)
        kept = np.broadcast_to(difficulty < kept_share, (3, 60))
        wrong = kept & (rng.random((3, 60)) < difficulty / 2)
        found = selective_error((Outcomes(ids, wrong), Outcomes(ids, kept)))
        if found.value is not None:
            missed += [found.low > truth, found.high < truth]
    # 0.025 of 300 is 7.5.
    assert missed.max() <= 12


def test_the_formula_for_gates_gives_the_published_number() -> None:
    params, done = abstaining(repeats=2)
    found = estimate_all(params, done)[f"selective_error{OF}"]
    asked = Records(params.model_dump(mode="json"), {"defence": DEFENCE, "attack": ATTACK}, done.get)
    values = SELECTIVE_ERROR(asked)
    assert found.value == pytest.approx(values.values.sum() / values.decisions.sum())


def test_records_from_before_have_no_pair_of_twins_and_keep_their_robustness() -> None:
    params, done = abstaining(attacks=["transfer_pgd", ATTACK])
    before = {name: table.drop_columns(["robust", "clean_rejected"]) for name, table in done.items() if "." in name}
    found = estimate_all(params, {"static": done["static"], **before})
    correct = np.mean(done[game_of(DEFENCE, ATTACK, 0)]["correct"].to_pylist())
    assert found[f"robustness{OF}"].value == pytest.approx(correct)
    assert (found[f"clean_rejection_rate{OF}"].value, found[f"clean_rejection_rate{OF}"].n) == (None, 0)


def everything_under_attack(*, clean: bool):
    """The check of a defence that refuses all that is attacked, and the copies beside it if it is told to."""
    params, done = abstaining()
    for row in ("clean", "brightness"):
        answered(done, game_of(DEFENCE, row, 0), rejected=False, correct=True)
    for attack in params.attacks:
        answered(done, game_of(DEFENCE, attack, 0), rejected=True, correct=False, clean_rejected=clean)
    found = estimate_all(params, done)
    return found, {flag.code: flag for flag in doubt(params, done, found)}


def test_who_refuses_what_is_attacked_and_nothing_else_is_not_called_fragile() -> None:
    found, flags = everything_under_attack(clean=False)
    assert found[f"robustness{OF}"].value == 1
    assert found[f"gain_over_static[defence={DEFENCE}]"].low > 0
    # But of an error on what it answers nothing is known, and no rule that asks for one passes.
    assert (found[f"selective_error{OF}"].value, found[f"selective_error{OF}"].n) == (None, 0)
    assert found[f"rejection_rate{OF}"].value == 1
    # No attack that simulates it went unnoticed: a policy that doubts warnings does not pass its gain either.
    assert flags["nearly_all_refused"].severity == "warning"
    assert "None of the attacks that simulate it went unnoticed" in flags["nearly_all_refused"].message
    assert "refuses_harmless" not in flags


def test_who_refuses_everything_once_one_is_attacked_has_bought_nothing() -> None:
    found, flags = everything_under_attack(clean=True)
    assert found[f"robustness{OF}"].value == 0
    assert found[f"gain_over_static[defence={DEFENCE}]"].high < 0
    assert found[f"clean_rejection_rate{OF}"].value == 1
    assert "beside those of fpa" in flags["refuses_harmless"].message


def test_refusing_what_was_made_without_knowledge_of_it_is_noted_only() -> None:
    params, done = abstaining()
    answered(done, game_of(DEFENCE, "transfer_pgd", 0), rejected=True, correct=False)
    flags = {flag.code: flag for flag in doubt(params, done, estimate_all(params, done))}
    assert flags["nearly_all_refused"].severity == "info"
    assert "100.0% under transfer_pgd." in flags["nearly_all_refused"].message


def test_who_refuses_bright_images_is_flagged() -> None:
    params, done = abstaining()
    answered(done, game_of(DEFENCE, "brightness", 0), rejected=True, correct=True)
    found = estimate_all(params, done)
    (flag,) = [flag for flag in doubt(params, done, found) if flag.code == "refuses_harmless"]
    assert "100.0% under brightness" in flag.message
    # Nobody attacked: a refusal is no answer.
    assert found[metric_name("robustness", defence=DEFENCE, attack="brightness")].value is not None


def test_an_attack_without_a_radius_is_no_part_of_what_is_compared() -> None:
    with_cw = parameters(defences=["dent"], attacks=["transfer_pgd", "transfer_cw", "fpa"])
    done = records(with_cw, rates={"transfer_cw": 0.0})
    found = estimate_all(with_cw, done)
    without = parameters(defences=["dent"], attacks=["transfer_pgd", "fpa"])
    assert found["robustness[defence=dent,attack=transfer_cw]"].value == 0
    for name in ("overestimate[defence=dent]", "gain_over_static[defence=dent]"):
        assert found[name] == estimate_all(without, done)[name]


def test_an_attack_that_never_met_the_defence_is_no_adaptive_one() -> None:
    params = parameters(defences=["dent"])
    moved, unmoved = records(params), records(params, adapted=False)
    assert "no_adaptive_attack" not in {flag.code for flag in doubt(params, moved, estimate_all(params, moved))}
    (flag,) = [one for one in doubt(params, unmoved, estimate_all(params, unmoved)) if one.code == "no_adaptive_attack"]
    assert "answers like the one they began with" in flag.message
    assert flag.severity == "warning"
