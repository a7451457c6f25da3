"""How an audit is followed on standard error."""

import math
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from app.cli.showing import echo, echo_line
from seatrial.contracts.audits import AuditRead, CheckRead
from seatrial.contracts.states import RunState
from seatrial.reporting.durations import time_left
from seatrial.reporting.looks import next_look_in_words
from seatrial.terminals import escaped_line


def say(line: str) -> None:
    """Print what is no result."""
    echo_line(line, err=True)


def say_all(text: str) -> None:
    """Print what is no result and may have several lines."""
    echo(text, err=True)


@contextmanager
def progress_display() -> Iterator[Callable[[AuditRead], None]]:
    """Yield what :meth:`Client.wait` calls: live bars on a terminal, a line per change elsewhere."""
    if not sys.stderr.isatty():
        yield _plain_lines()
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    # Without markup: a service names the stages.
    description = TextColumn("{task.description}", markup=False)
    columns = (description, BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, TextColumn("{task.fields[left]}", markup=False), console=Console(stderr=True)) as bars:
        tasks: dict[str, Any] = {}

        def show(audit: AuditRead) -> None:
            if audit.progress.share is not None:
                if audit.id not in tasks:
                    tasks[audit.id] = bars.add_task("the whole audit", total=100, left="")
                left = time_left(audit.progress.remaining_s)
                bars.update(tasks[audit.id], completed=math.floor(100 * audit.progress.share), left=left)
            for check in audit.checks:
                if check.id not in tasks:
                    tasks[check.id] = bars.add_task(escaped_line(check.kind), total=None, left="")
                stage = check.progress.stage or check.state
                told = f"{check.kind}: {stage if check.state == RunState.RUNNING else check.state}{_look(check)}"
                bars.update(
                    tasks[check.id],
                    description=escaped_line(told),
                    completed=check.progress.done,
                    total=check.progress.total or None,
                    left=time_left(check.progress.remaining_s),
                )

        yield show


def _look(check: CheckRead) -> str:
    # Each look begins the stages anew, at 0 %, on further examples.
    return f" of {next_look_in_words(check.progress.look)}" if check.progress.look is not None else ""


def _overall(audit: AuditRead) -> list[str]:
    share, left = audit.progress.share, time_left(audit.progress.remaining_s)
    return ([] if share is None else [f"the whole audit {100 * share:.0f} %"]) + ([left] if left else [])


def progress_in_words(audit: AuditRead, check: CheckRead) -> str:
    """Return where a check of an audit stands, and while it is running how far its stage and the whole audit are."""
    return _with_overall(_standing(check, steps=100), audit, check)


def _standing(check: CheckRead, *, steps: int) -> str:
    """Return state, stage, and how much of that is done, in whole ``steps`` of it."""
    told = f"{check.kind}: {check.state}"
    if check.state == RunState.RUNNING and check.progress.stage:
        done, total = check.progress.done, check.progress.total
        told += f" {check.progress.stage} {100 * (steps * done // total) // steps if total else 0} %{_look(check)}"
    return told


def _with_overall(told: str, audit: AuditRead, check: CheckRead) -> str:
    return ", ".join([told, *_overall(audit)]) if check.state == RunState.RUNNING else told


def _plain_lines() -> Callable[[AuditRead], None]:
    told: dict[str, str] = {}

    def show(audit: AuditRead) -> None:
        for check in audit.checks:
            # A line per state, stage and quarter of it: enough for a log.
            line = _standing(check, steps=4)
            if told.get(check.id) != line:
                told[check.id] = line
                say(_with_overall(line, audit, check))

    return show
