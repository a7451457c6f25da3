"""Tables and curves say what the estimates say, and can be recomputed from the rows."""

import json

import numpy as np
import pyarrow as pa
import pytest

from seatrial.families.transductive_attack.params import game_of
from tests.families.transductive_attack.fabricated import parameters, records, replaced
from workers.families.transductive_attack.estimates import estimate_all
from workers.families.transductive_attack.sample import Games
from workers.families.transductive_attack.series import iterations, make_series, rejection

PARAMS = parameters(defences=["dent", "urejectron"], repeats=2, attacks=["transfer_pgd", "fpa", "gmsa_min"])


@pytest.fixture(scope="module")
def done():
    failed, errored = {game_of("dent", "gmsa_min", 1): "no"}, {game_of("dent", "fpa", 0): {3, 4}}
    return records(PARAMS, failed=failed, errored=errored, fallback=0.2)


@pytest.fixture(scope="module")
def made(done):
    return make_series(PARAMS, done)


def played(
    scores: list,
    selected: list,
    *,
    errored: tuple[int, ...] = (),
    clean_score: list | None = None,
    **changes: object,
) -> Games:
    """One game of so many examples."""
    params = parameters(defences=["rmc"], attacks=["gmsa_min"], **changes)
    n = len(scores)
    tables = records(params, n=n)
    stage = tables[game_of("rmc", "gmsa_min", 0)]
    order = np.argsort(stage["example_id"].to_numpy())
    columns = {
        "scores": pa.array(scores, pa.list_(pa.float64())),
        "selected": pa.array(selected, pa.int64()),
        "clean_score": pa.array(clean_score or [None] * n, pa.float64()),
        "errored": pa.array(np.isin(np.arange(n), errored)),
    }
    return Games(params, tables | {game_of("rmc", "gmsa_min", 0): replaced(stage.take(order), **columns)})


def test_everything_is_json_without_nan(made) -> None:
    assert json.loads(json.dumps(made, allow_nan=False)) == made


def test_the_same_records_give_the_same_series(made, done) -> None:
    assert make_series(PARAMS, done) == made


def test_the_table_repeats_the_estimates_attack_by_attack(made, done) -> None:
    found = estimate_all(PARAMS, done)
    rows = made["robustness"]
    assert [(row["defence"], row["attack"]) for row in rows] == [
        (defence, attack) for defence in ("dent", "urejectron") for attack in ("clean", *PARAMS.attacks)
    ]
    for row in rows:
        of = f"[defence={row['defence']}" + ("]" if row["attack"] == "clean" else f",attack={row['attack']}]")
        estimate = found[("clean_accuracy" if row["attack"] == "clean" else "robustness") + of]
        assert row["robustness"] == pytest.approx(estimate.value)
        assert row["robustness"] == pytest.approx(np.mean(row["repeats"]))
        assert row["is_adaptive"] == (row["attack"] in ("fpa", "gmsa_min"))
    failed = {(row["defence"], row["attack"]): row["failed"] for row in rows if row["failed"]}
    assert failed == {("dent", "gmsa_min"): 1}


def test_what_was_compared_is_named(made, done) -> None:
    found = estimate_all(PARAMS, done)
    for row in made["compared"]:
        over, gain = row["overestimate"], row["gain_over_static"]
        assert (over["reference"], over["lowest"]) == ("transfer_pgd", "gmsa_min")
        assert (gain["reference"], gain["lowest"]) == ("transfer_pgd", "gmsa_min")
        estimate = found[f"overestimate[defence={row['defence']}]"]
        assert over["reference_rate"] - over["lowest_rate"] == pytest.approx(estimate.value)
        assert over["n"] == estimate.n
        estimate = found[f"gain_over_static[defence={row['defence']}]"]
        assert gain["lowest_rate"] - gain["reference_rate"] == pytest.approx(estimate.value)


def test_what_cannot_be_compared_is_null() -> None:
    params = parameters(defences=["dent"], attacks=["fpa"])
    assert make_series(params, records(params))["compared"] == [
        {"defence": "dent", "overestimate": None, "gain_over_static": None}
    ]


