"""/docs and a report in a real browser that has no network."""

from pathlib import Path

import httpx
import numpy as np
import pytest
from PIL import Image

from seatrial.store.artifacts import open_store
from seatrial.store.tables import AuditRow, ProjectRow
from tests.browser.conftest import Browser, Server
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


def test_the_documentation_shows_its_operations(browser: Browser, server: Server) -> None:
    page = browser.dom(f"{server.url}/docs")
    assert page.count('class="opblock ') >= 15
    for path in ("/v1/audits/{audit_id}/report", "/v1/models", "/v1/datasets", "/v1/keys"):
        assert f'data-path="{path}"' in page
    assert "Failed to load" not in page
    assert colours(browser.screenshot(f"{server.url}/docs", "docs")) > 50


def test_a_report_shows_its_tables_and_figures(browser: Browser, report_url: str) -> None:
    page = browser.dom(report_url)
    assert page.count("<table") == 5
    assert page.count("<img") == 2
    assert "<script" not in page
    assert colours(browser.screenshot(report_url, "report")) > 50


def test_a_report_is_styled_under_its_own_policy(browser: Browser, report_url: str) -> None:
    """A style sheet the policy's digest did not match would be dropped: the headline's colour shows that it was not."""
    picture = browser.screenshot(report_url, "styled", height=400)
    with Image.open(picture) as opened:
        pixels = np.asarray(opened.convert("RGB")).reshape(-1, 3)
    assert (pixels == (0xFB, 0xE1, 0xE2)).all(axis=1).sum() > 10_000
    assert (pixels == (0xD9, 0x77, 0x2B)).all(axis=1).sum() > 500


def test_a_report_fits_a_narrow_window(browser: Browser, report_url: str, tmp_path: Path) -> None:
    """Chromium opens no window narrower than 500 pixels, so the page is put in a frame of 400."""
    saved = tmp_path / "report.html"
    saved.write_text(httpx.get(report_url).text)
    frame = tmp_path / "frame.html"
    frame.write_text(
        f'<body style="margin:0;background:#0f0"><iframe src="{saved.name}" width="400" height="3000"></iframe>'
    )
    narrow = browser.screenshot(frame.as_uri(), "narrow", width=500, height=3000)
    with Image.open(narrow) as picture:
        pixels = np.asarray(picture.convert("RGB")).astype(int)
    # A page wider than its frame would have a scroll bar of its own along the lower edge; scroll bars are hidden, so
    # look for text cut off at the right edge instead: the last columns of the frame are the page's margin.
    margin = pixels[2:-4, 392:400]
    assert (margin == margin[0, 0]).all()
