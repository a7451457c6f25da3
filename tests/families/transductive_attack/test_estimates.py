"""Every number against a second computation that reads the records row by row."""

import json
import math
import statistics

import numpy as np
import pyarrow as pa
import pytest
from scipy import stats

from seatrial.families.transductive_attack.metrics import METRICS
from seatrial.families.transductive_attack.params import game_of
from seatrial.statistics import paired
from seatrial.statistics.proportions import score_interval
from tests.families.transductive_attack.fabricated import parameters, records, replaced, right
from workers.families.transductive_attack.estimates import count, estimate_all, rate
from workers.families.transductive_attack.sample import Outcomes, gap_to_lowest

ATTACKS = ["transfer_autoattack", "transfer_pgd", "fpa", "gmsa_avg", "gmsa_min"]
ADAPTIVE = ATTACKS[2:]


def shares(params, done, defence, attack) -> dict[int, float]:
    """How often each example was answered rightly, of those that errored in no repeat that did not fail."""
    tables = [done[game_of(defence, attack, repeat)] for repeat in range(params.repeats)]
    games = [right(table) for table in tables if table["failed"][0].as_py() is None]
    common = set.intersection(*(set(game) for game in games))
    return {key: statistics.fmean(game[key] for game in games) for key in sorted(common)}


def of_static(done, column) -> dict[int, bool]:
    rows = done["static"].select(["example_id", "errored", column]).to_pylist()
    return {row["example_id"]: row[column] for row in rows if not row["errored"]}


def means(*answers: dict) -> list[float]:
    """Of several, over the examples all of them have."""
    common = set.intersection(*(set(one) for one in answers))
    return [statistics.fmean(one[key] for key in common) for one in answers]


def test_every_estimate_is_a_metric_of_the_contract_with_its_qualifiers_in_order() -> None:
    attacks = [*ATTACKS, "defence_autoattack", "transfer_confidence", "transfer_cw"]
    params = parameters(defences=["dent", "urejectron"], repeats=2, attacks=attacks, corruptions=["brightness"])
    found = estimate_all(params, records(params))
    known = {metric.name: metric.qualifiers for metric in METRICS}
    told = {}
    for name in found:
        base, _, inside = name.partition("[")
        told.setdefault(base, set()).add(tuple(one.split("=")[0] for one in inside.rstrip("]").split(",") if one))
    assert told == {name: {tuple(qualifiers)} for name, qualifiers in known.items()}


@pytest.mark.parametrize("attack", ATTACKS)
def test_one_repeat_is_a_proportion_with_its_exact_interval(attack) -> None:
    params = parameters()
    done = records(params)
    found = estimate_all(params, done)[f"robustness[defence=tent,attack={attack}]"]
    answers = right(done[game_of("tent", attack, 0)])
    exact = stats.binomtest(sum(answers.values()), len(answers)).proportion_ci(method="exact")
    assert found.value == pytest.approx(sum(answers.values()) / 120)
    assert (found.low, found.high) == pytest.approx((exact.low, exact.high))
    assert (found.n, found.method) == (120, "clopper-pearson")


def test_the_static_model_is_judged_by_autoattack_else_by_pgd_else_not_at_all() -> None:
    done = records(parameters())

    def found(attacks) -> dict:
        return estimate_all(parameters(attacks=attacks), done)

    assert found(["transfer_pgd", "transfer_autoattack"])["static_robustness"].value == pytest.approx(
        statistics.fmean(of_static(done, "robust_autoattack").values())
    )
    assert found(["transfer_pgd"])["static_robustness"].value == pytest.approx(
        statistics.fmean(of_static(done, "robust_pgd").values())
    )
    neither = found(["fpa"])
    for name in ("static_robustness", "gain_over_static[defence=dent]", "overestimate[defence=dent]"):
        assert (neither[name].value, neither[name].n) == (None, 0)
    assert neither["static_accuracy"].value == pytest.approx(statistics.fmean(of_static(done, "correct").values()))


