"""On a phone every number can be read without moving a table, and figures are moved rather than shrunk."""

from pathlib import Path

import pytest

from app.reports.html import render_html
from tests.console.driving import chromium
from tests.reports import fabricated_defences, fabricated_noise
from tests.reports.conftest import Reports
from tests.reports.fabricated_defences import DENT, RMC, TADV

CUT_OFF = (
    "[...document.querySelectorAll('.scroll table')].filter(one => one.scrollWidth > one.parentElement.clientWidth)"
)
HEADINGS = "[...document.querySelectorAll('.many td')].map(one => getComputedStyle(one, '::before').content)"
HINT = "getComputedStyle(document.querySelector('.scrolls')).display"


def test_four_defences_fit_a_phone_and_each_number_says_whose_it_is(reports: Reports, tmp_path: Path) -> None:
    games = {"dent": DENT, "rmc": RMC, "tadv": TADV, "tent": DENT}
    stored = fabricated_defences.finished(reports.database, reports.store, games)
    (tmp_path / "report.html").write_text(render_html(reports.compose(reports.own(stored))))
    with chromium(tmp_path) as tab:
        tab.look(width=400)
        tab.goto(f"file://{tmp_path / 'report.html'}")
        assert tab.value("document.documentElement.scrollWidth") == 400
        assert tab.value(f"{CUT_OFF}.length") == 0
        assert set(tab.value(HEADINGS)) == {'"DENT"', '"RMC"', '"TADV"', '"TENT"'}
        assert tab.value("Math.min(...[...document.images].map(one => one.width))") >= 500
        assert tab.value(HINT) == "block"
        tab.look(width=1200)
        assert set(tab.value(HEADINGS)) == {"none"}
        assert tab.value(HINT) == "none"


@pytest.mark.slow
def test_the_ranking_of_attackers_fits_a_phone(reports: Reports, tmp_path: Path) -> None:
    stored = fabricated_noise.finished(reports.database, reports.store)
    (tmp_path / "report.html").write_text(render_html(reports.compose(reports.own(stored))))
    with chromium(tmp_path) as tab:
        tab.look(width=400)
        tab.goto(f"file://{tmp_path / 'report.html'}")
        assert tab.value("document.documentElement.scrollWidth") == 400
        assert tab.value(f"{CUT_OFF}.length") == 0
        assert {'"level 0.8"', '"rank"', '"relative_score"'} <= set(tab.value(HEADINGS))
