"""The form of a hardening spends nothing before its cost was shown; the page and the report show what came of one."""

from typing import Any

import httpx
import pytest

from app.console.curves import BOTTOM, HEIGHT, TOP, draw
from app.console.method_fields import fields_of, read_params
from app.hardenings import report
from seatrial.contracts.estimates import Estimate
from seatrial.contracts.hardenings import (
    HardeningCreate,
    HardeningRead,
    HardeningReportRead,
    HardeningResult,
    PairedDifference,
)
from seatrial.contracts.training import methods
from seatrial.store.tables import AuditRow, DatasetRow, HardeningRow
from tests.audits.acting import make_ready
from tests.console.conftest import Console, elements, words
from tests.reports import fabricated_judgements
from tests.uploads import dataset_manifest, npz, upload, upload_both

POINT = {"train_loss": 1.0, "learning_rate": 0.1, "skipped": 0.0, "loss": 0.5, "accuracy": 0.75, "ece": 0.1}


@pytest.fixture
def ready(console: Console) -> dict[str, str]:
    """The fields of a form that fits."""
    model, audited = upload_both(console.client)
    manifest = dataset_manifest(name="training")
    trained = upload(console.client, "datasets", manifest, npz(24)).json()["id"]
    make_ready(console.services)
    return {
        **{"model": model, "dataset": trained, "audited": audited, "method": "adversarial"},
        **{"param-epochs": "3", "param-milestones": "[1, 2]", "param-random_start": "false", "param-step_size": ""},
        **{"checks": "uncertainty_span", "params-uncertainty_span": '{"epsilon": 0.1, "steps": 5}'},
        **{"samples": "20", "seed": "7", "policy": "", "max_accuracy_loss": "0.1"},
    }


def stored(console: Console) -> list[HardeningRow]:
    with console.services.database.read() as session:
        return session.query(HardeningRow).all()


def picked(page: httpx.Response) -> list[str]:
    """Return what the selects of a page have chosen, from the first on."""
    return [str(one["value"]) for one in elements(page, "option") if "selected" in one]


@pytest.mark.parametrize("slug", list(methods()))
def test_a_form_as_it_is_shown_first_asks_for_the_defaults(slug: str) -> None:
    spec = methods()[slug]
    said = {one.field: one.starting() for one in fields_of(spec)}
    asked = spec.params.model_validate({**read_params(spec, said), "method": slug})
    assert asked == spec.params.model_validate({"method": slug})


def test_the_cost_is_shown_and_one_button_pressed_twice_is_one_hardening(
    console: Console, ready: dict[str, str]
) -> None:
    page = console.post("/harden", **ready)
    assert page.status_code == 200, words(page)
    assert "Estimated cost: parity 1 by adversarial, audited on parity 1 About" in words(page)
    assert stored(console) == []
    hidden = {str(one["name"]): str(one["value"]) for one in elements(page, "input") if one.get("type") == "hidden"}
    confirmed = {name: hidden[name] for name in ("request", "key")}
    first, second = (console.post("/harden/confirmed", **confirmed) for _ in range(2))
    [row] = stored(console)
    assert first.headers["location"] == second.headers["location"] == f"/hardenings/{row.id}"
    assert (row.params["epochs"], row.params["milestones"], row.params["random_start"]) == (3, [1, 2], False)
    assert (row.seed, row.spec["max_accuracy_loss"], row.spec["audit"]["samples"]) == (7, 0.1, 20)
    assert "waits for a worker" in words(console.get(f"/hardenings/{row.id}"))
    assert row.id in console.get("/hardenings").text
    assert console.get(f"/hardenings/{row.id}/report").status_code == 409
    assert console.get(f"/hardenings/{row.id}/weights").status_code == 404
    assert console.post(f"/hardenings/{row.id}/cancel").status_code == 303
    assert stored(console)[0].state == "cancelled"
    told = words(console.get(f"/hardenings/{row.id}?done=cancelled"))
    assert "The hardening was cancelled." in told
    assert "Cancelling" not in told


def test_data_left_open_are_the_newest_that_fit_and_are_not_the_same(console: Console, ready: dict[str, str]) -> None:
    page = console.get(f"/harden?model={ready['model']}&method=adversarial")
    assert set(picked(page)[1:3]) == {ready["dataset"], ready["audited"]}
    # What was uploaded to be trained on is trained on, however new it is.
    manifest = dataset_manifest(name="more", split="train")
    newest = upload(console.client, "datasets", manifest, npz(25)).json()["id"]
    page = console.get(f"/harden?model={ready['model']}&method=adversarial")
    assert picked(page)[1:3] == [newest, ready["dataset"]]