def test_several_repeats_are_averaged_and_their_interval_is_no_closer_than_that_of_one() -> None:
    params = parameters(repeats=4)
    done = records(params, rates={"clean": 0.6})
    found = estimate_all(params, done)
    for name, attack in [("clean_accuracy[defence=dent]", "clean"), ("robustness[defence=dent,attack=fpa]", "fpa")]:
        values = list(shares(params, done, "dent", attack).values())
        error = statistics.stdev(values) / len(values) ** 0.5
        assert found[name].value == pytest.approx(statistics.fmean(values))
        below, above = (
            stats.binomtest(hits, len(values)).proportion_ci(method="exact")
            for hits in (math.floor(sum(values)), math.ceil(sum(values)))
        )
        assert (found[name].low, found[name].high) == pytest.approx((below.low, above.high))
        assert found[name].low < found[name].value - 1.96 * error
        assert found[name].high > found[name].value + 1.96 * error
        assert found[name].method == "clopper-pearson"


def test_one_disagreement_between_repeats_takes_nothing_from_an_interval() -> None:
    hits = np.ones((2, 40), dtype=bool)
    hits[1, 0] = False
    found = rate(Outcomes(np.arange(40), hits))
    assert found.value == pytest.approx(0.9875)
    exact = stats.binomtest(39, 40).proportion_ci(method="exact")
    assert (found.low, found.high) == (pytest.approx(exact.low), 1.0)


@pytest.mark.parametrize("share", [0.005, 0.5, 0.98])
@pytest.mark.parametrize("luck", [0.05, 0.5])
def test_the_interval_of_several_repeats_covers_the_share(share, luck) -> None:
    """Examples some of which are always answered alike, the others by luck anew in each repeat."""
    rng, missed, games = np.random.default_rng(7), np.zeros(2), 300
    for _ in range(games):
        settled, is_lucky = rng.random(40) < share, rng.random(40) < luck
        hits = np.where(is_lucky, rng.random((3, 40)) < share, settled)
        found = rate(Outcomes(np.arange(40), hits))
        missed += [found.low > share, found.high < share]
    # At most 2.5 % of either end: of 300 with a chance of 2.5 %, more than 15 come less than once in a hundred times.
    assert missed.max() <= 15


def test_the_deviation_is_of_the_repeats() -> None:
    params = parameters(repeats=4)
    done = records(params)
    found = estimate_all(params, done)["robustness_std[defence=dent,attack=gmsa_min]"]
    each = [statistics.fmean(right(done[game_of("dent", "gmsa_min", repeat)]).values()) for repeat in range(4)]
    assert found.value == pytest.approx(statistics.stdev(each))
    assert (found.n, found.low, found.high) == (120, None, None)


def test_of_one_repeat_no_deviation_is_published() -> None:
    params = parameters()
    assert not [name for name in estimate_all(params, records(params)) if name.startswith("robustness_std")]


def test_repeats_that_agree_on_every_example_are_one() -> None:
    """So a share of 0 over several repeats has an interval; a bootstrap's would be [0, 0]."""
    params = parameters(repeats=3)
    done = records(params, luck=0.0, rates={"gmsa_min": 0.0})
    found = estimate_all(params, done)
    nobody = found["robustness[defence=dent,attack=gmsa_min]"]
    assert (nobody.value, nobody.low, nobody.method) == (0.0, 0.0, "clopper-pearson")
    assert nobody.high == pytest.approx(1 - 0.025 ** (1 / 120))
    once = estimate_all(parameters(), done)
    assert found["robustness[defence=dent,attack=fpa]"] == once["robustness[defence=dent,attack=fpa]"]
    assert found["overestimate[defence=dent]"] == once["overestimate[defence=dent]"]
    assert found["robustness_std[defence=dent,attack=fpa]"].value == 0


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_with_one_repeat_both_differences_are_gaps_to_the_lowest(seed) -> None:
    params = parameters()
    done = records(params, seed=seed)
    found = estimate_all(params, done)
    keys = sorted(right(done[game_of("dent", "fpa", 0)]))
    answers = {attack: [right(done[game_of("dent", attack, 0)])[key] for key in keys] for attack in ATTACKS}
    static = [of_static(done, "robust_autoattack")[key] for key in keys]
    over = paired.gap_to_lowest(answers["transfer_autoattack"], [answers[attack] for attack in ADAPTIVE])
    lost = paired.gap_to_lowest(static, list(answers.values()))
    overestimate, gain = found["overestimate[defence=dent]"], found["gain_over_static[defence=dent]"]
    assert (overestimate.value, overestimate.low, overestimate.high) == pytest.approx((over.value, *over.interval))
    assert (gain.value, gain.low, gain.high) == pytest.approx((-lost.value, -lost.interval[1], -lost.interval[0]))
    assert overestimate.method == gain.method == "paired"


