"""The extract for Annex IV as Markdown: to be put into a repository of documentation, or edited."""

import sys
from collections.abc import Iterator

from app.reports.annex import TITLE, Grid, Section, compose_annex
from app.reports.markdown import prose
from seatrial.reporting.schemas import ReportRead


def render_annex_markdown(report: ReportRead) -> str:
    """Return the extract, whole: nothing is shortened, and every word of others is shown as it is."""
    parts = [f"# {_text(TITLE)}", _text(report.question)]
    for number, section in enumerate(compose_annex(report), 1):
        parts += [f"## {number}. {_text(section.title)} ({_text(section.point)})", *_parts(section)]
    return "\n\n".join(part for part in parts if part) + "\n"


def _parts(section: Section) -> Iterator[str]:
    yield _text(section.text)
    yield "\n".join(f"- {_text(name)}: {_text(value)}" for name, value in section.facts)
    yield "\n".join(f"- {_text(sentence)}" for sentence in section.sentences)
    for grid in section.grids:
        if grid.rows:
            yield f"**{_text(grid.caption)}**"
            yield _table(grid)


def _table(grid: Grid) -> str:
    rows = [grid.columns, tuple("---" for _ in grid.columns)]
    lines = [f"| {' | '.join(_text(cell) for cell in grid.columns)} |", f"|{'|'.join(rows[1])}|"]
    return "\n".join([*lines, *(f"| {' | '.join(_text(cell) for cell in row)} |" for row in grid.rows)])


def _text(text: str) -> str:
    return prose(text, most=sys.maxsize)