def test_where_no_data_fit_the_page_says_for_what(console: Console, ready: dict[str, str]) -> None:
    with console.services.database.write() as session:
        session.get_one(DatasetRow, ready["dataset"]).task = "text-classification"
    page = console.get(f"/harden?model={ready['model']}&method=adversarial")
    assert "No other dataset here fits parity 1 to be trained on." in words(page)
    with console.services.database.write() as session:
        session.get_one(DatasetRow, ready["audited"]).task = "text-classification"
    told = words(console.get(f"/harden?model={ready['model']}&method=adversarial"))
    assert "No dataset here fits parity 1 to be trained on. No dataset here fits parity 1 to be audited on." in told


@pytest.mark.parametrize(
    ("field", "value"),
    [("param-epochs", "many"), ("param-epsilon", "0"), ("param-milestones", "[2"), ("samples", "1"), ("seed", "x")],
)
def test_what_is_wrong_stands_beside_its_field(console: Console, ready: dict[str, str], field: str, value: str) -> None:
    page = console.post("/harden", **{**ready, field: value})
    assert page.status_code in (400, 422)
    [marked] = [one for one in elements(page) if one.get("aria-invalid") == "true"]
    assert (marked["id"], stored(console)) == (field, [])


def test_the_audited_data_are_not_offered_to_train_on(console: Console, ready: dict[str, str]) -> None:
    chosen = f"model={ready['model']}&dataset={ready['audited']}&audited={ready['audited']}&method=adversarial"
    page = console.get(f"/harden?{chosen}")
    assert "audited on what it is trained on" in words(page)
    assert [one for one in elements(page, "form") if one.get("action") == "/harden" and one["method"] == "post"] == []


def finished(console: Console, ready: dict[str, str], **more: Any) -> str:
    """Store a hardening that has ended and return its id."""
    hidden = elements(console.post("/harden", **ready), "input")
    sent = {str(one["name"]): str(one["value"]) for one in hidden if one.get("type") == "hidden"}
    hardening_id = console.post("/harden/confirmed", request=sent["request"], key=sent["key"]).headers["location"]
    before = console.finished()
    audits = [before, console.finished(model={"version": "hardened"}, dataset_of=before)]
    was, now = (Estimate(value=value, low=None, high=None, n=20, method="none") for value in (0.9, 0.8))
    worse = Estimate(value=0.1, low=0.02, high=0.18, n=20, method="paired")
    accuracy = PairedDifference(metric="clean_accuracy", better="higher", before=was, after=now, worse_by=worse)
    result = HardeningResult(
        **{"differences": [], "not_compared": {"x.<b>": "<i>no</i>"}, "accuracy": accuracy, "accuracy_holds": "failed"},
        **{"judgement": None, "is_promotable": False, "promoted": None, "summary": "Clean accuracy is worse."},
    )
    with console.services.database.write() as session:
        row = session.query(HardeningRow).one()
        row.state, row.stage, row.result = "succeeded", "auditing", result.model_dump(mode="json")
        row.audit_before, row.audit_after = audits
        row.curves = [POINT, {**POINT, "accuracy": 0.5, "attacked_accuracy": 0.25}]
        row.outcome = {"kept_epoch": 1, "notes": ["<b>note</b>"]}
        for name, value in more.items():
            setattr(row, name, value)
        assert session.query(AuditRow).count() == 2
    return hardening_id.rpartition("/")[2]


def test_what_it_was_judged_to_be_is_told_however_many_others_judged_since(
    console: Console, ready: dict[str, str]
) -> None:
    hardening_id = finished(console, ready)
    row, database = stored(console)[0], console.services.database
    first, *_ = [
        fabricated_judgements.store(database, str(row.audit_after), fabricated_judgements.CASES[verdict], is_own=False)
        for verdict in ("warned", *["failed"] * 101)
    ]
    with database.write() as session:
        of = session.get_one(HardeningRow, hardening_id)
        of.result = {**(of.result or {}), "judgement": first}
    told = console.client.get(f"/v1/hardenings/{hardening_id}/report", params={"format": "json"}).json()
    assert (told["judgement"]["id"], told["judgement"]["verdict"]) == (first, "passed")