def test_with_several_repeats_the_differences_are_of_means() -> None:
    params = parameters(repeats=3)
    done = records(params, rates={"dent:gmsa_avg": 0.2})
    found = estimate_all(params, done)
    kept = {attack: shares(params, done, "dent", attack) for attack in ATTACKS}
    reference, lowest = means(kept["transfer_autoattack"], kept["gmsa_avg"])
    assert found["overestimate[defence=dent]"].value == pytest.approx(reference - lowest)
    static, lowest = means(of_static(done, "robust_autoattack"), kept["gmsa_avg"])
    assert found["gain_over_static[defence=dent]"].value == pytest.approx(lowest - static)
    for name in ("overestimate[defence=dent]", "gain_over_static[defence=dent]"):
        assert found[name].low < found[name].value < found[name].high


def test_a_transfer_attack_may_be_the_lowest_and_the_gain_goes_by_it() -> None:
    params = parameters()
    done = records(params, rates={"transfer_pgd": 0.1})
    found = estimate_all(params, done)
    lowest, static = means(right(done[game_of("dent", "transfer_pgd", 0)]), of_static(done, "robust_autoattack"))
    assert found["gain_over_static[defence=dent]"].value == pytest.approx(lowest - static)
    assert found["overestimate[defence=dent]"].value > 0


def test_without_autoattack_pgd_is_what_is_overestimated_from() -> None:
    params = parameters(attacks=["transfer_pgd", "gmsa_min"])
    done = records(params)
    transferred, lowest = means(*(right(done[game_of("dent", attack, 0)]) for attack in params.attacks))
    found = estimate_all(params, done)["overestimate[defence=dent]"]
    assert found.value == pytest.approx(transferred - lowest)


def test_a_defence_nobody_attacked_with_knowledge_has_no_overestimate_but_a_gain() -> None:
    params = parameters(attacks=["transfer_autoattack", "transfer_pgd"])
    found = estimate_all(params, records(params))
    assert found["overestimate[defence=dent]"].value is None
    assert found["gain_over_static[defence=dent]"].value is not None


def test_a_failed_game_has_no_numbers_and_the_others_stay() -> None:
    params = parameters()
    sound = estimate_all(params, records(params))
    found = estimate_all(params, records(params, failed={game_of("dent", "gmsa_min", 0): "NaN"}))
    lost = "robustness[defence=dent,attack=gmsa_min]"
    assert (found[lost].value, found[lost].low, found[lost].n, found[lost].method) == (None, None, 0, "none")
    moved = {lost, "lowest_robustness[defence=dent]", "overestimate[defence=dent]", "gain_over_static[defence=dent]"}
    assert all(found[name] == sound[name] for name in sound if name not in moved)
    # The next lowest counts.
    done = records(params)
    transferred, lowest = means(*(right(done[game_of("dent", attack, 0)]) for attack in (ATTACKS[0], "gmsa_avg")))
    assert found["overestimate[defence=dent]"].value == pytest.approx(transferred - lowest)


def test_where_everything_failed_everything_is_null_but_the_static_model() -> None:
    params = parameters(defences=["dent"], repeats=2)
    failed = {game_of("dent", attack, repeat): "no" for attack in ["clean", *ATTACKS] for repeat in (0, 1)}
    found = estimate_all(params, records(params, failed=failed))
    assert {name for name, one in found.items() if one.value is not None} == {"static_accuracy", "static_robustness"}
    assert {one.n for name, one in found.items() if "dent" in name} == {0}


def test_of_a_game_some_repeats_of_which_failed_the_others_count() -> None:
    params = parameters(repeats=3)
    failed = {
        game_of("dent", "fpa", 1): "diverged",
        game_of("dent", "gmsa_avg", 0): "diverged",
        game_of("dent", "gmsa_avg", 2): "diverged",
    }
    done = records(params, failed=failed)
    found = estimate_all(params, done)
    two = [statistics.fmean(right(done[game_of("dent", "fpa", repeat)]).values()) for repeat in (0, 2)]
    assert found["robustness[defence=dent,attack=fpa]"].value == pytest.approx(statistics.fmean(two))
    assert found["robustness_std[defence=dent,attack=fpa]"].value == pytest.approx(statistics.stdev(two))
    assert found["robustness[defence=dent,attack=gmsa_avg]"].method == "clopper-pearson"
    assert found["robustness_std[defence=dent,attack=gmsa_avg]"].value is None


