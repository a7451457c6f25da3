"""Logs of all processes: one line an event, as text, or as JSON with the ids of what it is about.

What a line is about is bound for a while (:func:`about`): the API binds the request and the project, workers the audit,
check and shard, and the request that asked for the audit. A traceback stands inside its line.
"""

import logging
from collections.abc import Mapping
from contextlib import AbstractContextManager

import structlog

from seatrial.terminals import escape_logs

TEXT = "%(asctime)s %(levelname)s %(name)s: %(message)s"

NAMED = ("audit_id", "check_id", "shard_id", "hardening_id", "model_id", "project_id", "request_id", "seconds")
"""What a call of a logger may add to its line (``extra``)."""


def about(**ids: str) -> AbstractContextManager[object]:
    """Name what all lines of this thread or task are about until the block ends."""
    return structlog.contextvars.bound_contextvars(**ids)


def name_more(**ids: str) -> None:
    """Add to what the lines of this thread or task are about."""
    structlog.contextvars.bind_contextvars(**ids)


def bound_ids() -> dict[str, str]:
    """Return what the lines of this thread or task are about."""
    return {name: str(value) for name, value in structlog.contextvars.get_contextvars().items()}


def start_anew(ids: Mapping[str, str] | None = None) -> None:
    """Forget what lines were about before, and name this instead."""
    structlog.contextvars.clear_contextvars()
    name_more(**dict(ids or {}))


def json_formatter() -> logging.Formatter:
    """Return what writes records of the standard library's loggers as JSON: level, logger, time, event, ids."""
    return structlog.stdlib.ProcessorFormatter(
        foreign_pre_chain=[
            structlog.contextvars.merge_contextvars,
            structlog.stdlib.ExtraAdder(allow=NAMED),
            structlog.stdlib.add_logger_name,
            structlog.stdlib.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
        ],
        processors=[
            structlog.stdlib.ProcessorFormatter.remove_processors_meta,
            structlog.processors.format_exc_info,
            structlog.processors.JSONRenderer(),
        ],
    )


def log_to_stderr(level: str, *, as_json: bool) -> None:
    """Send the standard library's loggers of a process without a web server to stderr.

    Args:
        level: debug, info, warning or error.
        as_json: JSON lines, instead of text in which nothing is left that a terminal obeys.
    """
    logging.basicConfig(level=level.upper(), format=TEXT)
    if as_json:
        write_json([""])
    else:
        escape_logs()


def write_json(names: list[str]) -> None:
    """Make the handlers that these loggers have write JSON."""
    for name in names:
        for handler in logging.getLogger(name or None).handlers:
            handler.setFormatter(json_formatter())
