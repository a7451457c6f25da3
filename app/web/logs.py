"""Logging: one line per event, with the request's id and never a secret."""

import logging
import sys
from typing import Any

import structlog

from app.core.settings import Settings


def configure_logs(settings: Settings) -> None:
    """Send structlog and the standard library's logging to stderr, as text or as JSON lines."""
    level = logging.getLevelNamesMapping().get(settings.log_level.upper(), logging.INFO)
    shared: list[Any] = [
        structlog.stdlib.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]
    renderer = structlog.processors.JSONRenderer() if settings.log_json else structlog.dev.ConsoleRenderer(colors=False)
    structlog.configure(
        processors=[
            *shared,
            structlog.processors.format_exc_info if settings.log_json else structlog.processors.StackInfoRenderer(),
            renderer,
        ],
        wrapper_class=structlog.make_filtering_bound_logger(level),
        logger_factory=structlog.WriteLoggerFactory(sys.stderr),
        cache_logger_on_first_use=False,
    )
    logging.getLogger("app").setLevel(level)
    # It warns of every odd byte a client sends, and quotes it.
    logging.getLogger("python_multipart").setLevel(logging.ERROR)
