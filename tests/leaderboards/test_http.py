"""The leaderboard over HTTP and in the console: which audits are alike, in what order, and every form of it."""

import csv
import io
from typing import Any

import httpx
import pytest

from seatrial.store.tables import AuditRow, CheckRow, ModelRow
from tests.console.conftest import Console, console, elements, keyless_service, locked, locked_service, words
from tests.web.test_problems import assert_problem

__all__ = ["console", "keyless_service", "locked", "locked_service"]

SPAN = "uncertainty_span"


def dataset_of(console: Console, audit: str) -> str:
    with console.services.database.read() as session:
        return session.get_one(AuditRow, audit).dataset_id


def change(console: Console, audit: str, *, params: Any = None, estimates: Any = None) -> None:
    with console.services.database.write() as session:
        row = session.query(CheckRow).filter_by(audit_id=audit).one()
        row.params = {**row.params, **(params or {})}
        if estimates:
            assert row.result is not None
            row.result = {**row.result, "estimates": {**row.result["estimates"], **estimates}}


def ask(console: Console, audit: str, **query: str) -> httpx.Response:
    asked = {"dataset": dataset_of(console, audit), "check": SPAN, **query}
    return console.client.get("/v1/leaderboard", params=asked)


@pytest.fixture
def three(console: Console) -> list[str]:
    """Three versions on one dataset: a middling one, a bad one, a good one."""
    first = console.finished(over=0.1, under=1.0)
    rest = [{"over": 0.0, "under": 2.0}, {"over": 0.3, "under": 0.5}]
    return [
        first,
        *(console.finished(model={"version": f"v{n}"}, dataset_of=first, **one) for n, one in enumerate(rest)),
    ]


def test_models_stand_in_the_order_of_a_metric(console: Console, three: list[str]) -> None:
    board = ask(console, three[0], metric="mus").json()
    assert [row["audit"] for row in board["rows"]] == [three[2], three[0], three[1]]
    assert [row["rank"] for row in board["rows"]] == [1, 2, 3]
    assert (board["metric"], board["better"], board["group"]["models"], board["left_out"]) == ("mus", "lower", 3, 0)
    values = [row["estimates"]["mus"]["value"] for row in board["rows"]]
    assert values == sorted(values)
    assert ask(console, three[0], metric=f"{SPAN}.mus").json()["rows"] == board["rows"]
    assert all(row["rank_low"] <= row["rank"] <= row["rank_high"] for row in board["rows"])


def test_the_default_is_the_number_that_shipped_policies_judge(console: Console, three: list[str]) -> None:
    for at, audit in enumerate(three):
        worst = {"value": 1.9 - at / 10, "low": 1.8 - at / 10, "high": 2.0 - at / 10, "n": 100, "method": "gaffke"}
        change(console, audit, estimates={"mus_worst": worst})
    board = ask(console, three[0]).json()
    assert board["metric"] == "mus_worst"
    assert [row["audit"] for row in board["rows"]] == three[::-1]


def test_ranges_are_explained_where_a_rank_has_one(console: Console, three: list[str]) -> None:
    told = {"A rank's range": ask(console, three[0], metric="mus", format="markdown").text}
    address = f"/leaderboard?dataset={dataset_of(console, three[0])}&check={SPAN}&metric=mus"
    told["In brackets behind a rank"] = words(console.get(address))
    assert [said for said, text in told.items() if said in text] == []
    for audit in three[:2]:
        change(console, audit, estimates={"mus": {"value": 1.0, "low": 0.5, "high": 1.5, "n": 100, "method": "gaffke"}})
    assert "A rank's range" in ask(console, three[0], metric="mus", format="markdown").text
    assert "In brackets behind a rank" in words(console.get(address))


def test_a_metric_without_a_better_way_has_no_ranks(console: Console, three: list[str]) -> None:
    board = ask(console, three[0], metric="entropy[arm=clean]").json()
    assert board["better"] == "neither"
    assert {row["rank"] for row in board["rows"]} == {None}


def test_differences_are_measured_from_the_audit_asked_for(console: Console, three: list[str]) -> None:
    board = ask(console, three[0], metric="mus", against=three[0]).json()
    best, reference, worst = board["rows"]
    assert best["difference"]["value"] < 0 < worst["difference"]["value"]
    assert reference["difference"] is None
    assert reference["compared"] == "what the others are compared with"
    problem = assert_problem(ask(console, three[0], against="aud_none"), 422)
    assert [one.pointer for one in problem.errors or ()] == ["/against"]


def test_only_what_ran_alike_is_in_one_table(console: Console, three: list[str]) -> None:
    change(console, three[1], params={"epsilon": 0.5})
    board = ask(console, three[0], metric="mus").json()
    assert [row["audit"] for row in board["rows"]] == [three[2], three[0]]
    assert [group["models"] for group in board["groups"]] == [2, 1]
    other = board["groups"][1]
    assert other["params"]["epsilon"] == 0.5
    (row,) = ask(console, three[0], group=other["id"]).json()["rows"]
    assert row["audit"] == three[1]
    assert_problem(ask(console, three[0], group="0123456789ab"), 422)


