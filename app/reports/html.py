"""Renders a report as one HTML file: styles and figures inside, no script, nothing loaded from anywhere."""

import base64
import hashlib
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from functools import lru_cache
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined, select_autoescape
from markupsafe import Markup, escape

from app.reports.annex import TITLE, compose_annex
from app.reports.marked_text import PairedSides, one_line, visible
from seatrial.reporting.attacked import notes_in
from seatrial.reporting.balls import format_radius
from seatrial.reporting.looks import looks_in_words
from seatrial.reporting.numbers import format_aligned, format_estimate, format_interval, format_percentage, format_value
from seatrial.reporting.outcomes import (
    applied,
    counted,
    gauge,
    measured,
    not_measured,
    not_measured_in_words,
    policy_name,
    required,
    units_in_words,
)
from seatrial.reporting.pictures import Picture
from seatrial.reporting.reuse import reused_in_words
from seatrial.reporting.schemas import ReportFigure, ReportRead
from seatrial.reporting.tables import arrange, arrange_counts, cell_basis, open_end
from seatrial.reporting.value_names import count_words

TEMPLATES = Path(__file__).parent / "templates"
SHOWN_PICTURES = 4


@lru_cache(maxsize=1)
def _environment() -> Environment:
    environment = Environment(
        loader=FileSystemLoader(TEMPLATES),
        autoescape=select_autoescape(default=True),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(
        format_aligned=format_aligned,
        format_interval=format_interval,
        format_percentage=format_percentage,
        format_value=format_value,
        moment=_moment,
        value=_value,
        data_uri=_data_uri,
        is_wide=_is_wide,
        prettyjson=_pretty_json,
        metric_families=without_qualifiers,
    )
    environment.filters.update(format_estimate=format_estimate, count_words=count_words)
    environment.filters.update(visible=visible, one_line=one_line, breakable=_breakable, prose=_prose)
    environment.filters.update(applied=applied, not_measured=not_measured, required=required)
    environment.filters.update(not_measured_in_words=not_measured_in_words, notes_in=notes_in)
    environment.filters.update(units_in_words=units_in_words)
    environment.filters.update(looks_in_words=looks_in_words, reused_in_words=reused_in_words)
    environment.filters.update(counted=counted, gauge=gauge, measured=measured, policy_name=policy_name)
    environment.globals.update(arrange=arrange, arrange_counts=arrange_counts, cell_basis=cell_basis, open_end=open_end)
    return environment


@lru_cache(maxsize=1)
def _style() -> str:
    return (TEMPLATES / "report.css").read_text(encoding="utf-8")


def content_security_policy() -> str:
    """Return the policy of a report: its own style sheet, embedded images, and nothing else."""
    digest = base64.b64encode(hashlib.sha256(_style().encode()).digest()).decode()
    return f"default-src 'none'; style-src 'sha256-{digest}'; img-src data:; base-uri 'none'; form-action 'none'"


def render_html(report: ReportRead, pictures: Mapping[str, Sequence[Picture]] | None = None) -> str:
    """Return the report as an HTML document. Every name and label in it is escaped.

    Args:
        report: The report.
        pictures: Attacked images by check, those first that matter most; the first of them are shown.
    """
    template = _environment().get_template("report.html")
    # Our own file, not escaped: the policy's digest is that of exactly these characters.
    return template.render(
        report=report,
        style=Markup(_style()),  # noqa: S704
        policy=content_security_policy(),
        paired_sides=PairedSides(),
        pictures={check: shown[:SHOWN_PICTURES] for check, shown in (pictures or {}).items()},
    )


def render_hardening(report: Any) -> str:
    """Return an :class:`app.hardenings.report.HardeningReport` as an HTML document, everything in it escaped."""
    template = _environment().get_template("hardening.html")
    return template.render(report=report, style=Markup(_style()), policy=content_security_policy())  # noqa: S704


def render_annex(report: ReportRead) -> str:
    """Return the extract for Annex IV as an HTML document to print. Every name and label in it is escaped."""
    return (
        _environment()
        .get_template("annex.html")
        .render(
            report=report,
            title=TITLE,
            sections=compose_annex(report),
            style=Markup(_style()),  # noqa: S704
            policy=content_security_policy(),
        )
    )


def _moment(value: datetime | None) -> str:
    return "not yet" if value is None else f"{value:%Y-%m-%d %H:%M:%S} UTC"


def _value(value: Any) -> str:
    """Return a parameter's value for people.

    >>> _value(["deepwordbug", "pwws"]), _value(None), _value([]), _value(8 / 255), _value({"a": 1})
    ('deepwordbug, pwws', 'not given', 'none', '8/255 = 0.0313725', '{"a": 1}')
    """
    if value is None:
        return "not given"
    if isinstance(value, list) and all(isinstance(one, str) for one in value):
        return ", ".join(value) or "none"
    if isinstance(value, float):
        return f"{format_radius(value)} = {value:.6g}" if "/" in format_radius(value) else f"{value:.6g}"
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _breakable(name: str) -> Markup:
    """Return a name that may be broken after its underscores.

    >>> print(_breakable("mean_queries"))
    mean_<wbr>queries
    """
    return Markup("_<wbr>").join(escape(part) for part in name.split("_"))


def _prose(text: str) -> Markup:
    """Return a sentence of ours with its names in backquotes as code.

    >>> print(_prose("null for `auto` & no limit"))
    null for <code>auto</code> &amp; no limit
    """
    parts = text.split("`")
    return Markup().join(Markup("<code>{}</code>").format(part) if n % 2 else part for n, part in enumerate(parts))


def without_qualifiers(names: Iterable[str]) -> list[str]:
    """Return names of metrics without qualifiers, each once.

    >>> without_qualifiers(["a.ece[arm=x]", "a.ece[arm=y]", "a.mus"])
    ['a.ece', 'a.mus']
    """
    return list(dict.fromkeys(name.partition("[")[0] for name in names))


def _pretty_json(value: Any) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False)


def _is_wide(figure: ReportFigure) -> bool:
    """Return whether a figure is too wide to share a row, by its view box."""
    box = re.search(r'viewBox="[\d.+-]+ [\d.+-]+ ([\d.]+) ([\d.]+)"', figure.svg or "")
    return box is not None and float(box[1]) > 2.2 * float(box[2])


def _data_uri(figure: ReportFigure) -> str:
    """Return a figure for ``<img src>``, where a browser runs no script of an SVG and loads nothing for it."""
    return "data:image/svg+xml;base64," + base64.b64encode((figure.svg or "").encode()).decode()
