"""Each doubt is raised where it is due, says what to do, and is silent on a sound audit."""

import numpy as np
import pyarrow as pa
import pytest

from app.policies import presets
from seatrial.contracts.estimates import Result
from seatrial.contracts.policies import PolicySource
from seatrial.contracts.states import RunState
from seatrial.families.transductive_attack.params import game_of
from seatrial.judging.verdict import Measured, MeasuredCheck, judge
from tests.families.transductive_attack.fabricated import parameters, records, replaced
from workers.families.transductive_attack import flags
from workers.families.transductive_attack.estimates import estimate_all
from workers.families.transductive_attack.flags import doubt
from workers.families.transductive_attack.sample import Games

SOUND = {"transfer_autoattack": 0.53, "transfer_pgd": 0.53, "fpa": 0.53, "gmsa_avg": 0.52, "gmsa_min": 0.52}
"""Of a defence that attacks with and without knowledge of it find alike, and a little above the static model."""

STATIC = (0.95, 0.46, 0.46)

WHOLE = ["transfer_autoattack", "transfer_pgd", "fpa", "gmsa_avg", "gmsa_min"]


def doubts(params, *, change=None, randomized=None, **how) -> list:
    """The flags; ``change`` is given the records of every stage."""
    done = records(params, **({"rates": SOUND, "static": STATIC, "luck": 0.0} | how))
    if change:
        change(done)
    named = {} if randomized is None else {"randomized": randomized}
    found = doubt(params, done, estimate_all(params, done), **named)
    assert all(len(flag.message) > 100 for flag in found)
    return found


def by_code(found) -> dict:
    assert len({flag.code for flag in found}) == len(found)
    return {flag.code: flag for flag in found}


def test_of_a_sound_audit_nothing_is_said() -> None:
    assert doubts(parameters()) == []


@pytest.mark.parametrize(
    ("norm", "epsilon", "values", "told"),
    [
        ("linf", 1e-6, 784, ("radius_below_a_level", "error")),
        ("linf", 1e-6, 0, None),
        ("linf", 0.0039, 784, ("small_radius", "warning")),
        ("linf", 0.0078, 784, None),
        ("l2", 0.01, 784, ("radius_below_a_level", "error")),
        ("l2", 0.13, 784, ("small_radius", "warning")),
        ("l2", 36 / 255, 784, None),
    ],
)
def test_a_radius_within_which_next_to_nothing_lies_is_told(norm, epsilon, values, told) -> None:
    def tell(done) -> None:
        done["static"] = done["static"].append_column("values", pa.array([values] * 120))

    found = by_code(doubts(parameters(norm=norm, epsilon=epsilon, step_size=epsilon / 8), change=tell))
    assert [(flag.code, flag.severity) for flag in found.values()] == ([] if told is None else [told])


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"steps": 19}, "19 steps are few"),
        ({"steps": 1}, "1 step is few; all steps together go 0.12 times"),
        ({"steps": 20, "step_size": 0.0019}, "All steps together go 1.2 times the radius"),
        # Madry et al. (2018) on MNIST.
        ({"steps": 40, "step_size": 0.01, "epsilon": 0.3}, None),
        ({"iterations": 0}, "Without iterations"),
        ({"iterations": 0, "attacks": ["transfer_pgd"], "defences": ["identity"]}, None),
        ({"steps": 1, "attacks": ["transfer_autoattack"], "defences": ["identity"]}, None),
    ],
)
def test_attacks_that_are_too_short_are_told(change, why) -> None:
    flag = by_code(doubts(parameters(**({"epsilon": 8 / 255} | change)))).get("few_steps")
    assert (flag is not None) == (why is not None)
    assert flag is None or (flag.severity == "warning" and flag.message.startswith(why))


def test_a_failed_game_is_an_error_with_its_reason() -> None:
    found = by_code(doubts(parameters(), failed={game_of("dent", "fpa", 0): "answers are not finite."}))
    assert found["defence_failed"].severity == "error"
    assert "DENT failed under fpa: answers are not finite. These" in found["defence_failed"].message
    assert "repeat" not in found["defence_failed"].message.split(":")[0]


def test_games_that_failed_alike_are_told_together_and_others_apart() -> None:
    failed = {
        game_of("dent", "fpa", 0): "slow",
        game_of("dent", "fpa", 2): "slow",
        game_of("dent", "clean", 1): "slow",
        game_of("dent", "gmsa_avg", 1): "NaN",
    }
    params = parameters(repeats=3)
    told = [flag.message for flag in doubts(params, failed=failed) if flag.code == "defence_failed"]
    assert len(told) == 2
    assert told[0].startswith("DENT failed without an attack (repeat 1), under fpa (repeat 0, 2): slow. ")
    assert told[1].startswith("DENT failed under gmsa_avg (repeat 1): NaN. ")


