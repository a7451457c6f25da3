"""What the demonstrations share: a service of their own in an emptied folder, and numbers with their intervals."""

import io
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from rich.console import Console
from rich.table import Table

from seatrial.contracts.audits import AuditRead
from seatrial.contracts.estimates import Estimate
from seatrial.contracts.states import RunState

ROOT = Path(__file__).resolve().parents[1]


def empty_home(home: Path) -> None:
    """Make a folder for a demonstration, emptied if an earlier one left it; any other folder is left alone."""
    if home.exists() and any(home.iterdir()) and not (home / "service.log").exists():
        raise SystemExit(f"{home} holds something else than an earlier demo: name another folder")
    shutil.rmtree(home, ignore_errors=True)
    (home / "reports").mkdir(parents=True)


@contextmanager
def service(home: Path) -> Iterator[str]:
    """Run ``seatrial serve`` on a free port for the length of the block and yield its address."""
    command = [sys.executable, "-m", "seatrial", "serve", "--port", "0", "--home", str(home)]
    with (home / "service.log").open("w", encoding="utf-8") as log:
        process = subprocess.Popen(
            command,
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
            cwd=ROOT,
            env={**os.environ, "PYTHONUNBUFFERED": "1"},
        )
        try:
            yield address_in(process, home / "service.log")
        finally:
            process.terminate()
            process.communicate()


def address_in(process: subprocess.Popen[str], log: Path) -> str:
    """Return the address a starting service prints."""
    assert isinstance(process.stdout, io.TextIOBase)
    for line in process.stdout:
        if match := re.search(r"listens on (http://\S+)", line):
            return match[1]
    raise SystemExit(f"The service did not start:\n{log.read_text(encoding='utf-8')}")


def written(estimate: Estimate | None) -> str:
    """Return a number with its interval."""
    if estimate is None or estimate.value is None:
        return "-"
    interval = "" if estimate.low is None or estimate.high is None else f" [{estimate.low:.3f}, {estimate.high:.3f}]"
    return f"{estimate.value:.3f}{interval}"


def side_by_side(title: str, rows: dict[str, str], audits: dict[str, AuditRead]) -> Table:
    """Return the numbers of several audits in columns; ``rows`` maps what a row says to the estimate in it."""
    table = Table("", *audits, title=title)
    results = [audit.checks[0].result for audit in audits.values()]
    for label, name in rows.items():
        table.add_row(label, *(written(result.estimates.get(name) if result else None) for result in results))
    table.add_row(
        "flags", *(", ".join(f.code for f in result.flags) or "none" if result else "-" for result in results)
    )
    return table


def tell_failures(console: Console, audits: dict[str, AuditRead]) -> int:
    """Print why checks failed, if any did, and return the exit status."""
    failed = [check.error for audit in audits.values() for check in audit.checks if check.state != RunState.SUCCEEDED]
    for error in failed:
        console.print(f"A check failed: {error.title}: {error.detail}" if error else "A check did not succeed.")
    return 1 if failed else 0
