"""What only a browser shows: sentences in one piece, fields in line, and forms whose Enter key estimates."""

from pathlib import Path
from typing import Any

import httpx
import pytest

from seatrial.contracts.states import ModelState
from seatrial.store.artifacts import open_store
from seatrial.store.tables import AuditRow, ModelRow
from seatrial.store.transitions import move
from tests.audits.acting import FACTS
from tests.browser.axe import violations
from tests.browser.conftest import Server, Tab
from tests.console import seeding
from tests.uploads import upload_both

BESIDE = """(() => {
  const boxes = [...document.querySelectorAll('main form.row .field')].map(one => ({
    top: one.getBoundingClientRect().top, field: one.querySelector('input, select').getBoundingClientRect(),
    label: one.querySelector('label').getBoundingClientRect().top }));
  const rows = Map.groupBy(boxes, one => Math.round(one.field.bottom));
  return [...rows.values()].every(row => new Set(row.map(one => Math.round(one.label))).size === 1);
})()"""
CUT = """[...document.querySelectorAll('main form.row select')].filter(one => {
  const style = getComputedStyle(one), pen = document.createElement('canvas').getContext('2d');
  pen.font = style.font;
  const words = pen.measureText(one.selectedOptions[0].text).width;
  return words + parseFloat(style.paddingLeft) + parseFloat(style.paddingRight) + 16 > one.clientWidth;
}).map(one => one.selectedOptions[0].text)"""


@pytest.fixture
def form(server: Server) -> str:
    """Address of a form that can be estimated."""
    with httpx.Client(base_url=server.url) as client:
        model, dataset = upload_both(client)
    with server.database.write() as session:
        move(session, ModelRow, ModelState.READY, ModelRow.state == ModelState.CHECKING, facts=FACTS)
    return f"{server.url}/submit?model={model}&dataset={dataset}"


def test_enter_estimates_and_the_cost_reads_as_a_sentence(tab: Tab, form: str, tmp_path: Path) -> None:
    tab.goto(form)
    assert tab.value("document.querySelector('main form button').checkVisibility()") is False
    tab.value("document.querySelector('#seed').focus()")
    tab.key("Enter")
    tab.wait("document.querySelector('#cost')")
    # Its styles may come after its words.
    tab.wait("getComputedStyle(document.querySelector('td[data-label=Queries]')).textAlign === 'right'")
    sentence = "document.querySelector('#cost ~ p.lead')"
    # On the line of the words around them.
    assert tab.value(f"[...{sentence}.querySelectorAll('strong')].map(one => getComputedStyle(one).display)") == [
        "inline"
    ] * tab.value(f"{sentence}.querySelectorAll('strong').length")
    assert tab.complaints == []


def test_filters_stand_in_line_and_are_not_cut(tab: Tab, server: Server) -> None:
    store = open_store(server.settings)
    first = seeding.finished(server.database, store, audit={"verdict": "passed"})
    second = seeding.finished(server.database, store, model={"version": "4"}, dataset_of=first)
    with server.database.read() as session:
        dataset = session.get_one(AuditRow, first).dataset_id
    for path in (
        f"/leaderboard?dataset={dataset}&check=uncertainty_span",
        "/search",
        f"/compare?a={first}&b={second}",
        f"/audits/{first}",
    ):
        tab.goto(server.url + path)
        assert tab.value(BESIDE), path
        assert tab.value(CUT) == [], path


def test_a_model_that_is_checked_is_followed_and_the_form_below_is_left_alone(tab: Tab, server: Server) -> None:
    with httpx.Client(base_url=server.url) as client:
        upload_both(client)
    tab.goto(f"{server.url}/models")
    tab.fill("#name", "half-typed")
    assert "checking" in tab.text("table")
    with server.database.write() as session:
        move(session, ModelRow, ModelState.READY, ModelRow.state == ModelState.CHECKING, facts=FACTS)
    tab.wait("document.querySelector('main table').innerText.includes('ready')")
    assert tab.value("document.querySelector('#name').value") == "half-typed"
    assert tab.complaints == []


def test_a_policy_about_checks_offers_to_fill_them_in(tab: Tab, server: Server, form: str) -> None:
    policy: dict[str, Any] = {"name": "release", "rules": [{"metric": "uncertainty_span.mus_worst", "max": 0.5}]}
    policy["checks"] = [{"kind": "uncertainty_span", "steps": 6}]
    with httpx.Client(base_url=server.url) as client:
        assert client.post("/v1/policies", json=policy).status_code == 201
    hidden = "document.querySelector('[data-of=policy]').hidden"
    for width, dark in ((1200, False), (400, True)):
        tab.look(width=width, dark=dark)
        tab.goto(form)
        # Of a policy that is about whatever was run there is nothing to fill in.
        assert tab.value(hidden) is True
        tab.fill("#policy", "release")
        assert tab.value(hidden) is False
        assert violations(tab) == []
        assert tab.value("document.documentElement.scrollWidth") <= width
        tab.press("button[name=fill]")
        assert tab.value("document.querySelector('#p-uncertainty_span-steps').value") == "6"
        assert tab.value("document.querySelector('#policy').value") == "release"
    assert tab.complaints == []
