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

from app.contracts.estimates import Estimate

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
    command = [sys.executable, "-m", "app.cli", "serve", "--port", "0", "--home", str(home)]
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