def test_a_long_reason_is_cut() -> None:
    (flag,) = doubts(parameters(), failed={game_of("dent", "fpa", 0): "x" * 5000})
    assert "x" * flags.REASON in flag.message
    assert "x" * (flags.REASON + 1) not in flag.message


def test_robustness_that_only_transfers_find_is_told_in_points() -> None:
    flag = by_code(doubts(parameters(), n=400, rates=SOUND | {"dent:transfer_autoattack": 0.9}))["overestimated"]
    done = records(parameters(), n=400, rates=SOUND | {"dent:transfer_autoattack": 0.9}, static=STATIC, luck=0.0)
    over = estimate_all(parameters(), done)["overestimate[defence=dent]"]
    assert flag.severity == "warning"
    assert f"by {100 * over.value:.1f} points (at least {100 * over.low:.1f} points)" in flag.message
    assert "transfer_autoattack" in flag.message
    assert "gmsa_avg" in flag.message


@pytest.mark.parametrize(("low", "is_flagged"), [(0.02, False), (0.0201, True), (None, False)])
def test_the_interval_decides_whether_an_overestimate_is_told(low, is_flagged) -> None:
    params = parameters(defences=["dent"])
    games = Games(params, records(params))
    estimate = estimate_all(params, records(params))["overestimate[defence=dent]"].model_copy(update={"low": low})
    assert bool(flags.overestimated(games, {"overestimate[defence=dent]": estimate})) == is_flagged


def test_a_defence_that_surely_does_harm_is_told_to_be_left_out() -> None:
    found = by_code(doubts(parameters(), n=400, rates=SOUND | {"dent:gmsa_min": 0.3}))
    assert found["worse_than_static"].severity == "warning"
    assert "Under gmsa_min DENT keeps" in found["worse_than_static"].message
    assert "static model under transfer_autoattack" in found["worse_than_static"].message


def test_a_defence_a_little_below_the_static_model_may_be_so_by_chance() -> None:
    found = doubts(parameters(), n=40, rates=SOUND | {"dent:gmsa_min": 0.4}, luck=0.3)
    assert "worse_than_static" not in {flag.code for flag in found}


@pytest.mark.parametrize(
    ("attacks", "failed", "codes"),
    [
        (WHOLE[:2], [], {"no_adaptive_attack"}),
        (["transfer_pgd", "fpa"], ["fpa"], {"no_adaptive_attack", "defence_failed"}),
        (["transfer_pgd", "fpa", "gmsa_min"], ["fpa"], {"defence_failed"}),
        (["transfer_pgd", "defence_autoattack"], [], {"defence_not_simulated"}),
        (["transfer_pgd", "fpa"], [], set()),
    ],
    ids=["not asked for", "all failed", "one failed", "on the module alone", "one"],
)
def test_numbers_without_an_attacker_who_knows_the_defence_say_so(attacks, failed, codes) -> None:
    params = parameters(defences=["dent"], attacks=attacks)
    rates = SOUND | {"defence_autoattack": 0.53}
    found = by_code(doubts(params, rates=rates, failed={game_of("dent", name, 0): "no" for name in failed}))
    assert set(found) == codes
    told = (
        "every attack that knows the defence failed in every repeat. Fix"
        if failed
        else "no attack that knows the defence was asked for. Ask for fpa"
    )
    if "no_adaptive_attack" in codes:
        assert found["no_adaptive_attack"].severity == "warning"
        assert told in found["no_adaptive_attack"].message


def test_attacks_that_ran_out_of_time_want_more_of_it_and_not_to_be_asked_for_again() -> None:
    failed = {game_of("dent", "fpa", 0): "a round took longer than round_timeout_s, 5 s"}
    found = by_code(doubts(parameters(defences=["dent"], attacks=["transfer_pgd", "fpa"]), failed=failed))
    message = found["no_adaptive_attack"].message
    assert "On DENT every attack that knows the defence failed, for want of time. Raise round_timeout_s." in message
    assert "Ask for" not in message


