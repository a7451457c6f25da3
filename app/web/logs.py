"""Logging: one line per event, with the request's id and never a secret."""

import logging
import sys
from collections.abc import MutableMapping
from typing import Any

import structlog

from seatrial.logs import json_formatter, write_json
from seatrial.store.settings import Settings
from seatrial.terminals import EscapingFormatter, escape_logs, escaped, escaped_line

# Tracebacks have lines.
_LINES = frozenset({"exception", "stack"})


def configure_logs(settings: Settings) -> None:
    """Send structlog and the standard library's logging to stderr, as text or as JSON lines."""
    level = logging.getLevelNamesMapping().get(settings.log_level.upper(), logging.INFO)
    shared: list[Any] = [
        *([structlog.contextvars.merge_contextvars] if settings.log_json else []),
        structlog.stdlib.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]
    renderer = (
        structlog.processors.JSONRenderer()
        if settings.log_json
        else structlog.dev.ConsoleRenderer(colors=False, exception_formatter=structlog.dev.plain_traceback)
    )
    structlog.configure(
        processors=[
            *shared,
            structlog.processors.StackInfoRenderer(),
            structlog.processors.format_exc_info,
            *([] if settings.log_json else [_escape]),
            renderer,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(level),
        logger_factory=structlog.WriteLoggerFactory(sys.stderr),
        cache_logger_on_first_use=False,
    )
    logging.getLogger("app").setLevel(level)
    # What the standard library's loggers have by now, uvicorn's among them; without a handler of its own, Python's last
    # resort writes what the API's rooms say.
    names = ["", "uvicorn", "uvicorn.error", "uvicorn.access"]
    if settings.log_json:
        write_json(names)
        if logging.lastResort is not None:
            logging.lastResort.setFormatter(json_formatter())
            logging.lastResort.setLevel(level)
        return
    escape_logs(names)
    if logging.lastResort is not None and not isinstance(logging.lastResort.formatter, EscapingFormatter):
        logging.lastResort.setFormatter(EscapingFormatter())
    # It warns of every odd byte a client sends, and quotes it.
    logging.getLogger("python_multipart").setLevel(logging.ERROR)


def _escape(_logger: Any, _method: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    """Show what a terminal would obey; JSON escapes it by itself."""
    for name, value in event.items():
        if isinstance(value, str):
            event[name] = escaped(value) if name in _LINES else escaped_line(value)
    return event
