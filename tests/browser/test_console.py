"""The console in a real browser without a network: its main flows, clicked through; its pages, looked at."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import psutil
import pytest
from PIL import Image

from seatrial.store.artifacts import open_store
from seatrial.store.ids import new_id
from seatrial.store.outbox import enqueue
from seatrial.store.tables import AuditRow, DeliveryRow, ProjectRow, WebhookRow
from seatrial.store.tables.base import utc_now
from tests import assets
from tests.browser.axe import violations
from tests.browser.conftest import Server
from tests.client.test_serve import Serving
from tests.console import seeding
from tests.console.driving import Tab
from tests.console.seeding import HOSTILE
from tests.reports import fabricated
from tests.servers import eventually

pytestmark = pytest.mark.slow

KEY = "operator-key-of-a-test-0123456789abcdef"

UNLABELLED = """[...document.querySelectorAll('input:not([type=hidden]), select, textarea')]
  .filter(one => !one.labels.length).map(one => one.outerHTML)"""

# WCAG 2.2, 1.4.3: 4.5 to 1, or 3 to 1 for large text.
PALE = """(() => {
  const numbers = text => text.match(/[\\d.]+/g).map(Number);
  const light = ([r, g, b]) => [r, g, b].map(v => v / 255)
    .map(v => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4)
    .reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
  const behind = one => {
    for (; one; one = one.parentElement) {
      const colour = numbers(getComputedStyle(one).backgroundColor);
      if (colour.length < 4 || colour[3] > 0) return colour;
    }
    return [255, 255, 255];
  };
  const pale = [];
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  for (let node; (node = walker.nextNode());) {
    const one = node.parentElement, style = getComputedStyle(one);
    if (!node.data.trim() || !one.checkVisibility() || one.closest('svg, noscript')) continue;
    const [a, b] = [light(numbers(style.color)), light(behind(one))].sort((x, y) => y - x);
    const size = parseFloat(style.fontSize), isLarge = size >= 24 || (size >= 18.66 && style.fontWeight >= 700);
    if ((a + 0.05) / (b + 0.05) < (isLarge ? 3 : 4.5)) pale.push([node.data.trim(), (a + 0.05) / (b + 0.05)]);
  }
  return pale;
})()"""


# On a narrow page a cell's label stands beside it, and may take several lines.
CROWDED = """[...document.querySelectorAll('.cards td[data-label]')]
  .filter(one => one.checkVisibility() && parseFloat(getComputedStyle(one, '::before').height) > one.clientHeight)
  .map(one => one.dataset.label)"""


@pytest.fixture
def serving(tmp_path: Path) -> Iterator[Serving]:
    """A service with a worker, as a person starts it, that wants keys."""
    running = Serving(tmp_path, SEATRIAL_REQUIRE_KEYS="true", SEATRIAL_BOOTSTRAP_KEY=KEY, SEATRIAL_POLL_S="0.05")
    eventually(running.is_ready, what="the service")
    yield running
    running.close()


def is_held(worker: psutil.Process, database: Path) -> bool:
    """Stop a worker where it keeps nobody from writing, or let it go on: stopped in a transaction it would keep all."""
    worker.suspend()
    try:
        with closing(sqlite3.connect(database, timeout=0.1, isolation_level=None)) as connection:
            connection.execute("BEGIN IMMEDIATE")
    except sqlite3.OperationalError:
        worker.resume()
        return False
    return True


def colours(path: Path) -> int:
    """Return how many colours a picture has: a blank page has one."""
    with Image.open(path) as picture:
        return len(picture.convert("RGB").getcolors(maxcolors=2**24) or ())


def test_a_person_takes_a_model_to_its_verdict(tab: Tab, serving: Serving, tmp_path: Path) -> None:
    tab.goto(f"{serving.url}/models")
    assert tab.value("location.pathname") == "/login"
    tab.fill("#key", "sea_wrong")
    tab.press("main button")
    assert "not valid" in tab.text()
    tab.fill("#key", KEY)
    tab.press("main button")
    assert tab.value("location.pathname") == "/models"
    assert not tab.value("document.cookie"), "a script can read the session"
    tab.complaints.clear()

    weights, examples = tmp_path / "digits.safetensors", tmp_path / "digits.npz"
    weights.write_bytes(assets.weights())
    examples.write_bytes(assets.npz())
    tab.fill("#architecture", "layers")
    for field, text in {
        "name": "digits-cnn",
        "version": "not a version",
        "layers": str(assets.LAYERS).replace("'", '"'),
        "shape": "1, 8, 8",
        "labels": "\n".join(map(str, range(10))),
    }.items():
        tab.fill(f"#{field}", text)
    assert tab.value("document.querySelector('#depth').checkVisibility()") is False
    tab.attach("#file", weights)
    tab.value("window.mark = true; document.querySelector('main form[method=post] button').click()")
    tab.wait("document.activeElement.id === 'wrong'")
    assert "Version: Use letters" in tab.text("#wrong")
    assert tab.value("window.mark && document.querySelector('#version').getAttribute('aria-invalid')") == "true"
    assert tab.value("document.querySelector('#depth').checkVisibility()") is False
    tab.complaints.clear()
    tab.fill("#version", "1")
    # The file is still chosen.
    tab.press("main form[method=post] button")
    assert "The model is stored" in tab.text()

    tab.goto(f"{serving.url}/datasets")
    tab.fill("#name", "digits")
    tab.fill("#version", "1")
    tab.attach("#file", examples)
    tab.press("main form[method=post] button")
    assert tab.value("location.pathname").startswith("/datasets/dat_")
    assert "digits 1" in tab.text()

    tab.goto(f"{serving.url}/models")
    eventually(
        lambda: (tab.goto(f"{serving.url}/models"), "ready" in tab.text("table"))[1], every_s=0.3, what="the check"
    )
    tab.goto(f"{serving.url}/submit")
    tab.press("main form[method=get] button")
    assert tab.value("document.querySelector('#check-uncertainty_span').checked"), "what the gate runs is chosen"
    # Long enough for the page to be asked for its parts several times on the fastest machine: once in 0.7 s at most.
    tab.fill("#p-uncertainty_span-epsilon", "0.1")
    tab.fill("#p-uncertainty_span-steps", "100")
    tab.fill("#p-uncertainty_span-effort", "quick")
    tab.fill("#samples", "50")
    tab.fill("#policy", "lenient")
    tab.press("main form[action='/submit'][method=post] button")
    told = tab.text("#cost + p")
    assert "on one worker" in told
    # The audit begins once the page is watched, however fast the worker is.
    (worker,) = serving.workers()
    eventually(lambda: is_held(worker, tmp_path / "seatrial.db"), what="the worker between two transactions")
    tab.press("form[action='/submit/confirmed'] button")

    assert "The audit is" in tab.text("#live-status")
    assert "uncertainty_span" in tab.text("[data-events]")
    # What changes from here on, changes without the page being loaded again: the mark stays.
    tab.value("window.seen = []; window.mark = true; 1")
    tab.value(
        "new MutationObserver(() => seen.push(document.querySelector('[data-events]')?.innerText))"
        ".observe(document.querySelector('[data-events]'), {childList: true, subtree: true}); 1"
    )
    worker.resume()
    tab.wait("window.mark && new Set(seen).size >= 2", timeout_s=180)
    # Once it is judged, the page is loaded anew.
    tab.wait("!window.mark && document.querySelector('#verdict')", timeout_s=240)
    assert "lenient" in tab.text()
    assert tab.value("document.querySelectorAll('.figures img').length") > 0
    tab.wait("[...document.images].every(one => one.complete && one.naturalWidth > 0)")
    assert tab.complaints == []

    tab.press("a[href$='/report']")
    tab.wait("document.body?.innerText.includes('Numbers')")
    tab.goto(serving.url)
    assert "finished" in tab.text("table")
    tab.press(".who button")
    assert tab.value("location.pathname") == "/login"
    tab.goto(serving.url)
    assert tab.value("location.pathname") == "/login"
    assert tab.complaints == []


def _webhook(server: Server) -> str:
    """Return the id of a webhook that nobody is told by, and that was told before."""
    with server.database.write() as session:
        project = session.query(ProjectRow).filter_by(name="default").one().id
        row = WebhookRow(
            id=new_id("whk"), project_id=project, url=f"https://example.com/{HOSTILE}", events=["*"], is_enabled=True
        )
        row.description, row.secrets = HOSTILE, []
        session.add(row)
        session.flush()
        told = session.get_one(DeliveryRow, enqueue(session, row.id, "ping", {"webhook": HOSTILE}))
        told.status, told.finished_at, row.is_enabled = "failed", utc_now(), False
        told.log = [{"at": "2026-11-20T10:00:00Z", "status": None, "ms": 12, "error": HOSTILE}]
        return row.id


@pytest.fixture
def pages(server: Server) -> list[str]:
    """Every page that shows something, over audits in which everything a stranger may have said is hostile."""
    store = open_store(server.settings)
    named = {"name": HOSTILE, "manifest": {"labels": [HOSTILE, "b"], "architecture": {"kind": HOSTILE}}}
    flag = {"code": "zero_gradients", "severity": "warning", "message": HOSTILE}
    first = seeding.finished(server.database, store, model=named, audit={"verdict": "passed"})
    more = {"dataset_of": first, "flags": [flag]}
    second = seeding.finished(server.database, store, model={**named, "version": "4"}, under=1.1, **more)
    running = seeding.running(server.database, store, model={**named, "version": "5"}, dataset_of=first)
    # One whose name an address can hold.
    seeding.finished(server.database, store, dataset_of=first)
    fabricated.change(server.database, first, dataset={"name": HOSTILE})
    plans = [seeding.planned(server.database, first, fails=kind) for kind in (None, "audit")]
    with server.database.read() as session:
        row = session.get_one(AuditRow, first)
        dataset, chosen = row.dataset_id, f"model={row.model_id}&dataset={row.dataset_id}"
    paths = ["/", f"/audits/{second}", f"/audits/{running}", f"/compare?a={first}&b={second}", "/models", "/datasets"]
    paths += [f"/datasets/{dataset}"]
    paths += ["/policies", "/policies/strict", f"/submit?{chosen}", "/models/cifar-resnet20/history"]
    paths += ["/webhooks", f"/webhooks/{_webhook(server)}", "/project"]
    paths += ["/plans", *(f"/plans/{plan}" for plan in plans)]
    return [server.url + path for path in paths]


def test_pages_fit_every_window_and_can_be_read_in_light_and_dark(tab: Tab, pages: list[str], tmp_path: Path) -> None:
    for url in pages:
        for width, dark in ((1200, False), (400, False), (1200, True)):
            tab.look(width=width, dark=dark)
            tab.goto(url)
            assert tab.value("document.documentElement.scrollWidth") <= width, (url, width)
            assert tab.value(PALE) == [], (url, width, dark)
            assert width > 400 or tab.value(CROWDED) == [], url
            assert width > 400 or violations(tab) == [], url
        assert colours(tab.picture(tmp_path / "page.png")) > 20, url
        assert tab.value(UNLABELLED) == [], url
        assert tab.value("document.querySelectorAll('h1, main, header, html[lang=en]').length") == 4, url
        headers = "[...document.querySelectorAll('table')].every(one => one.caption && one.querySelector('th[scope]'))"
        assert tab.value(headers), url
    # No script of a name ran, no dialog opened, no policy was broken.
    assert tab.complaints == []


def test_a_page_is_used_with_the_keyboard_alone(tab: Tab, pages: list[str]) -> None:
    tab.goto(pages[0])
    tab.key("Tab")
    assert tab.value("document.activeElement.className") == "skip"
    assert tab.value("document.activeElement.getBoundingClientRect().left >= 0"), "the skip link stays unseen"
    tab.key("Enter")
    assert tab.value("document.activeElement.id") == "main"
    seen = set()
    for _ in range(8):
        tab.key("Tab")
        outline = "getComputedStyle(document.activeElement).outlineStyle + document.activeElement.tagName"
        told = str(tab.value(outline))
        assert not told.startswith("none"), told
        seen.add(told)
    assert {"solidA", "solidSELECT", "solidBUTTON"} <= seen


def test_without_scripts_a_live_page_asks_to_be_loaded_again(tab: Tab, pages: list[str]) -> None:
    tab.call("Emulation.setScriptExecutionDisabled", value=True)
    try:
        tab.goto(pages[2])
        html = tab.call("Runtime.evaluate", expression="document.head.innerHTML", returnByValue=True)["result"]["value"]
        assert '<meta http-equiv="refresh" content="5">' in html
    finally:
        tab.call("Emulation.setScriptExecutionDisabled", value=False)
