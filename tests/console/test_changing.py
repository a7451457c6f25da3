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
    assert words(page).count("has 20 examples: all are audited, where 99,999 were asked for.") == 1
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


OWN = {
    "name": "release",
    "rules": [{"metric": "uncertainty_span.mus_worst", "max": 0.5}],
    "checks": [{"kind": "uncertainty_span", "epsilon": 0.1, "steps": 6}],
}


def test_a_policy_fills_in_the_checks_it_is_about(console: Console, ready: dict[str, str]) -> None:
    assert console.client.post("/v1/policies", json=OWN).status_code == 201
    page = console.get(f"/submit?model={ready['model']}&dataset={ready['dataset']}")
    (button,) = [one for one in elements(page, "button") if one.get("name") == "fill"]
    place = next(one for one in elements(page, "div") if one.get("data-of") == "policy")
    # Shipped ones are about whatever was run.
    assert (button["value"], place["data-for"]) == ("yes", "release")
    typed = {**sent_by(page), "model": ready["model"], "dataset": ready["dataset"], "policy": "release"}
    typed |= {"params-uncertainty_span": '{"epsilon": 0.3}', "checks": "certified_calibration"}
    filled = console.post("/submit", **typed, fill="yes")
    assert (field(filled, "p-uncertainty_span-epsilon"), field(filled, "p-uncertainty_span-steps")) == ("0.1", "6")
    chosen = [one["value"] for one in elements(filled, "input") if one.get("name") == "checks" and "checked" in one]
    assert chosen == ["uncertainty_span"]
    asked = json.loads(
        request_of(console.post("/submit", **sent_by(filled), model=ready["model"], dataset=ready["dataset"]))
    )
    assert [(one["epsilon"], one["steps"]) for one in asked["checks"]] == [(0.1, 6)]
    assert asked["policy"] == "release"


def test_another_check_than_the_policy_is_about_is_said_before_it_is_paid_for(
    console: Console, ready: dict[str, str]
) -> None:
    assert console.client.post("/v1/policies", json=OWN).status_code == 201
    asked = {"epsilon": 0.1, "steps": 6}
    given = {**ready, "checks": "uncertainty_span", "policy": "release"}
    page = console.post("/submit", **given, **{"params-uncertainty_span": json.dumps({**asked, "steps": 5})})
    told = words(page)
    assert (
        "Rules about uncertainty_span will be errored: the policy is about another check (steps is 5 and not 6" in told
    )
    page = console.post("/submit", **given, **{"params-uncertainty_span": json.dumps(asked)})
    assert "Estimated cost" in words(page)
    assert "will be errored" not in words(page)


def test_the_page_of_a_policy_leads_to_its_checks(console: Console, ready: dict[str, str]) -> None:
    assert console.client.post("/v1/policies", json=OWN).status_code == 201
    links = [one.get("href") for one in elements(console.get("/policies/release"), "a")]
    assert "/submit?policy=release%401" in links
    page = console.get(f"/submit?policy=release%401&model={ready['model']}&dataset={ready['dataset']}")
    assert field(page, "p-uncertainty_span-steps") == "6"
    assert '<option value="release@1" selected>' in page.text
    assert "/submit?policy=strict" not in [one.get("href") for one in elements(console.get("/policies/strict"), "a")]
    assert console.get("/submit?policy=nowhere").status_code == 422


def test_an_audit_is_submitted_again_with_a_policy_nobody_stored(console: Console, ready: dict[str, str]) -> None:
    body = submission(ready["model"], ready["dataset"], checks=OWN["checks"], policy=OWN)
    audit = console.client.post("/v1/audits", json=body).json()["id"]
    page = console.get(f"/submit?audit={audit}")
    assert f'<option value="{audit}" selected>release, not stored: that of the audit submitted again' in page.text
    posted = console.post("/submit", **sent_by(page), model=ready["model"], dataset=ready["dataset"])
    asked = json.loads(request_of(posted))
    assert asked["policy"]["name"] == "release"
    assert [rule["max"] for rule in asked["policy"]["rules"]] == [0.5]
    assert [(one["epsilon"], one["steps"]) for one in asked["policy"]["checks"]] == [(0.1, 6)]


def test_an_audit_is_submitted_again_with_the_version_it_was_judged_by(console: Console, ready: dict[str, str]) -> None:
    assert console.client.post("/v1/policies", json=OWN).status_code == 201
    audit = console.client.post(
        "/v1/audits", json=submission(ready["model"], ready["dataset"], policy="release")
    ).json()["id"]
    assert '<option value="release" selected>' in console.get(f"/submit?audit={audit}").text
    later = {**OWN, "rules": [{"metric": "uncertainty_span.mus_worst", "max": 0.4}]}
    assert console.client.post("/v1/policies", json=later).json()["version"] == 2
    assert '<option value="release@1" selected>' in console.get(f"/submit?audit={audit}").text
