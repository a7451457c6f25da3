"""Names, labels, texts, files and policies that would like to be a page's own words."""

import json

import pytest

from seatrial.store.tables import AuditRow, ProjectRow
from tests.console import seeding
from tests.console.conftest import Console, elements, words
from tests.console.seeding import HOSTILE
from tests.console.test_uploads import DATASET, MODEL
from tests.reports import fabricated
from tests.uploads import npz, weights

FLAG = {"code": "zero_gradients", "severity": "warning", "message": HOSTILE}
PROBLEM = {"code": "broken", "title": HOSTILE, "detail": HOSTILE, "field": HOSTILE}


@pytest.fixture
def audits(console: Console) -> tuple[str, str]:
    """Two audits in which everything a stranger may have said is hostile."""
    labels = {"labels": [HOSTILE, "b"], "architecture": {"kind": HOSTILE}}
    named = {"name": HOSTILE, "version": HOSTILE, "manifest": labels, "problem": PROBLEM}
    first = console.finished(model=named, flags=[FLAG])
    second = console.finished(model={**named, "version": HOSTILE + "2"}, dataset_of=first, flags=[FLAG])
    data = {"name": HOSTILE, "version": HOSTILE, "split": HOSTILE, "manifest": {"labels": [HOSTILE]}}
    for audit in (first, second):
        fabricated.change(console.services.database, audit, dataset=data, audit={"error": PROBLEM})
    fabricated.change(console.services.database, second, check={"error": PROBLEM})
    return first, second


def assert_inert(text: str) -> None:
    assert "<script>alert" not in text
    assert "<img src=x" not in text
    assert "</style>" not in text


def test_every_page_shows_it_as_text(console: Console, audits: tuple[str, str]) -> None:
    policy = {
        "name": "hostile",
        "description": HOSTILE,
        "rules": [{"metric": "uncertainty_span.mus", "max": 1, "label": HOSTILE}],
    }
    assert console.post("/policies", document=json.dumps(policy)).status_code == 303
    first, second = audits
    plan = seeding.planned(console.services.database, first, fails="audit")
    assert console.post(f"/audits/{second}/judge", policy="hostile").status_code == 303
    with console.services.database.write() as session:
        session.query(ProjectRow).filter_by(name="default").update({"name": HOSTILE})
        model = session.get_one(AuditRow, first).model_id
        dataset = session.get_one(AuditRow, first).dataset_id
    try:
        for path, says_it in {
            "/": True,
            f"/audits/{first}": True,
            f"/audits/{second}": True,
            f"/audits/{first}/progress": False,
            f"/compare?a={first}&b={second}": True,
            "/models": True,
            "/datasets": True,
            "/plans": True,
            f"/plans/{plan}": True,
            f"/plans/{plan}/progress": True,
            "/policies": True,
            "/policies/hostile": True,
            f"/submit?model={model}&dataset={dataset}": True,
        }.items():
            page = console.get(path)
            assert page.status_code == 200, path
            assert_inert(page.text)
            scripts = elements(page, "script")
            assert [one["src"] for one in scripts] == (["/console/console.js"] if "/progress" not in path else [])
            assert not [one for one in elements(page) for name in one if name.startswith("on")], path
            # Every character arrives, as text.
            assert (HOSTILE in words(page)) == says_it, path
    finally:
        with console.services.database.write() as session:
            session.query(ProjectRow).filter_by(name=HOSTILE).update({"name": "default"})


def test_addresses_are_text_too(console: Console, audits: tuple[str, str]) -> None:
    for path in (
        f"/models/{HOSTILE.replace('/', '')}/history",
        f"/compare?a={HOSTILE}&b=",
        f"/submit?model={HOSTILE}&dataset={HOSTILE}",
        f"/?state={HOSTILE}&model={HOSTILE}&verdict={HOSTILE}&cursor=",
        f"/login?next={HOSTILE}",
    ):
        page = console.get(path.replace("#", "%23").replace("&{", "%26{"))
        assert page.status_code in (200, 303, 404, 422), path
        assert_inert(page.text)


def test_what_a_form_is_sent_comes_back_as_text(console: Console) -> None:
    files = {"file": (f"{HOSTILE}.safetensors", b"<html>" + HOSTILE.encode())}
    for path, fields in (("/models", MODEL), ("/datasets", DATASET)):
        page = console.post(path, files=files, **{**fields, "name": HOSTILE, "labels": HOSTILE})
        assert page.status_code >= 400
        assert_inert(page.text)
        assert HOSTILE in [one.get("value") for one in elements(page, "input")]
    for path, field in (("/policies", "document"), ("/submit", "samples"), ("/submit", "policy"), ("/submit", "model")):
        page = console.post(path, checks="uncertainty_span", **{field: HOSTILE})
        assert page.status_code >= 400, path
        assert_inert(page.text)


def test_a_text_cannot_end_the_field_it_stands_in(console: Console) -> None:
    page = console.post("/policies", document="name: </textarea><script>alert(3)</script>")
    assert page.text.count("</textarea>") == 1
    assert "&lt;/textarea&gt;" in page.text


def test_hostile_labels_and_file_names_are_stored_and_shown_as_text(console: Console) -> None:
    files = {"file": (f"{HOSTILE}.safetensors", weights())}
    assert console.post("/models", files=files, **{**MODEL, "labels": f"{HOSTILE}\nodd"}).status_code == 303
    assert console.post("/datasets", files={"file": (HOSTILE, npz())}, **DATASET).status_code == 303
    page = console.get("/models")
    assert_inert(page.text)
    assert HOSTILE in words(page)


def test_characters_nobody_sees_are_written_out(console: Console) -> None:
    console.finished(model={"name": "safe\u202egnp\u200b", "version": "1"})
    page = console.get("/")
    assert "\u202e" not in page.text.replace("<option", "").split("</form>", 1)[1]
    assert "U+202E" in words(page)
