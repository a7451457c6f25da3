"""The form of an audit is one: what is chosen last counts, what was typed stays, and an audit can be asked again."""

import json
from html.parser import HTMLParser

import httpx
import pytest

from seatrial.store.tables import AuditRow
from tests.audits.acting import make_ready
from tests.console.conftest import Console, elements, words
from tests.uploads import dataset_manifest, npz, submission, upload, upload_both


@pytest.fixture
def ready(console: Console) -> dict[str, str]:
    """The fields of a form that fits."""
    model, dataset = upload_both(console.client)
    make_ready(console.services)
    return {"model": model, "dataset": dataset, "checks": "uncertainty_span", "samples": "20", "seed": "7"}


def request_of(page: httpx.Response) -> str:
    """Return the request that the button under an estimate sends."""
    return next(str(one["value"]) for one in elements(page, "input") if one.get("name") == "request")


def field(page: httpx.Response, name: str) -> str | None:
    """Return what stands in a field."""
    return next(one.get("value") for one in elements(page, "input") if one.get("name") == name)


class _Form(HTMLParser):
    """What a browser would send of the parameters in a page's forms."""

    def __init__(self) -> None:
        super().__init__()
        self.sent: dict[str, list[str]] = {}
        self.name = ""
        self.is_typed = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        told = dict(attrs)
        if tag in ("select", "textarea"):
            self.name, self.is_typed = str(told.get("name")), tag == "textarea"
        is_sent = tag == "input" and (told.get("type") != "checkbox" or "checked" in told)
        if is_sent or (tag == "option" and "selected" in told):
            self.sent.setdefault(str(told.get("name") if tag == "input" else self.name), []).append(told["value"] or "")

    def handle_endtag(self, tag: str) -> None:
        self.is_typed = self.is_typed and tag != "textarea"

    def handle_data(self, data: str) -> None:
        if self.is_typed and data.strip():
            self.sent.setdefault(self.name, []).append(data.strip())


def sent_by(page: httpx.Response) -> dict[str, list[str]]:
    parsed = _Form()
    parsed.feed(page.text)
    return {name: values for name, values in parsed.sent.items() if name not in ("model", "dataset")}


def stored(console: Console, name: str, data: bytes, **more: str) -> str:
    return str(upload(console.client, "datasets", dataset_manifest(name=name, **more), data).json()["id"])


def test_another_dataset_is_what_is_estimated_and_submitted(console: Console, ready: dict[str, str]) -> None:
    other = stored(console, "other", npz(30))
    page = console.get(f"/submit?model={ready['model']}&dataset={ready['dataset']}")
    # One form: nothing that is sent repeats the dataset of before.
    names = [one.get("name") for tag in ("select", "input") for one in elements(page, tag)]
    assert (names.count("model"), names.count("dataset")) == (1, 1)
    page = console.post("/submit", **{**ready, "dataset": other})
    assert "Estimated cost: parity 1 on other 1" in words(page)
    assert f'"dataset":"{other}"' in request_of(page)
    # Left to the page, it is the newest that fits, and it is named.
    page = console.post("/submit", **{**ready, "dataset": ""})
    assert f'"dataset":"{other}"' in request_of(page)
    assert "Estimated cost: parity 1 on other 1" in words(page)


def test_showing_the_checks_of_another_choice_keeps_what_was_typed(console: Console, ready: dict[str, str]) -> None:
    other = stored(console, "other", npz(30))
    typed = {"samples": "17", "p-uncertainty_span-epsilon": "4/255", "change": "yes", "policy": "strict"}
    page = console.post("/submit", **{**ready, **typed, "dataset": other})
    assert page.status_code == 200
    assert "Estimated cost" not in words(page)
    assert (field(page, "samples"), field(page, "p-uncertainty_span-epsilon")) == ("17", "4/255")
    assert "2. Checks of parity 1 on other 1" in words(page)
    # A dataset that does not fit shows no checks; what was typed waits, not shown, for one that does.
    texts = stored(console, "texts", b"text,label\nfine,0\nbad,1\n", task="text-classification")
    page = console.post("/submit", **{**ready, **typed, "dataset": texts})
    assert "Choose another model or dataset." in words(page)
    hidden = {str(one["name"]): str(one["value"]) for one in elements(page, "input") if one.get("type") == "hidden"}
    assert "change" not in hidden
    page = console.post("/submit", **{**hidden, "model": ready["model"], "dataset": other, "change": "yes"})
    assert (field(page, "samples"), field(page, "p-uncertainty_span-epsilon")) == ("17", "4/255")
    assert '<option value="strict" selected>' in page.text


def test_more_examples_than_there_are_is_said(console: Console, ready: dict[str, str]) -> None:
    page = console.post("/submit", **{**ready, "samples": "99999"})
    assert "99,999 examples were asked for; the dataset has 20, and all of them are audited." in words(page)
    assert "were asked for" not in words(console.post("/submit", **ready))


def test_an_audit_is_submitted_again_with_its_settings(console: Console, ready: dict[str, str]) -> None:
    check = {"kind": "uncertainty_span", "epsilon": 4 / 255, "steps": 7}
    body = submission(ready["model"], ready["dataset"], checks=[check], samples=16, seed=5, policy="strict")
    audit = console.client.post("/v1/audits", json={**body, "batch_size": 8}).json()["id"]
    assert f"/submit?audit={audit}" in [one.get("href") for one in elements(console.get(f"/audits/{audit}"), "a")]
    page = console.get(f"/submit?audit={audit}")
    assert (field(page, "samples"), field(page, "seed")) == ("16", "5")
    assert (field(page, "p-uncertainty_span-epsilon"), field(page, "p-uncertainty_span-steps")) == ("4/255", "7")
    assert '<option value="strict" selected>' in page.text
    assert "Its batch_size was 8; the form leaves it at its default." in words(page)
    # As it stands in the form it asks for the same.
    posted = console.post("/submit", **sent_by(page), model=ready["model"], dataset=ready["dataset"])
    with console.services.database.read() as session:
        spec = session.get_one(AuditRow, audit).spec
    asked = json.loads(request_of(posted))
    assert (asked["checks"], asked["policy"], asked["samples"]) == (spec["checks"], "strict", 16)
    assert console.get("/submit?audit=aud_nothing").status_code == 404
