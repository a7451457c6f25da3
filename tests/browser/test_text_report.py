"""The report of a text attack in a real browser: changes are marked, texts are inert, a phone shows all of them."""

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from seatrial.store.artifacts import open_store
from seatrial.store.tables import AuditRow, ProjectRow
from tests.browser.conftest import Server, Tab
from tests.reports import fabricated_texts

pytestmark = pytest.mark.slow

SIGN = (0x12, 0xFE, 0x34)
"""A colour the page has nowhere: a script of a hostile text would paint it."""

HOSTILE = "<script>document.body.style.background='#12fe34'</script> \u202egnp\u202c <b style=x>a\u200bb</b>"


@pytest.fixture
def url(server: Server) -> str:
    """A report with hostile and with long texts, on the server."""
    arms = {
        "as_served": {
            "text": [HOSTILE.replace("body", "bdoy")],
            "status": "failed",
            "prediction": 1,
            "confidence": 0.9,
        },
        "calibrated": {"text": ["x" * 900], "status": "succeeded", "prediction": 0, "confidence": 0.6},
    }
    hostile = fabricated_texts.example(9, original=[HOSTILE], arms=arms)
    audit_id = fabricated_texts.finished(
        server.database,
        open_store(server.settings),
        recipes=("deepwordbug", "pwws", "textfooler"),
        examples=[*fabricated_texts.some(), hostile],
    )
    with server.database.write() as session:
        project = session.get_one(ProjectRow, session.get_one(AuditRow, audit_id).project_id)
        session.query(ProjectRow).filter_by(name="default").update({"name": "was-default"})
        session.flush()
        project.name = "default"
    return f"{server.url}/v1/audits/{audit_id}/report"


def pixels(path: Path) -> np.ndarray:
    with Image.open(path) as picture:
        return np.asarray(picture.convert("RGB")).astype(int)


def test_changed_letters_are_marked_and_nothing_in_a_text_acts(tab: Tab, url: str, tmp_path: Path) -> None:
    tab.goto(url)
    page = tab.html()
    assert "w<del>o</del>nderful" in page
    assert "<script" not in page
    assert "<b " not in page
    assert "\u202e" not in page
    assert "U+202E" in page
    shown = pixels(tab.picture(tmp_path / "texts.png", whole=True))
    assert not (shown == SIGN).all(axis=2).any()
    for colour in ((0xFB, 0xE1, 0xE2), (0xDF, 0xF3, 0xE6)):
        assert (shown == colour).all(axis=2).sum() > 500


@pytest.mark.drill
def test_the_texts_fit_a_phone(tab: Tab, url: str, tmp_path: Path) -> None:
    tab.look(width=390)
    tab.goto(url)
    shown = pixels(tab.picture(tmp_path / "phone.png", whole=True))
    # The page's right margin is of one colour from top to bottom: nothing reaches into it.
    margin = shown[2:-4, 384:390]
    assert (margin == margin[0, 0]).all()