def test_games_that_were_never_played_are_like_failed_ones() -> None:
    params = parameters(repeats=2)
    never = {game_of("tent", "gmsa_min", repeat) for repeat in (0, 1)}
    done = {stage: table for stage, table in records(params).items() if stage not in never}
    found = estimate_all(params, done)
    assert found["robustness[defence=tent,attack=gmsa_min]"].n == 0
    assert found["robustness[defence=dent,attack=gmsa_min]"].n == 120


def test_errored_examples_are_left_out_where_they_errored_and_pairs_are_over_the_rest() -> None:
    params = parameters(repeats=2)
    errored = {
        "static": {0, 1},
        game_of("dent", "transfer_autoattack", 1): {2, 3, 4},
        game_of("dent", "gmsa_min", 0): {4, 5},
    }
    done = records(params, errored=errored)
    found = estimate_all(params, done)
    assert found["static_accuracy"].n == 118
    assert found["robustness[defence=dent,attack=transfer_autoattack]"].n == 117
    assert found["robustness[defence=dent,attack=gmsa_min]"].n == 118
    kept = {attack: shares(params, done, "dent", attack) for attack in ATTACKS}
    assert found["robustness[defence=dent,attack=gmsa_min]"].value == pytest.approx(*means(kept["gmsa_min"]))
    over, gain = found["overestimate[defence=dent]"], found["gain_over_static[defence=dent]"]
    assert (over.n, gain.n) == (116, 114)
    reference, *adaptive = means(*(kept[attack] for attack in ["transfer_autoattack", *ADAPTIVE]))
    assert over.value == pytest.approx(reference - min(adaptive))
    static, *under = means(of_static(done, "robust_autoattack"), *kept.values())
    assert gain.value == pytest.approx(min(under) - static)


def test_where_every_example_errored_nothing_is_known() -> None:
    params = parameters(defences=["dent"])
    everyone = set(range(20))
    stages = ["static", *(game_of("dent", attack, 0) for attack in ["clean", *ATTACKS])]
    found = estimate_all(params, records(params, n=20, errored=dict.fromkeys(stages, everyone)))
    assert {(one.value, one.n) for one in found.values()} == {(None, 0)}


def test_rejections_are_counted_for_those_who_may_reject_alone() -> None:
    params = parameters(defences=["dent", "urejectron"], repeats=2)
    done = records(params)
    found = estimate_all(params, done)
    assert not [name for name in found if name.startswith("rejection_rate[defence=dent")]
    for attack in ["clean", *ATTACKS]:
        rows = [row for repeat in (0, 1) for row in done[game_of("urejectron", attack, repeat)]["rejected"].to_pylist()]
        assert found[f"rejection_rate[defence=urejectron,attack={attack}]"].value == pytest.approx(np.mean(rows))


def test_a_failed_game_of_a_rejecting_defence_has_no_rejection_rate() -> None:
    params = parameters(defences=["urejectron"])
    found = estimate_all(params, records(params, failed={game_of("urejectron", "fpa", 0): "no"}))
    assert found["rejection_rate[defence=urejectron,attack=fpa]"].n == 0
    assert found["rejection_rate[defence=urejectron,attack=clean]"].n == 120


