"""Nothing is spent before its cost has been shown, and one button pressed twice is one audit."""

import json
import re
from typing import get_args

import httpx
import numpy as np
import pytest

from app.cli.gate_files import default_checks
from app.console.requests import about, families_for
from seatrial.contracts.models import Task
from seatrial.contracts.registry import families
from seatrial.store.tables import AuditRow, ModelRow
from tests.audits.acting import make_ready
from tests.console.conftest import Console, elements, words
from tests.console.test_uploads import wrong
from tests.uploads import dataset_manifest, model_manifest, npz, upload, upload_both, weights

SPAN = json.dumps({"epsilon": 0.1, "steps": 5})


@pytest.fixture
def ready(console: Console) -> dict[str, str]:
    """The fields of a form that fits."""
    model, dataset = upload_both(console.client)
    make_ready(console.services)
    return {
        "model": model,
        "dataset": dataset,
        "checks": "uncertainty_span",
        "params-uncertainty_span": SPAN,
        "samples": "20",
        "seed": "7",
        "policy": "",
        "baseline": "",
    }


def audits(console: Console) -> list[AuditRow]:
    with console.services.database.read() as session:
        return session.query(AuditRow).all()


def confirmed(page: httpx.Response) -> dict[str, str]:
    """Return what the button under an estimate sends."""
    hidden = {str(one["name"]): str(one["value"]) for one in elements(page, "input") if one.get("type") == "hidden"}
    return {name: hidden[name] for name in ("request", "key")}


def test_every_family_says_what_it_asks(console: Console, ready: dict[str, str]) -> None:
    page = console.get(f"/submit?model={ready['model']}&dataset={ready['dataset']}")
    told = words(page)
    for box in [one for one in elements(page, "input") if one.get("name") == "checks"]:
        assert about(str(box["value"])) in told
        assert box["aria-describedby"] in {one.get("id") for one in elements(page, "p")}
    assert "push the model's uncertainty, up and down?" in told


def test_only_families_that_fit_are_offered(console: Console, ready: dict[str, str]) -> None:
    page = console.get(f"/submit?model={ready['model']}&dataset={ready['dataset']}")
    offered = {one["value"] for one in elements(page, "input") if one.get("name") == "checks"}
    assert offered == {kind for kind, spec in families().items() if "image-classification" in spec.tasks}
    assert families_for("image-classification", "endpoint") == ["uncertainty_span", "certified_calibration"]
    assert families_for("token-classification", "archive") == ["low_level_attack"]
    assert families_for("multi-label-classification", "endpoint") == ["low_level_attack"]
    assert families_for("text-pair-classification", "archive") == ["temperature_attack", "low_level_attack"]


@pytest.mark.parametrize("task", get_args(Task))
def test_what_the_gate_runs_by_default_is_offered_as_chosen(task: str) -> None:
    (default,) = default_checks(None, task, lambda line: None)
    assert families_for(task, "archive")[0] == default.model_dump()["kind"]


def test_one_check_is_chosen_before_anybody_chooses(console: Console, ready: dict[str, str]) -> None:
    page = console.get(f"/submit?model={ready['model']}&dataset={ready['dataset']}")
    chosen = [one["value"] for one in elements(page, "input") if one.get("name") == "checks" and "checked" in one]
    assert chosen == ["uncertainty_span"]


def test_the_cost_is_shown_and_nothing_is_queued(console: Console, ready: dict[str, str]) -> None:
    page = console.post("/submit", **ready)
    assert page.status_code == 200
    body = {"model": ready["model"], "dataset": ready["dataset"], "samples": 20, "seed": 7}
    body |= {"checks": [{"kind": "uncertainty_span", "epsilon": 0.1, "steps": 5}]}
    cost = console.client.post("/v1/audits/estimate", json=body).json()
    told = words(page)
    assert f"{cost['forward_passes']:,}" in told
    assert f"{cost['backward_passes']:,}" in told
    assert re.search(r"About .* on one worker .*; expected between .* and ", told)
    assert "at most" not in told.partition("Passes and queries")[0]
    assert audits(console) == []


def test_the_button_under_the_cost_queues_what_was_shown_once(console: Console, ready: dict[str, str]) -> None:
    sent = confirmed(console.post("/submit", **{**ready, "policy": "standard"}))
    first, second = (console.post("/submit/confirmed", **sent) for _ in range(2))
    (audit,) = audits(console)
    assert first.headers["location"] == second.headers["location"] == f"/audits/{audit.id}"
    assert (audit.seed, audit.samples, audit.spec["checks"][0]["epsilon"]) == (7, 20, 0.1)
    assert audit.policy is not None
    assert audit.policy["source"]["name"] == "standard"


def test_what_was_chosen_and_typed_stays(console: Console, ready: dict[str, str]) -> None:
    page = console.post("/submit", **{**ready, "policy": "strict"})
    assert "&#34;epsilon&#34;: 0.1" in page.text
    assert '<option value="strict" selected>' in page.text
    chosen = [one["value"] for one in elements(page, "input") if one.get("name") == "checks" and "checked" in one]
    assert chosen == ["uncertainty_span"]


