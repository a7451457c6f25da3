"""Listening: how many connections a server takes, within the files that its process may open."""

import logging
import resource
from functools import partial
from typing import Any

from app.web.connection_table import MAX_LINGERING, ConnectionTable
from app.web.connections import BoundedHttpProtocol
from seatrial.store.settings import Settings

log = logging.getLogger(__name__)

# Files beside connections: 80 of the database, three each on SQLite, and those of the process itself.
RESERVED_FILES = 320


def bounded_http(settings: Settings, *, files: int) -> Any:
    """Return what a ``uvicorn.Config`` takes as ``http``.

    Args:
        settings: The bounds.
        files: Files the process may have open.
    """
    # An answer may be a file that is being sent.
    limit = min(settings.max_connections, max(8, (files - RESERVED_FILES - MAX_LINGERING) // 2))
    if limit < settings.max_connections:
        log.warning(
            "at most %d connections at a time, not SEATRIAL_MAX_CONNECTIONS=%d: the process may open %d files only",
            limit,
            settings.max_connections,
            files,
        )
    return partial(BoundedHttpProtocol, settings=settings, table=ConnectionTable(limit))


def raise_file_limit() -> int:
    """Let this process, and those it starts, open as many files as the system allows; return how many that is."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    # Where nothing is the limit, the kernel has one of its own that setrlimit does not tell.
    wanted = hard if hard != resource.RLIM_INFINITY else max(soft, 10_240)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    except (OSError, ValueError):
        return soft
    return wanted
