"""/docs and a report in a real browser that has no network."""

from pathlib import Path

import httpx
import numpy as np
import pytest
from PIL import Image

from app.web.samples import FILES
from seatrial.store.artifacts import open_store
from seatrial.store.tables import AuditRow, ProjectRow
from tests.browser.axe import violations
from tests.browser.conftest import Server, Tab
from tests.reports import fabricated

pytestmark = pytest.mark.slow


@pytest.fixture
def report_url(server: Server) -> str:
    """A report full of hostile names, on the server."""
    audit_id = fabricated.finished(server.database, open_store(server.settings))
    fabricated.change(server.database, audit_id, dataset={"name": fabricated.HOSTILE})
    with server.database.write() as session:
        project = session.get_one(ProjectRow, session.get_one(AuditRow, audit_id).project_id)
        session.query(ProjectRow).filter_by(name="default").update({"name": "was-default"})
        session.flush()
        project.name = "default"
    return f"{server.url}/v1/audits/{audit_id}/report"


def colours(path: Path) -> int:
    """Return how many colours a picture has: a blank page has one."""
    with Image.open(path) as picture:
        return len(np.unique(np.asarray(picture.convert("RGB")).reshape(-1, 3), axis=0))


def run_step(tab: Tab, step: str, operation: str, file: Path | None = None) -> None:
    """Take a step of the walk through an audit: open its operation, choose a file where one is wanted, and execute."""
    tab.value(f"document.querySelector('[data-step={step}] a').click()")
    tab.wait(f"document.querySelector('#{operation} .execute')")
    # An operation is drawn again while its schemas are looked up, and would lose the file.
    tab.settle()
    if file is not None:
        tab.attach(f"#{operation} input[type=file]", file)
    tab.value(f"document.querySelector('#{operation} .execute').click()")
    tab.wait(f"document.querySelector('[data-step={step}].done')")


def test_an_audit_is_submitted_from_the_documentation_as_its_examples_stand(
    tab: Tab, server: Server, tmp_path: Path
) -> None:
    tab.look(dark=True)
    tab.goto(f"{server.url}/docs")
    tab.wait("document.querySelectorAll('.opblock').length >= 15")
    page = tab.html()
    for path in ("/v1/audits/{audit_id}/report", "/v1/models", "/v1/datasets", "/v1/keys"):
        assert f'data-path="{path}"' in page
    assert "Failed to load" not in page
    assert colours(tab.picture(tmp_path / "docs.png")) > 50
    for name in FILES:
        (tmp_path / name).write_bytes(httpx.get(f"{server.url}/docs/samples/{name}").content)
    run_step(tab, "model", "operations-models-upload_model", tmp_path / "stripes.safetensors")
    tab.value("document.querySelector('#operations-models-upload_model .opblock-control-arrow').click()")
    run_step(tab, "dataset", "operations-datasets-upload_dataset", tmp_path / "stripes.npz")
    tab.settle()
    assert violations(tab) == []
    tab.value("document.querySelector('#operations-datasets-upload_dataset .opblock-control-arrow').click()")
    run_step(tab, "submit", "operations-audits-submit_audit")
    with server.database.read() as session:
        (row,) = session.query(AuditRow)
        ids = {"model": row.model_id, "dataset": row.dataset_id, "submit": row.id}
    for step, subject in ids.items():
        assert subject in tab.text(f"[data-step={step}]")
    # The id stands in the field of the next step.
    run_step(tab, "wait", "operations-audits-read_audit")
    assert tab.value("document.querySelector('#operations-audits-read_audit input').value") == row.id
    assert tab.complaints == []


def test_a_report_shows_its_tables_and_figures(tab: Tab, report_url: str, tmp_path: Path) -> None:
    tab.goto(report_url)
    page = tab.html()
    assert page.count("<table") == 6
    assert page.count("<img") == 2
    assert "<script" not in page
    shown = tab.picture(tmp_path / "report.png")
    assert colours(shown) > 50
    # A style sheet the policy's digest did not match would be dropped: the headline's colour shows that it was not.
    with Image.open(shown) as opened:
        pixels = np.asarray(opened.convert("RGB")).reshape(-1, 3)
    assert (pixels == (0xFB, 0xE1, 0xE2)).all(axis=1).sum() > 10_000
    assert (pixels == (0xD9, 0x77, 0x2B)).all(axis=1).sum() > 500


def test_a_report_fits_a_narrow_window(tab: Tab, report_url: str, tmp_path: Path) -> None:
    tab.look(width=400)
    tab.goto(report_url)
    assert tab.value("document.documentElement.scrollWidth") == 400
    # Scroll bars are hidden, so that text cut off at the right edge would be in the page's margin.
    with Image.open(tab.picture(tmp_path / "narrow.png", whole=True)) as picture:
        margin = np.asarray(picture.convert("RGB"))[2:-4, 392:400]
    assert (margin == margin[0, 0]).all()


def test_axe_finds_nothing_wrong_with_a_report(tab: Tab, report_url: str) -> None:
    # A report lets no script act, so axe has to be let in.
    tab.call("Page.setBypassCSP", enabled=True)
    try:
        tab.goto(report_url)
        assert violations(tab) == []
    finally:
        tab.call("Page.setBypassCSP", enabled=False)