def test_an_attack_that_cannot_be_run_on_a_defence_did_not_fail() -> None:
    params = parameters(defences=["rmc", "dent"], attacks=["transfer_pgd", "defence_autoattack"], repeats=2)

    def leave_out(done) -> None:
        for repeat in (0, 1):
            del done[game_of("rmc", "defence_autoattack", repeat)]

    found = by_code(doubts(params, rates=SOUND | {"defence_autoattack": 0.53}, change=leave_out))
    message = found["no_adaptive_attack"].message
    assert message.startswith("On RMC defence_autoattack cannot be run")
    assert "Ask for fpa, gmsa_avg and gmsa_min." in message
    assert "failed" not in message
    assert "On DENT the only attack" in found["defence_not_simulated"].message


def test_where_every_example_errored_no_attack_failed() -> None:
    params = parameters(defences=["dent"], attacks=["transfer_pgd", "fpa"])
    found = by_code(doubts(params, n=20, errored={game_of("dent", "fpa", 0): set(range(20))}))
    assert "every example errored under the attacks that know" in found["no_adaptive_attack"].message


def test_an_attack_on_the_static_model_knows_the_identity() -> None:
    assert doubts(parameters(defences=["identity"], attacks=WHOLE[:2])) == []
    (flag,) = doubts(parameters(defences=["identity", "tent"], attacks=WHOLE[:2]))
    assert "On TENT " in flag.message


def test_an_adaptive_attack_that_surely_does_less_than_a_transfer_is_an_error() -> None:
    rates = SOUND | {"dent:transfer_autoattack": 0.3, "identity:transfer_autoattack": 0.3}
    found = doubts(parameters(defences=["dent", "identity"]), n=400, rates=rates)
    (flag,) = [flag for flag in found if flag.code == "adaptive_weaker_than_transfer"]
    assert flag.severity == "error"
    assert "which knows DENT" in flag.message


def test_an_adaptive_attack_that_may_do_less_by_chance_or_ties_is_no_error() -> None:
    for kept in (0.5, SOUND["gmsa_min"]):
        rates = SOUND | {"dent:transfer_autoattack": kept}
        found = doubts(parameters(defences=["dent"]), n=100, rates=rates)
        assert "adaptive_weaker_than_transfer" not in {flag.code for flag in found}


@pytest.mark.parametrize(("transferred", "verdict"), [(0.53, "passed"), (0.45, "errored")], ids=["at best", "too weak"])
def test_a_weak_adaptive_attack_buys_no_verdict(transferred, verdict) -> None:
    params = parameters(defences=["rmc"], attacks=["transfer_autoattack", "gmsa_min"], repeats=2)
    done = records(
        params, n=2000, rates=SOUND | {"transfer_autoattack": transferred}, static=(0.95, 0.28, 0.28), luck=0
    )
    estimates = estimate_all(params, done)
    result = Result(estimates=estimates, flags=doubt(params, done, estimates), counts={"n": 2000})
    assert estimates["gain_over_static[defence=rmc]"].low >= -0.05
    check = MeasuredCheck(0, "transductive_attack", RunState.SUCCEEDED, result, None, params.model_dump(mode="json"))
    source = PolicySource(id=None, name="standard", version=None, digest="sha256:0")
    assert judge(presets.get("standard"), source, Measured("aud_1", [check])).verdict == verdict


@pytest.mark.parametrize(
    ("kept", "n", "is_flagged"),
    [(0.8, 200, True), (0.92, 200, False), (0.85, 20, False)],
    ids=["much", "little", "few"],
)
def test_accuracy_that_a_defence_costs_unattacked_is_told(kept, n, is_flagged) -> None:
    found = doubts(parameters(), n=n, rates=SOUND | {"dent:clean": kept})
    assert ("clean_accuracy_lost" in {flag.code for flag in found}) == is_flagged


def test_what_is_rejected_without_an_attack_is_told_beside_what_is_lost() -> None:
    params = parameters(defences=["urejectron"], repeats=2)
    flag = by_code(doubts(params, n=400))["clean_accuracy_lost"]
    done = records(params, n=400, rates=SOUND, luck=0.0)
    rows = [done[game_of("urejectron", "clean", repeat)]["rejected"] for repeat in (0, 1)]
    assert (
        f"It rejects {np.mean([one.to_numpy() for one in rows]):.1%} of the examples; they count as wrong"
        in flag.message
    )


@pytest.mark.parametrize(("missed", "severity"), [(1, "info"), (2, "info"), (3, "warning")])
def test_examples_that_pgd_breaks_and_autoattack_does_not_are_counted(missed, severity) -> None:
    def alter(done) -> None:
        strong = done["static"]["robust_autoattack"].to_numpy()
        weak = strong.copy()
        weak[np.flatnonzero(strong)[:missed]] = False
        done["static"] = replaced(done["static"], robust_pgd=pa.array(weak))

    flag = by_code(doubts(parameters(), n=200, change=alter))["autoattack_weaker_than_pgd"]
    assert flag.severity == severity
    assert f"{missed} of 200 examples" in flag.message


