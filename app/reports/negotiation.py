"""Which kind of report a request wants: ``?format=`` first, then the Accept header with its quality values."""

import re
from typing import Literal

from app.web.problems import NotAcceptableError
from seatrial.reporting.words import enumerate_words

ReportFormat = Literal[
    "html", "json", "markdown", "junit", "sarif", "cyclonedx", "model-index", "annex-iv", "annex-iv-markdown"
]

MEDIA_TYPES: dict[ReportFormat, str] = {
    "html": "text/html",
    "json": "application/json",
    "markdown": "text/markdown",
    "junit": "application/junit+xml",
    "sarif": "application/sarif+json",
    "cyclonedx": "application/vnd.cyclonedx+json",
    "model-index": "application/yaml",
    "annex-iv": "text/html",
    "annex-iv-markdown": "text/markdown",
}
SUFFIXES: dict[ReportFormat, str] = {
    "html": "html",
    "json": "json",
    "markdown": "md",
    "junit": "xml",
    "sarif": "sarif",
    "cyclonedx": "cdx.json",
    "model-index": "yaml",
    "annex-iv": "annex-iv.html",
    "annex-iv-markdown": "annex-iv.md",
}
"""How a file of each is called."""
OF_VERDICTS: tuple[ReportFormat, ...] = ("junit", "sarif")
"""What is nothing without a verdict."""
OF_ENDED: tuple[ReportFormat, ...] = ("cyclonedx", "model-index", "annex-iv", "annex-iv-markdown")
"""What leaves the house: only of audits that have ended."""


def choose_format(accept: str | None, wanted: str | None) -> ReportFormat:
    """Return the kind of report to send; HTML when the request does not care.

    Of two kinds of one media type an Accept header gets the first.

    Raises:
        NotAcceptableError: It wants a kind there is not.

    >>> choose_format("application/json;q=0.5, text/html;q=0.4", None)
    'json'
    >>> choose_format("*/*", None), choose_format("text/html", "json")
    ('html', 'json')
    """
    if wanted is not None:
        for kind in MEDIA_TYPES:
            if wanted == kind:
                return kind
        raise _not_acceptable(f"format {wanted!r}")
    if accept is None or not accept.strip():
        return "html"
    best = max(MEDIA_TYPES, key=lambda kind: _quality(accept, MEDIA_TYPES[kind]))
    if _quality(accept, MEDIA_TYPES[best]) == 0:
        raise _not_acceptable(f"Accept: {accept}")
    return best


def _not_acceptable(asked: str) -> NotAcceptableError:
    offers = [{"format": kind, "media_type": media_type} for kind, media_type in MEDIA_TYPES.items()]
    there_is = enumerate_words(f"{media_type} (?format={kind})" for kind, media_type in MEDIA_TYPES.items())
    return NotAcceptableError(f"No report for {asked[:200]}; there is {there_is}.", available=offers)


def _quality(accept: str, media_type: str) -> float:
    """Return the quality an Accept header gives a media type: that of its most specific range (RFC 9110, 12.5.1)."""
    kind = media_type.split("/", 1)[0]
    specificity = {media_type: 3, f"{kind}/*": 2, "*/*": 1}
    best = (0, 0.0)
    for one in accept.split(","):
        name, *parameters = (part.strip().lower() for part in one.split(";"))
        best = max(best, (specificity.get(name, 0), _q_of(parameters)), key=lambda pair: pair[0])
    return best[1] if best[0] else 0.0


def _q_of(parameters: list[str]) -> float:
    for parameter in parameters:
        if match := re.fullmatch(r"q\s*=\s*(\d(?:\.\d{0,3})?)", parameter):
            return min(float(match[1]), 1.0)
    return 1.0
