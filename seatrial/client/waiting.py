"""How far an audit is, shown while it is waited for: a bar in a notebook, or on a terminal."""

import importlib
import sys
from collections.abc import Callable
from html import escape
from typing import Any

from seatrial.contracts.audits import AuditRead
from seatrial.contracts.states import TERMINAL, RunState
from seatrial.reporting.durations import time_left
from seatrial.terminals import escaped_line

Show = Callable[[Any], None]

WIDTH = 30
"""Characters of the bar on a terminal."""


def shown(progress: Show | bool | None) -> Show | None:
    """Return what is called with an audit each time it is read.

    Args:
        progress: Itself; True: a bar, where a notebook or a terminal can show it; False: nothing; None: a bar where
            somebody types, in a notebook or at a prompt, and nothing in a script.
    """
    if callable(progress):
        return progress
    if progress is False:
        return None
    if (display := _notebook()) is not None:
        return _in_notebook(*display)
    if sys.stderr.isatty() and (progress or hasattr(sys, "ps1")):
        return _on_terminal
    return None


def _notebook() -> tuple[Any, Any] | None:
    """Return IPython's ``display`` and ``HTML`` in a kernel; None anywhere else, IPython on a terminal included."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    if shell is None or not hasattr(shell, "kernel"):
        return None
    displays: Any = importlib.import_module("IPython.display")
    return displays.display, displays.HTML


def _in_notebook(display: Any, html: Any) -> Show:
    handle: Any = None

    def show(audit: AuditRead) -> None:
        nonlocal handle
        bar = f'<progress value="{_share(audit):.3f}" max="1"></progress> {escape(_words(audit))}'
        if handle is None:
            handle = display(html(bar), display_id=True)
        else:
            handle.update(html(bar))

    return show


def _on_terminal(audit: AuditRead) -> None:
    filled = round(WIDTH * _share(audit))
    end = "\n" if audit.state in TERMINAL else ""
    bar = "#" * filled + "-" * (WIDTH - filled)
    print(f"\r\x1b[2K[{bar}] {escaped_line(_words(audit))}", end=end, file=sys.stderr, flush=True)


def _share(audit: AuditRead) -> float:
    return 1.0 if audit.state in TERMINAL else audit.progress.share or 0.0


def _words(audit: AuditRead) -> str:
    """Return how far an audit is: its share, what is run, and the time left where it is known."""
    if audit.state != RunState.RUNNING:
        return "finished" if audit.state == RunState.SUCCEEDED else str(audit.state.value)
    running = next((check for check in audit.checks if check.state == RunState.RUNNING), None)
    stage = "" if running is None else f"{running.kind}: {running.progress.stage or running.state.value}"
    parts = (f"{100 * _share(audit):.0f} %", stage, time_left(audit.progress.remaining_s))
    return ", ".join(part for part in parts if part)