def test_another_seed_or_sample_is_another_group(console: Console, three: list[str]) -> None:
    with console.services.database.write() as session:
        session.get_one(AuditRow, three[1]).seed += 1
        session.get_one(AuditRow, three[2]).samples += 1
    assert [group["models"] for group in ask(console, three[0]).json()["groups"]] == [1, 1, 1]


def test_of_a_model_the_newest_audit_counts(console: Console, three: list[str]) -> None:
    again = console.finished(model={"version": "v7"}, dataset_of=three[0], over=0.0, under=0.1)
    with console.services.database.write() as session:
        session.get_one(AuditRow, again).model_id = session.get_one(AuditRow, three[0]).model_id
    audits = [row["audit"] for row in ask(console, three[0], metric="mus").json()["rows"]]
    assert again in audits
    assert three[0] not in audits
    assert len(audits) == 3


def test_an_undefined_number_comes_last_without_a_rank(console: Console, three: list[str]) -> None:
    nothing = {"value": None, "low": None, "high": None, "n": 0, "method": "none"}
    change(console, three[2], estimates={"mus": nothing})
    rows = ask(console, three[0], metric="mus", against=three[0]).json()["rows"]
    assert rows[-1]["audit"] == three[2]
    assert (rows[-1]["rank"], rows[-1]["difference"]) == (None, None)


def test_csv_has_every_number_and_starts_no_formula(console: Console, three: list[str]) -> None:
    with console.services.database.write() as session:
        audit = session.get_one(AuditRow, three[0])
        session.get_one(ModelRow, audit.model_id).name = "-cmd"
    answer = ask(console, three[0], metric="mus", format="csv")
    assert answer.headers["content-type"] == "text/csv; charset=utf-8"
    rows = list(csv.DictReader(io.StringIO(answer.text)))
    assert [row["rank"] for row in rows] == ["1", "2", "3"]
    assert "'-cmd" in {row["name"] for row in rows}
    told = ask(console, three[0], metric="mus").json()
    for row, one in zip(rows, told["rows"], strict=True):
        assert float(row["mus low"]) == one["estimates"]["mus"]["low"]


def test_markdown_is_a_table(console: Console, three: list[str]) -> None:
    text = ask(console, three[0], metric="mus", format="markdown", against=three[0]).text
    lines = [line for line in text.splitlines() if line.startswith("|")]
    assert len(lines) == 5
    assert "`mus`" in lines[0]
    assert "difference" in lines[0]
    assert len({line.count(" | ") for line in lines}) == 1


def test_what_is_not_there_is_said(console: Console, three: list[str]) -> None:
    assert_problem(console.client.get("/v1/leaderboard", params={"dataset": "dst_none", "check": SPAN}), 404)
    for query, pointer in (({"check": "no_such"}, "/check"), ({"metric": "no_such"}, "/metric")):
        problem = assert_problem(ask(console, three[0], **query), 422)
        assert [one.pointer for one in problem.errors or ()] == [pointer]
    misspelt = assert_problem(ask(console, three[0], check="temperature_attack", metric="clean_acuracy"), 422)
    assert "clean_accuracy" in misspelt.detail
    known = ask(console, three[0], check="temperature_attack", metric="adversarial_accuracy[arm=label_only]")
    assert (known.status_code, known.json()["metric"]) == (200, None)
    empty = ask(console, three[0], check="temperature_attack")
    assert (empty.status_code, empty.json()["rows"], empty.json()["metric"]) == (200, [], None)
    assert "No model" in ask(console, three[0], check="temperature_attack", format="markdown").text
    assert ask(console, three[0], check="temperature_attack", format="csv").text.count("\n") == 1


def test_the_page_shows_it(console: Console, three: list[str]) -> None:
    dataset = dataset_of(console, three[0])
    page = console.get(f"/leaderboard?dataset={dataset}&check={SPAN}&metric=mus&against={three[0]}")
    assert three[0] in {one.get("value") for one in elements(page, "option")}
    told = words(page)
    assert "3" in told
    assert "what the others are compared with" in told
    # What was picked for another check is no error of whoever picked it.
    refused = console.get(f"/leaderboard?dataset={dataset}&check={SPAN}&metric=gone")
    assert refused.status_code == 200
    assert "No model here has 'gone'" in words(refused)
    assert "choose" in words(console.get("/leaderboard"))


def test_another_project_sees_nothing(locked: Console) -> None:
    audit = locked.finished(over=0.1, under=1.0)
    dataset = dataset_of(locked, audit)
    key = locked.key("read", "elsewhere")
    answer = locked.client.get(
        "/v1/leaderboard", params={"dataset": dataset, "check": SPAN}, headers={"Authorization": f"Bearer {key}"}
    )
    assert_problem(answer, 404)
    assert_problem(locked.client.get("/v1/leaderboard", params={"dataset": dataset, "check": SPAN}), 401)