def test_each_iteration_has_its_mean_score_and_how_often_it_was_sent(made, done) -> None:
    curves = {(one["defence"], one["attack"]): one for one in made["iterations"]}
    assert set(curves) == {(defence, attack) for defence in ("dent", "urejectron") for attack in ("fpa", "gmsa_min")}
    for (defence, attack), curve in curves.items():
        rows = [
            row
            for repeat in (0, 1)
            for row in done[game_of(defence, attack, repeat)].to_pylist()
            if row["failed"] is None and not row["errored"]
        ]
        assert curve["n"] == len(rows)
        assert curve["clean_sent"] == sum(row["selected"] == -1 for row in rows) > 0
        assert curve["clean_score"] is None
        assert len(curve["points"]) == PARAMS.iterations + 1
        for point in curve["points"]:
            scores = [row["scores"] for row in rows]
            assert point["score"] == pytest.approx(np.mean([one[point["iteration"]] for one in scores]))
            assert point["best"] == pytest.approx(np.mean([min(one[: point["iteration"] + 1]) for one in scores]))
            assert point["selected"] == sum(row["selected"] == point["iteration"] for row in rows)
        assert sum(point["selected"] for point in curve["points"]) + curve["clean_sent"] == curve["n"]
    assert curves["dent", "gmsa_min"]["n"] == 120
    assert curves["dent", "fpa"]["n"] == 238


def test_rounds_that_ended_early_keep_their_last_score() -> None:
    games = played([[0.0], [1.0, 0.0], [1.0, 1.0, 1.0], [0.5, 0.0, 0.0]], [0, 1, -1, 1], iterations=2, errored=(3,))
    found = iterations(games, "rmc", "gmsa_min")
    assert [point["n"] for point in found["points"]] == [3, 2, 1]
    assert [point["score"] for point in found["points"]] == pytest.approx([2 / 3, 1 / 3, 1 / 3])
    assert [point["best"] for point in found["points"]] == pytest.approx([2 / 3, 1 / 3, 1 / 3])
    assert [point["selected"] for point in found["points"]] == [1, 1, 0]
    assert (found["clean_sent"], found["n"]) == (1, 3)


def test_what_an_attack_had_to_get_below_is_told_and_no_iteration() -> None:
    games = played(
        [[0.5, 0.4], [0.8, 0.75], [0.2]], [1, -1, 0], iterations=1, clean_score=[0.9, 0.7, None], errored=(2,)
    )
    found = iterations(games, "rmc", "gmsa_min")
    assert found["clean_score"] == pytest.approx(0.8)
    assert [point["score"] for point in found["points"]] == pytest.approx([0.65, 0.575])


@pytest.mark.parametrize("scores", [[None, None], [[], []]], ids=["null", "empty"])
def test_without_scores_there_is_no_curve(scores) -> None:
    assert iterations(played(scores, [None, None]), "rmc", "gmsa_min") is None


def test_rejection_curves_are_the_means_of_a_count_in_each_repeat(made, done) -> None:
    curves = made["rejection"]
    assert [(one["defence"], one["attack"]) for one in curves] == [
        ("urejectron", attack) for attack in ("clean", *PARAMS.attacks)
    ]
    for curve in curves:
        assert curve["thresholds"] == np.linspace(0, 1, 100).tolist()
        tables = [done[game_of("urejectron", curve["attack"], repeat)].to_pylist() for repeat in (0, 1)]
        for at in (0, 40, 80, 99):
            rates, errors, of_all, of_clean = [], [], [], []
            for rows in tables:
                points = [(row["rejection_score"], row["prediction"] != row["label"]) for row in rows]
                twins = [(row["clean_rejection_score"], row["clean_prediction"] != row["label"]) for row in rows]
                if curve["attack"] != "clean":
                    points += twins
                    of_clean.append(np.mean([score > curve["thresholds"][at] for score, _ in twins]))
                assert curve["n"] == len(points)
                accepted = [is_wrong for score, is_wrong in points if score <= curve["thresholds"][at]]
                rates.append(1 - len(accepted) / len(points))
                errors.append(np.mean(accepted) if accepted else 0.0)
                of_all.append(sum(accepted) / len(points))
            assert curve["rejection_rate"][at] == pytest.approx(np.mean(rates))
            assert curve["error_among_accepted"][at] == pytest.approx(np.mean(errors))
            assert curve["error_over_all"][at] == pytest.approx(np.mean(of_all))
            if of_clean:
                assert curve["clean_rejection_rate"][at] == pytest.approx(np.mean(of_clean))
        assert (curve["clean_rejection_rate"] is None) == (curve["attack"] == "clean")


def test_scores_on_another_scale_have_no_curve() -> None:
    params = parameters(defences=["urejectron"], attacks=["fpa"])
    done = records(params)
    table = done[game_of("urejectron", "fpa", 0)]
    done[game_of("urejectron", "fpa", 0)] = replaced(table, rejection_score=pa.array(np.full(120, 3.0)))
    assert rejection(Games(params, done), "urejectron", "fpa") is None
    assert [one["attack"] for one in make_series(params, done)["rejection"]] == ["clean"]