def test_what_is_wrong_stands_beside_its_field(console: Console, ready: dict[str, str]) -> None:
    for changed, field, reason in (
        ({"params-uncertainty_span": "{"}, "params-uncertainty_span", "not JSON"),
        ({"params-uncertainty_span": "[]"}, "params-uncertainty_span", "JSON object"),
        ({"params-uncertainty_span": '{"epsilon": -1}'}, "params-uncertainty_span", "epsilon"),
        ({"params-uncertainty_span": '{"nonsense": 1}'}, "params-uncertainty_span", "nonsense"),
        ({"samples": "many"}, "samples", "Write a whole number."),
        ({"seed": "-1"}, "seed", "whole number"),
        ({"policy": "nonsense"}, "policy", "no policy"),
        ({"baseline": "nobody"}, "baseline", ""),
    ):
        page = console.post("/submit", **{**ready, **changed})
        assert page.status_code in (400, 422), changed
        assert reason in wrong(page)[field], changed
    assert audits(console) == []
    page = console.post("/submit", **{**ready, "p-uncertainty_span-steps": "x", "params-uncertainty_span": ""})
    assert "steps: Write a whole number." in words(page)
    assert "p-uncertainty" not in words(page)


def test_a_check_must_be_chosen(console: Console, ready: dict[str, str]) -> None:
    page = console.post("/submit", **{**ready, "checks": []})
    assert page.status_code == 422
    assert "Choose at least one check." in words(page)


def test_models_and_data_of_different_tasks_are_told_apart_at_once(console: Console, ready: dict[str, str]) -> None:
    rows = b"text,label\nfine,0\nbad,1\n"
    texts = upload(console.client, "datasets", dataset_manifest(name="t", task="text-classification"), rows).json()[
        "id"
    ]
    page = console.get(f"/submit?model={ready['model']}&dataset={texts}")
    assert "The model does image-classification, the dataset is for text-classification. Choose another" in words(page)
    assert console.post("/submit", **{**ready, "dataset": texts}).status_code == 422


def test_the_newest_dataset_that_fits_the_model_is_chosen_where_nobody_chooses(console: Console) -> None:
    def stored(name: str, data: bytes, **more: str) -> str:
        return str(upload(console.client, "datasets", dataset_manifest(name=name, **more), data).json()["id"])

    def chosen(page: httpx.Response) -> list[str]:
        return [str(one["value"]) for one in elements(page, "option") if "selected" in one]

    model, _ = upload_both(console.client)
    newest_fit = stored("fits", npz(30))
    large = stored("large", npz(images=np.zeros((20, 1, 5, 5), np.uint8)))
    stored("digits", npz(labels=np.arange(20) % 10))
    stored("texts", b"text,label\nfine,0\nbad,1\n", task="text-classification")
    page = console.get(f"/submit?model={model}")
    assert chosen(page)[:2] == [model, newest_fit]
    assert "fits 1 is the newest dataset of a held-out split (test) that fits the model." in words(page)
    # However new it is, what models are trained on comes last.
    trained = stored("seen", npz(31), split="train")
    page = console.get(f"/submit?model={model}")
    assert chosen(page)[:2] == [model, newest_fit]
    assert "seen 1, train, image-classification" in words(page)
    assert "is of split train" not in words(page)
    assert "is of split train" in words(console.get(f"/submit?model={model}&dataset={trained}"))
    assert "uncertainty_span" in [one.get("value") for one in elements(page, "input")]
    # Before a model is chosen nothing is: which one fits depends on it.
    unasked = console.get("/submit")
    assert chosen(unasked) == [""]
    assert [one["value"] for one in elements(unasked, "option")][:2] == [model, ""]
    told = words(console.get(f"/submit?model={model}&dataset={large}"))
    assert "images of shape [1, 4, 4] (channels, height, width)" in told
    assert "Choose another model or dataset." in told


def test_where_no_dataset_fits_none_is_chosen_and_that_is_said(console: Console) -> None:
    model = upload(console.client, "models", model_manifest(), weights()).json()["id"]
    upload(console.client, "datasets", dataset_manifest(), npz(images=np.zeros((20, 3, 4, 4), np.uint8)))
    page = console.get(f"/submit?model={model}")
    assert [one["value"] for one in elements(page, "option") if "selected" in one][:1] == [model]
    assert "None of the datasets here fits parity 1, by task (image-classification), shape" in words(page)
    assert not [one for one in elements(page, "input") if one.get("name") == "checks"]


def test_a_model_that_is_still_checked_has_no_seconds(console: Console) -> None:
    model, dataset = upload_both(console.client)
    told = {"model": model, "dataset": dataset, "checks": "uncertainty_span", "params-uncertainty_span": SPAN}
    page = console.post("/submit", **told)
    assert "has not been measured yet" in words(page)


def test_rejected_models_and_those_of_others_are_not_offered(locked: Console) -> None:
    key = {"Authorization": f"Bearer {locked.key('run', 'others')}"}
    foreign = upload(locked.client, "models", model_manifest(name="foreign"), weights(), headers=key).json()["id"]
    upload(locked.client, "datasets", dataset_manifest(), npz(), headers=key)
    locked.log_in()
    page = locked.get(f"/submit?model={foreign}")
    assert "upload a model and upload a dataset first" in words(page)
    assert "foreign" not in page.text


def test_a_rejected_model_is_not_offered(console: Console, ready: dict[str, str]) -> None:
    rejected = upload(console.client, "models", model_manifest(name="broken"), weights()).json()["id"]
    with console.services.database.write() as session:
        row = session.get_one(ModelRow, rejected)
        row.problem = {"code": "x", "title": "Wrong", "detail": "The weights do not fit.", "field": None}
        session.execute(ModelRow.__table__.update().where(ModelRow.id == rejected).values(state="rejected"))  # type: ignore[attr-defined]
    assert "broken" not in console.get("/submit").text
    page = console.post("/submit", **{**ready, "model": rejected})
    assert "The weights do not fit." in words(page)


def test_what_was_confirmed_is_checked_again(console: Console, ready: dict[str, str]) -> None:
    for request in ("", "{", '{"model": "mdl_x", "dataset": "dat_x", "checks": []}'):
        assert console.post("/submit/confirmed", request=request, key="\0").status_code in (400, 422)
    assert audits(console) == []