def test_models_may_differ_in_one_parameter_and_have_a_row_for_each_value(console: Console, three: list[str]) -> None:
    for audit, epsilon in zip(three, (0.1, 0.5, 0.1), strict=True):
        change(console, audit, params={"epsilon": epsilon})
    with console.services.database.write() as session:
        # The same model at two values is two rows.
        session.get_one(AuditRow, three[1]).model_id = session.get_one(AuditRow, three[0]).model_id
    board = ask(console, three[0], metric="mus", across="epsilon", against=three[0]).json()
    assert [(row["audit"], row["varied"]) for row in board["rows"]][::2] == [(three[2], 0.1), (three[1], 0.5)]
    assert [group["models"] for group in board["groups"]] == [3]
    assert "epsilon" not in board["group"]["params"]
    assert [row["rank"] for row in board["rows"]] == [1, 2, 3]
    assert board["rows"][1]["compared"] == "what the others are compared with"
    # In another parameter they may not.
    assert [group["models"] for group in ask(console, three[0], across="steps").json()["groups"]] == [2, 1]
    problem = assert_problem(ask(console, three[0], across="sigma"), 422)
    assert [one.pointer for one in problem.errors or ()] == ["/across"]
    assert "epsilon" in problem.detail
    lines = ask(console, three[0], metric="mus", across="epsilon", format="markdown").text.splitlines()
    assert "`epsilon`" in lines[2]
    assert lines[4].split(" | ")[2] == "`0.1`"


def test_rows_that_no_other_beats_in_both_numbers_are_on_the_front(console: Console, three: list[str]) -> None:
    for audit, accuracy in zip(three, (0.9, 0.8, 0.7), strict=True):
        value = {"value": accuracy, "low": accuracy - 0.05, "high": accuracy + 0.05, "n": 40, "method": "resampled"}
        change(console, audit, estimates={"clean_accuracy": value})
    board = ask(console, three[0], metric="mus", beside="clean_accuracy").json()
    # The second has the largest span and is less accurate than the first.
    told = {row["audit"]: row["is_efficient"] for row in board["rows"]}
    assert told == {three[0]: True, three[1]: False, three[2]: True}
    text = ask(console, three[0], metric="mus", beside="clean_accuracy", format="markdown").text
    assert "Pareto front" in text
    rows = list(csv.DictReader(io.StringIO(ask(console, three[0], metric="mus", beside="mus", format="csv").text)))
    assert [row["efficient"] for row in rows] == ["True", "False", "False"]
    for query in ({"beside": "no_such"}, {"beside": "entropy[arm=clean]"}):
        problem = assert_problem(ask(console, three[0], metric="mus", **query), 422)
        assert [one.pointer for one in problem.errors or ()] == ["/beside"]
    dataset = dataset_of(console, three[0])
    page = console.get(f"/leaderboard?dataset={dataset}&check={SPAN}&metric=mus&beside=clean_accuracy&across=epsilon")
    assert "Filled and on the line: the Pareto front" in words(page)
    assert len([one for one in elements(page, "circle") if "other" in (one.get("class") or "")]) == 1
    assert len(elements(page, "circle")) == 3


def test_a_number_at_several_radii_is_drawn_against_them_a_line_for_each_row(
    console: Console, three: list[str]
) -> None:
    """As several sigmas of a model on one page: of an audit's parameter that may differ, whatever it is called."""
    for audit, epsilon in zip(three, (0.1, 0.2, 0.4), strict=True):
        value = {
            f"auroc[epsilon={at:g}]": {
                "value": 1 - epsilon - at,
                "low": 0.1,
                "high": 0.95,
                "n": 40,
                "method": "resampled",
            }
            for at in (0.0, 0.03, 0.05, 0.1, 0.2)
        }
        change(console, audit, params={"epsilon": epsilon}, estimates=value)
    dataset = dataset_of(console, three[0])
    asked = f"/leaderboard?dataset={dataset}&check={SPAN}&metric=auroc%5Bepsilon%3D0.05%5D&across=epsilon"
    page = console.get(asked)
    curves = [one for one in elements(page, "polyline") if one.get("class") == "curve"]
    assert {len((one.get("points") or "").split()) for one in curves} == {7}
    assert len({one.get("stroke-dasharray") for one in curves}) == 3
    for epsilon in ("0.1", "0.2", "0.4"):
        assert f", epsilon {epsilon}" in words(page)
    # Higher is better: the first row's line is above the others at every value.
    heights = [[float(point.split(",")[1]) for point in (one.get("points") or "").split()] for one in curves]
    assert all(one <= other for one, other in zip(heights[0], heights[2], strict=True))
    assert sum(one < other for one, other in zip(heights[0], heights[2], strict=True)) == 5
    assert not [one for one in elements(console.get(asked.replace("auroc%5Bepsilon%3D0.05%5D", "mus")), "polyline")]
