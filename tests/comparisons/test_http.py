"""Training runs side by side over HTTP: numbers against numpy, and refused where they did not run alike."""

import csv
import io
from typing import Any

import httpx
import numpy as np
import pytest

from seatrial.store.tables import AuditRow, CheckRow, DatasetRow, ModelRow
from tests.console.conftest import Console, console, elements, keyless_service, locked, locked_service
from tests.web.test_problems import assert_problem

__all__ = ["console", "elements", "keyless_service", "locked", "locked_service"]

MUS = "uncertainty_span.mus"
WORST = "uncertainty_span.mus_worst"
NOTHING = {"value": None, "low": None, "high": None, "n": 0, "method": "none"}


@pytest.fixture
def runs(console: Console) -> list[str]:
    """Three training runs of one model and two of another, of their own weights, on one dataset."""
    spans = [(0.1, 1.0), (0.2, 0.9), (0.05, 1.3), (0.4, 0.3), (0.5, 0.35)]
    audits: list[str] = []
    for at, (over, under) in enumerate(spans):
        name = {"name": "standard" if at < 3 else "robust", "version": f"seed{at}", "digest": f"sha256:{at}"}
        shared = {"dataset_of": audits[0]} if audits else {}
        audits.append(console.finished(model=name, over=over, under=under, **shared))
    return audits


def ask(console: Console, **query: Any) -> httpx.Response:
    return console.client.get("/v1/comparison", params=query)


def stored(console: Console, audit: str) -> dict[str, float]:
    with console.services.database.read() as session:
        row = session.query(CheckRow).filter_by(audit_id=audit).one()
        assert row.result is not None
        return {name: one["value"] for name, one in row.result["estimates"].items()}


def change(console: Console, audit: str, *, params: Any = None, estimates: Any = None, **columns: Any) -> None:
    with console.services.database.write() as session:
        row = session.query(CheckRow).filter_by(audit_id=audit).one()
        row.params = {**row.params, **(params or {})}
        assert row.result is not None
        row.result = {**row.result, "estimates": {**row.result["estimates"], **(estimates or {})}}
        for name, value in columns.items():
            setattr(session.get_one(AuditRow, audit), name, value)


def test_mean_and_deviation_are_numpys_and_versions_of_one_name_are_its_runs(console: Console, runs: list[str]) -> None:
    told = ask(console, audit=runs).json()
    assert [(group["name"], len(group["audits"])) for group in told["groups"]] == [("standard", 3), ("robust", 2)]
    for group, members in zip(told["groups"], (runs[:3], runs[3:]), strict=True):
        assert [one["audit"] for one in group["audits"]] == members
        for metric in told["metrics"]:
            values = [stored(console, audit)[metric.removeprefix("uncertainty_span.")] for audit in members]
            assert group["numbers"][metric]["values"] == values
            assert group["numbers"][metric]["mean"] == pytest.approx(np.mean(values), rel=1e-12, abs=1e-15)
            assert group["numbers"][metric]["sd"] == pytest.approx(np.std(values, ddof=1), rel=1e-9, abs=1e-12)
    assert MUS in told["metrics"]


def test_groups_may_be_named_and_one_run_has_no_deviation(console: Console, runs: list[str]) -> None:
    told = ask(console, group=[f"early:{runs[0]},{runs[3]}", f"late:{runs[4]}"], metric=[MUS]).json()
    assert [(group["name"], group["numbers"][MUS]["n"]) for group in told["groups"]] == [("early", 2), ("late", 1)]
    assert told["groups"][1]["numbers"][MUS]["sd"] is None
    assert told["metrics"] == [MUS]


@pytest.mark.parametrize(("column", "words"), [("seed", "the seed differs"), ("samples", "the number of examples")])
def test_audits_that_drew_other_examples_are_refused(
    console: Console, runs: list[str], column: str, words: str
) -> None:
    with console.services.database.write() as session:
        row = session.get_one(AuditRow, runs[1])
        setattr(row, column, getattr(row, column) + 1)
    problem = assert_problem(ask(console, audit=runs), 422)
    assert words in problem.detail
    assert runs[1] in problem.detail


def test_audits_of_other_data_are_refused(console: Console, runs: list[str]) -> None:
    with console.services.database.write() as session:
        dataset = session.get_one(DatasetRow, session.get_one(AuditRow, runs[0]).dataset_id)
        dataset.version, dataset.digest = "before", "sha256:before"
    elsewhere = console.finished(model={"version": "other data", "digest": "sha256:9"}, over=0.1, under=1.0)
    assert "bytes of data differs" in assert_problem(ask(console, audit=[*runs, elsewhere]), 422).detail


def test_numbers_that_mean_something_else_are_left_out_and_said(console: Console, runs: list[str]) -> None:
    change(console, runs[1], params={"epsilon": 0.5})
    told = ask(console, audit=runs).json()
    assert MUS not in told["metrics"]
    assert "epsilon is 0.5 in" in told["not_compared"][MUS]
    assert runs[0] in told["not_compared"][MUS]
    # What no parameter touches is compared all the same.
    assert "uncertainty_span.clean_accuracy" in told["metrics"]
    problem = assert_problem(ask(console, audit=runs, metric=[MUS]), 422)
    assert "epsilon is 0.5" in problem.detail