def test_a_page_and_a_report_show_both_versions_and_escape_what_they_are_told(
    console: Console, ready: dict[str, str]
) -> None:
    hardening_id = finished(console, ready)
    page, told = console.get(f"/hardenings/{hardening_id}"), console.get(f"/hardenings/{hardening_id}/report")
    for shown in (page, told):
        assert shown.status_code == 200, shown.text
        assert "-0.1000 [-0.1800, -0.0200]" in words(shown)
        assert "Clean accuracy is worse." in words(shown)
        assert not [one for one in elements(shown, "i")], "what others wrote was not escaped"
    assert "sandbox" in told.headers["content-security-policy"]
    # Cells of the table with notes wrap: it was wider than the page.
    assert '<table class="sides">' in told.text
    assert ".sides td { white-space: normal; }" in told.text
    assert "badge bad" in page.text
    assert len(elements(page, "svg")) == 3
    assert 'data-events="' not in page.text
    markdown = console.client.get(f"/v1/hardenings/{hardening_id}/report", params={"format": "markdown"})
    assert "| `clean_accuracy` | 0.9000 | 0.8000 | -0.1000 " in markdown.text
    assert "\\<i\\>no" in markdown.text
    answer = console.client.get(f"/v1/hardenings/{hardening_id}/report", params={"format": "json"})
    read = HardeningReportRead.model_validate_json(answer.content)
    assert (
        read.hardening.model_dump()
        == HardeningRead.model_validate(console.client.get(f"/v1/hardenings/{hardening_id}").json()).model_dump()
    )
    assert read.names[ready["model"]] == "parity 1"
    assert console.client.get(f"/v1/hardenings/{hardening_id}/report", params={"format": "pdf"}).status_code == 422
    with console.services.database.read() as session:
        flags = report.flags_of(session, str(stored(console)[0].audit_after))
    assert all(flag.code.replace("_", " ") in words(told) for flag in flags)


def test_curves_stand_where_their_values_are() -> None:
    points = [{"a": 0.0, "b": None}, {"a": 1.0, "b": 0.5}]
    drawn = draw("x", points, {"a": "A", "b": "B", "c": "C"}, kept=2, within=(0, 1))
    assert drawn is not None
    a, b = drawn.lines
    assert [y for _, y in a.points] == pytest.approx([HEIGHT - BOTTOM, TOP])
    assert [y for _, y in b.points] == pytest.approx([(TOP + HEIGHT - BOTTOM) / 2])
    assert drawn.kept == a.points[1][0]
    assert draw("x", [{}], {"a": "A"}, kept=None) is None


def test_one_epoch_is_told_in_words_and_not_drawn(console: Console, ready: dict[str, str]) -> None:
    page = console.post("/harden", **ready)
    hidden = {str(one["name"]): str(one["value"]) for one in elements(page, "input") if one.get("type") == "hidden"}
    console.post("/harden/confirmed", request=hidden["request"])
    [row] = stored(console)

    def shown(epochs: int) -> httpx.Response:
        with console.services.database.write() as session:
            session.get_one(HardeningRow, row.id).curves = [POINT] * epochs
        return console.get(f"/hardenings/{row.id}")

    page = shown(1)
    assert elements(page, "svg") == []
    assert "Calibration on the validation examples after one epoch:" in words(page)
    assert "(1 epoch)" in words(page)
    page = shown(2)
    assert len(elements(page, "svg")) == 3
    assert "(2 epochs)" in words(page)


def test_what_is_chosen_last_is_what_is_hardened_and_what_was_typed_stays(
    console: Console, ready: dict[str, str]
) -> None:
    manifest = dataset_manifest(name="newer", split="train")
    newer = upload(console.client, "datasets", manifest, npz(26)).json()["id"]
    page = console.post("/harden", **{**ready, "dataset": newer})
    assert page.status_code == 200, words(page)
    hidden = {str(one["name"]): str(one["value"]) for one in elements(page, "input") if one.get("type") == "hidden"}
    assert f'"dataset":"{newer}"' in hidden["request"]
    changed = console.post("/harden", **{**ready, "method": "gaussian", "samples": "17", "change": "yes"})
    assert "Estimated cost" not in words(changed)
    values = {one.get("name"): one.get("value") for one in elements(changed, "input")}
    assert (values["param-epochs"], values["samples"]) == ("3", "17")
    assert "gaussian" in picked(changed)


def test_more_examples_than_there_are_is_said_and_fractions_are_read(console: Console, ready: dict[str, str]) -> None:
    page = console.post("/harden", **{**ready, "samples": "999", "param-epsilon": "8/255", "max_accuracy_loss": "1/20"})
    assert page.status_code == 200, words(page)
    assert "999 examples were asked for; parity 1 has 20, and all of them are audited." in words(page)
    hidden = {str(one["name"]): str(one["value"]) for one in elements(page, "input") if one.get("type") == "hidden"}
    asked = HardeningCreate.model_validate_json(hidden["request"])
    assert (asked.params["epsilon"], asked.max_accuracy_loss) == (8 / 255, 0.05)
