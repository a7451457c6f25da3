"""Pages: templates that escape everything, sent under a policy that lets nothing but our own two files act.

A page names its script and its style sheet with a nonce, so not even another file of this service could be run in it.
"""

import json
import secrets
from datetime import datetime
from functools import lru_cache
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined, select_autoescape
from markupsafe import Markup
from starlette.requests import Request
from starlette.responses import HTMLResponse

from app.reports.html import TEMPLATES as OF_REPORTS
from app.reports.marked_text import PairedSides, one_line, visible
from seatrial.contracts.estimates import Estimate
from seatrial.contracts.states import RunState
from seatrial.reporting.attacked import notes_in
from seatrial.reporting.durations import expected_range
from seatrial.reporting.looks import next_look_in_words
from seatrial.reporting.metric_labels import label_of
from seatrial.reporting.numbers import format_estimate, format_interval, format_percentage, format_ticks, format_value
from seatrial.reporting.outcomes import (
    applied,
    format_loss,
    not_measured,
    not_measured_in_words,
    required,
    share_of_range,
)
from seatrial.reporting.reuse import reused_in_words
from seatrial.reporting.sizes import size
from seatrial.reporting.tables import arrange, cell_basis, open_end
from seatrial.reporting.words import words

_TEMPLATES = Path(__file__).parent / "templates"
STATIC = Path(__file__).parent / "static"

STATE_WORDS = {
    RunState.QUEUED: "is queued",
    RunState.RUNNING: "is running",
    RunState.CANCELLING: "is being cancelled",
    RunState.SUCCEEDED: "has finished",
    RunState.FAILED: "has failed",
    RunState.CANCELLED: "was cancelled",
}
"""States as the end of a sentence."""


@lru_cache(maxsize=1)
def _environment() -> Environment:
    environment = Environment(
        # Examples look the same in reports and here.
        loader=FileSystemLoader([_TEMPLATES, OF_REPORTS]),
        autoescape=select_autoescape(default=True),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.globals["expected_range"] = expected_range
    environment.filters.update(
        format_value=format_value,
        format_interval=format_interval,
        format_percentage=format_percentage,
        format_ticks=format_ticks,
        moment=moment,
        duration=duration,
        prose=prose,
        visible=visible,
        visible_prose=visible_prose,
        one_line=one_line,
        words=words,
        called=called,
        measured=measured,
        applied=applied,
        not_measured=not_measured,
        not_measured_in_words=not_measured_in_words,
        notes_in=notes_in,
        next_look_in_words=next_look_in_words,
        required=required,
        loss=format_loss,
        whole=whole,
        size=size,
        told_json=told_json,
        reused_in_words=reused_in_words,
    )
    environment.globals.update(arrange=arrange, cell_basis=cell_basis, open_end=open_end, share_of_range=share_of_range)
    return environment


def policy(nonce: str) -> str:
    """Return the Content-Security-Policy of a page; images in it are its own too, those of attacked examples."""
    return (
        f"default-src 'none'; script-src 'nonce-{nonce}'; style-src 'nonce-{nonce}'; img-src 'self' data:; "
        "connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    )


def page(request: Request, template: str, *, status: int = 200, title: str, **context: Any) -> HTMLResponse:
    """Return a template as a page; whatever is in ``context`` is escaped."""
    nonce = secrets.token_urlsafe(16)
    text = (
        _environment()
        .get_template(template)
        .render(
            title=title,
            nonce=nonce,
            path=request.url.path,
            viewer=getattr(request.state, "viewer", None),
            paired_sides=PairedSides(),
            **context,
        )
    )
    return HTMLResponse(text, status_code=status, headers=headers(nonce))


def headers(nonce: str) -> dict[str, str]:
    """Return the headers of a page."""
    return {
        "Content-Security-Policy": policy(nonce),
        # With no-referrer browsers send `Origin: null` from our own forms, which is no proof of where they come from.
        "Referrer-Policy": "same-origin",
        "Cross-Origin-Opener-Policy": "same-origin",
        "Cross-Origin-Resource-Policy": "same-origin",
        "Cache-Control": "no-store",
        "Vary": "Accept, Cookie",
    }


def fragment(template: str, **context: Any) -> HTMLResponse:
    """Return part of a page, for the script to put in its place."""
    return HTMLResponse(_environment().get_template(template).render(**context))


def moment(value: datetime | str | None) -> str:
    """Return a moment for people, to the minute.

    >>> moment("2026-11-21T17:30:05Z"), moment(None)
    ('2026-11-21 17:30 UTC', 'not yet')
    """
    if value is None:
        return "not yet"
    at = datetime.fromisoformat(value) if isinstance(value, str) else value
    return f"{at:%Y-%m-%d %H:%M} UTC"


def called(metric: str) -> str:
    """Return what people call a metric; its full name where no family of this version publishes it.

    >>> called("gone.number")
    'gone.number'
    """
    try:
        return label_of(metric)
    except ValueError:
        return metric


def duration(seconds: float | None) -> str:
    """Return seconds for people.

    >>> duration(0.4), duration(75), duration(7260), duration(200000), duration(None)
    ('under a second', '1 min 15 s', '2 h 1 min', '2 days 7 h', 'not known yet')
    """
    if seconds is None:
        return "not known yet"
    if seconds < 1:
        return "under a second"
    whole_s = round(seconds)
    for unit, name, below, part in ((86_400, "days", 3600, "h"), (3600, "h", 60, "min"), (60, "min", 1, "s")):
        if whole_s >= unit:
            count, rest = whole_s // unit, whole_s % unit // below
            name = "day" if name == "days" and count == 1 else name
            return f"{count} {name} {rest} {part}" if rest else f"{count} {name}"
    return f"{whole_s} s"


def whole(value: int | None) -> str:
    """Return a count for people.

    >>> whole(12345), whole(None)
    ('12,345', 'not known')
    """
    return "not known" if value is None else f"{value:,}"


def measured(estimate: Estimate | dict[str, Any] | None) -> str:
    """Return an estimate with its interval.

    >>> measured({"value": 0.5, "low": 0.4, "high": 0.6, "n": 9, "method": "bootstrap"}), measured(None)
    ('0.5000 [0.4000, 0.6000]', 'not measured')
    """
    if estimate is None:
        return "not measured"
    one = Estimate.model_validate(estimate)
    return format_estimate(one)


def told_json(value: Any) -> str:
    """Return a value as JSON for people."""
    return json.dumps(value, indent=2, ensure_ascii=False)


def prose(text: str) -> Markup:
    """Return a sentence of ours with its names in backquotes as code.

    >>> print(prose("`read` sees & `run` acts"))
    <code>read</code> sees &amp; <code>run</code> acts
    """
    parts = text.split("`")
    return Markup().join(Markup("<code>{}</code>").format(part) if n % 2 else part for n, part in enumerate(parts))


def visible_prose(text: str) -> Markup:
    """Return the same of a sentence that repeats what a stranger wrote.

    >>> print(visible_prose("`read` it: <b>"))
    <code>read</code> it: &lt;b&gt;
    """
    parts = [visible(part) for part in text.split("`")]
    return Markup().join(Markup("<code>{}</code>").format(part) if n % 2 else part for n, part in enumerate(parts))