def test_a_number_of_an_earlier_version_does_not_stand_in_the_way(console: Console, runs: list[str]) -> None:
    change(console, runs[0], estimates={"abandoned": {**NOTHING, "value": 0.5}})
    assert ask(console, audit=runs[0], metric=[MUS]).json()["metrics"] == [MUS]
    assert_problem(ask(console, audit=runs[0], metric=["uncertainty_span.abandoned"]), 422)


def test_a_number_undefined_in_one_run_is_no_mean_of_the_others(console: Console, runs: list[str]) -> None:
    change(console, runs[2], estimates={"mus": NOTHING})
    told = ask(console, audit=runs).json()
    assert MUS not in told["metrics"]
    assert told["not_compared"][MUS] == f"it is undefined in {runs[2]}"


def test_the_same_weights_are_one_run(console: Console, runs: list[str]) -> None:
    with console.services.database.write() as session:
        row = session.get_one(AuditRow, runs[1])
        session.get_one(ModelRow, row.model_id).digest = "sha256:0"
    told = assert_problem(ask(console, audit=runs), 422).detail
    assert "of the same weights" in told
    assert "put each into a group of its own" in told
    # In two groups they may be.
    assert ask(console, group=[f"a:{runs[0]}", f"b:{runs[1]}"]).status_code == 200
    assert "asked for twice" in assert_problem(ask(console, audit=[runs[0], runs[0]]), 422).detail


def test_only_what_succeeded_and_is_ones_own_is_compared(console: Console, locked: Console, runs: list[str]) -> None:
    failed = console.running(model={"version": "running"}, dataset_of=runs[0])
    assert "only audits that succeeded" in assert_problem(ask(console, audit=[runs[0], failed]), 422).detail
    assert_problem(ask(console, audit=["aud_none"]), 404)
    for query in ({}, {"audit": runs, "metric": ["nonsense"]}, {"audit": runs, "group": [f"standard:{runs[0]}"]}):
        assert_problem(ask(console, **query), 422)
    other = locked.finished(over=0.1, under=1.0)
    key = locked.key("read", "elsewhere")
    headers = {"Authorization": f"Bearer {key}"}
    assert_problem(locked.client.get("/v1/comparison", params={"audit": other}, headers=headers), 404)
    assert_problem(locked.client.get("/v1/comparison", params={"audit": other}), 401)


def test_tables(console: Console, runs: list[str]) -> None:
    with console.services.database.write() as session:
        for audit in runs[:3]:
            session.get_one(ModelRow, session.get_one(AuditRow, audit).model_id).name = "-cmd"
    told = ask(console, audit=runs).json()
    rows = list(csv.DictReader(io.StringIO(ask(console, audit=runs, format="csv").text)))
    assert [row["group"] for row in rows] == ["'-cmd", "robust"]
    number = told["groups"][0]["numbers"][MUS]
    assert (float(rows[0][MUS]), float(rows[0][f"{MUS} sd"])) == (number["mean"], number["sd"])
    assert [float(value) for value in rows[0][f"{MUS} values"].split()] == number["values"]
    text = ask(console, audit=runs, metric=[MUS], format="markdown").text
    lines = [line for line in text.splitlines() if line.startswith("|")]
    assert len(lines) == 4
    assert f"{number['mean']:.4f} ± {number['sd']:.4f}" in lines[2]


def test_of_two_audits_differences_come_with_what_is_judged_first(console: Console, runs: list[str]) -> None:
    for audit, value in zip(runs[:2], (0.9, 0.4), strict=True):
        worst = {"value": value, "low": value - 0.1, "high": value + 0.1, "n": 100, "method": "gaffke"}
        change(console, audit, estimates={"mus_worst": worst})
    two = ask(console, audit=runs[:2]).json()
    assert two["metrics"][0] == WORST
    one = two["differences"][WORST]
    assert (one["first"]["value"], one["second"]["value"], one["trend"]) == (0.9, 0.4, "better")
    assert one["difference"]["value"] == pytest.approx(-0.5)
    assert one["difference"]["low"] < -0.5 < one["difference"]["high"] < 0
    assert set(two["differences"]) <= set(two["metrics"])
    assert ask(console, audit=runs[:3]).json()["differences"] == {}
    lines = ask(console, audit=runs[:2], format="markdown").text.splitlines()
    assert lines[0] == "| number | A | B | B minus A | B is | mean ± sd |"
    assert lines[2].startswith(f"| `{WORST}` | 0.9000 ")
    assert lines[2].endswith(" | better | 0.6500 ± 0.3536 |")
    apart = ask(console, audit=[runs[0], runs[3]], format="markdown").text
    assert apart.startswith("| number | A | B | B minus A | B is |\n")
    assert "A: standard seed0, " in apart
    assert "B: robust seed3, " in apart


def test_of_two_audits_the_console_s_page_is_named(console: Console, runs: list[str]) -> None:
    there = console.client.get("/v1/comparison", params={"audit": runs[:2]}, headers={"Host": "127.0.0.1:8000"})
    assert there.json()["page"] == f"http://127.0.0.1:8000/compare?a={runs[0]}&b={runs[1]}"
    assert ask(console, audit=runs[:3]).json()["page"] is None