@pytest.mark.parametrize(
    ("attacks", "is_flagged"),
    [(["transfer_autoattack", "fpa"], True), (["defence_autoattack", "fpa"], True), (["transfer_pgd", "fpa"], False)],
    ids=["transferred", "on the defence", "not asked for"],
)
def test_autoattack_without_square_is_noted(attacks, is_flagged) -> None:
    found = by_code(
        doubts(parameters(attacks=attacks, autoattack_queries=0), rates=SOUND | {"defence_autoattack": 0.53})
    )
    assert ("autoattack_without_square" in found) == is_flagged
    assert all(flag.severity == "info" for flag in found.values())
    assert "autoattack_without_square" not in by_code(doubts(parameters(attacks=attacks, autoattack_queries=1)))


@pytest.mark.parametrize("attacks", [WHOLE[:1], WHOLE[1:2]], ids=["autoattack", "pgd"])
def test_one_attack_on_the_static_model_is_compared_with_none(attacks) -> None:
    codes = {flag.code for flag in doubts(parameters(attacks=[*attacks, "fpa"]), static=(0.95, 0.5, 0.3))}
    assert "autoattack_weaker_than_pgd" not in codes


def test_how_often_the_clean_batch_was_sent_is_noted_attack_by_attack() -> None:
    params = parameters(defences=["dent"], repeats=2, attacks=["transfer_pgd", "fpa", "gmsa_min"])
    flag = by_code(doubts(params, fallback=0.3))["selection_fell_back"]
    done = records(params, fallback=0.3)
    assert flag.severity == "info"
    for attack in ("fpa", "gmsa_min"):
        selected = np.concatenate([done[game_of("dent", attack, repeat)]["selected"].to_numpy() for repeat in (0, 1)])
        assert f"{attack} {np.mean(selected == -1):.1%}" in flag.message
    assert "transfer_pgd" not in flag.message


def test_numbers_that_vary_more_with_the_defender_than_with_the_examples_are_noted() -> None:
    def alter(done) -> None:
        everyone = pa.array(np.ones(120, dtype=bool))
        done[game_of("dent", "fpa", 1)] = replaced(done[game_of("dent", "fpa", 1)], robust=everyone)

    (flag,) = doubts(parameters(repeats=3), change=alter)
    assert flag.code == "varies_between_repeats"
    assert "DENT under fpa" in flag.message
    assert "TENT" not in flag.message
    assert doubts(parameters(repeats=3)) == []


@pytest.mark.parametrize(("repeats", "is_flagged"), [(1, True), (2, False)])
def test_a_defence_that_draws_random_numbers_wants_repeats(repeats, is_flagged) -> None:
    found = doubts(parameters(defences=["rmc", "dent"], repeats=repeats))
    assert [flag.code for flag in found] == ["one_repeat_of_a_randomised_defence"] * is_flagged
    assert all("answers of RMC depend" in flag.message for flag in found)


def test_which_defences_draw_random_numbers_can_be_said() -> None:
    (flag,) = doubts(parameters(defences=["rmc", "mine"]), randomized={"mine"})
    assert "answers of mine depend" in flag.message


def test_the_order_is_noted_for_those_who_adapt_batch_by_batch() -> None:
    params = parameters(defences=["dent", "dann", "identity"], order="adversarial", repeats=2)
    (flag,) = doubts(params)
    assert (flag.code, flag.severity) == ("adversarial_order", "info")
    assert "batches of DENT hold" in flag.message
    assert doubts(parameters(defences=["dann"], order="adversarial", repeats=2)) == []


def test_graver_doubts_come_first() -> None:
    params = parameters(defences=["rmc", "dent"])
    found = doubts(params, n=400, rates=SOUND | {"rmc:gmsa_min": 0.1}, failed={game_of("dent", "fpa", 0): "no"})
    severities = [flag.severity for flag in found]
    assert severities == sorted(severities, key=("error", "warning", "info").index)
    assert set(severities) == {"error", "warning", "info"}


def test_an_audit_of_which_everything_errored_or_failed_is_still_told_why() -> None:
    params = parameters(defences=["dent"])
    stages = [game_of("dent", attack, 0) for attack in ["clean", *WHOLE]]
    found = doubts(params, n=20, errored={"static": set(range(20))}, failed=dict.fromkeys(stages, "no gradient"))
    assert [flag.code for flag in found] == ["defence_failed", "no_adaptive_attack"]