def test_counts_give_every_rate_again() -> None:
    params = parameters(defences=["dent", "urejectron"], repeats=3)
    errored = {"static": {7}, game_of("dent", "fpa", 0): {1, 2}}
    done = records(params, failed={game_of("dent", "gmsa_min", 1): "no"}, errored=errored)
    found, counts = estimate_all(params, done), count(params, done)
    assert (counts["n"], counts["errored"]) == (120, 1)
    assert found["static_accuracy"].value == counts["static_correct"] / 119
    assert found["static_robustness"].value == counts["static_robust[attack=transfer_autoattack]"] / 119
    for defence in ("dent", "urejectron"):
        for attack in ["clean", *ATTACKS]:
            of = f"[defence={defence},attack={attack}]"
            name = f"clean_accuracy[defence={defence}]" if attack == "clean" else f"robustness{of}"
            played = counts[f"n{of}"] * counts[f"repeats{of}"]
            hits = "robust" if defence == "urejectron" and attack != "clean" else "correct"
            assert found[name].value == pytest.approx(counts[hits + of] / played)
    assert counts["errored[defence=dent,attack=fpa]"] == 2
    assert (counts["failed[defence=dent,attack=gmsa_min]"], counts["repeats[defence=dent,attack=gmsa_min]"]) == (1, 2)
    rejected = counts["rejected[defence=urejectron,attack=clean]"] / 360
    assert found["rejection_rate[defence=urejectron,attack=clean]"].value == pytest.approx(rejected)
    assert "rejected[defence=dent,attack=clean]" not in counts


def test_the_same_records_give_the_same_bytes_whatever_their_order() -> None:
    params = parameters(repeats=2)
    done = records(params)
    turned = {stage: table.take(np.arange(table.num_rows)[::-1]) for stage, table in done.items()}

    def text(tables) -> str:
        found = {name: one.model_dump() for name, one in estimate_all(params, tables).items()}
        return json.dumps(found, allow_nan=False)

    assert text(done) == text(done) == text(turned)


def test_columns_that_are_null_throughout_may_have_no_type() -> None:
    params = parameters(attacks=["transfer_autoattack", "fpa"])
    done = records(params)
    nothing = pa.nulls(120)
    bare = {stage: replaced(table, failed=nothing, rejection_score=nothing) for stage, table in done.items()}
    bare["static"] = replaced(done["static"], robust_pgd=nothing)
    assert estimate_all(params, bare) == estimate_all(params, done)


@pytest.mark.slow
def test_no_end_of_a_gap_over_repeats_is_wrong_too_often() -> None:
    """Ties of the others are the hard case: the lowest in the sample is then lowest by chance."""
    rng = np.random.default_rng(3)
    ids, repeats, trials = np.arange(60), 3, 300
    for chances in ([0.5, 0.5, 0.5], [0.3, 0.3, 0.3], [0.05, 0.4, 0.4]):
        above = below = 0
        for _ in range(trials):
            difficulty = 0.5 * rng.random(60)

            def played(chance: float, difficulty=difficulty) -> Outcomes:
                return Outcomes(ids, difficulty + 0.5 * rng.random((repeats, 60)) < _threshold(chance))

            others = {str(number): played(chance) for number, chance in enumerate(chances)}
            low, high = gap_to_lowest("reference", played(0.5), others).interval
            above += low > 0.5 - min(chances) + 1e-9
            below += high < 0.5 - min(chances) - 1e-9
        # 0.025 of 300 is 7.5; 15 would be by chance once in 100 times.
        assert max(above, below) <= 15


def _threshold(chance: float) -> float:
    """Where the sum of two numbers from [0, 0.5] lies below with this chance."""
    return float(np.sqrt(chance / 2)) if chance <= 0.5 else float(1 - np.sqrt((1 - chance) / 2))


def test_means_of_thirds_that_add_up_to_whole_examples_are_taken_as_such() -> None:
    ids = np.arange(30)
    thirds = np.array([[True] * 30, [True] * 15 + [False] * 15, [False] * 30])
    nobody = Outcomes(ids, np.zeros((1, 30), dtype=bool))
    gap = gap_to_lowest("reference", Outcomes(ids, thirds), {"other": nobody})
    assert gap.value == pytest.approx(0.5)
    assert gap.interval == score_interval(15, 0, 30)


def test_parts_of_examples_are_rounded_so_that_neither_end_comes_closer() -> None:
    ids = np.arange(30)
    one_of_three = np.zeros((3, 30), dtype=bool)
    one_of_three[0, 7] = True
    nobody, sometimes = Outcomes(ids, np.zeros((3, 30), dtype=bool)), Outcomes(ids, one_of_three)
    widest = (score_interval(0, 1, 30)[0], score_interval(0, 0, 30)[1])
    assert gap_to_lowest("reference", nobody, {"other": sometimes}).interval == widest
    turned = gap_to_lowest("reference", sometimes, {"other": nobody}).interval
    assert turned == (score_interval(0, 0, 30)[0], score_interval(1, 0, 30)[1])
