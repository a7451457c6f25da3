"""Whether the worker of this machine or container lives: a mark it leaves on disk, and who looks at it.

A check every few seconds must not cost what the worker is there for: this module imports no package, opens no
connection, and is asked before the command line is loaded (4 s of a processor).
"""

import json
import os
import re
import socket
import sys
import time
from pathlib import Path

FOLDER = "alive"
OLD_S = 45.0
"""Seconds after which a mark says that its process hangs; four of its intervals where those are longer."""


def _name(pid: int) -> str:
    # One volume may be shared by many containers, in each of which the worker is process 7.
    return f"{re.sub(r'[^A-Za-z0-9.-]', '_', socket.gethostname())}-{pid}.json"


def mark(home: Path, *, every_s: float, trouble: str | None = None) -> None:
    """Say that this process lives, and what it cannot do at the moment.

    Args:
        home: Folder everything is written under.
        every_s: Seconds to the next mark.
        trouble: What failed, such as reaching the database.

    Raises:
        OSError: The mark cannot be written.
    """
    folder = home / FOLDER
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    path = folder / _name(os.getpid())
    half = path.with_suffix(".half")
    half.write_text(json.dumps({"pid": os.getpid(), "every_s": every_s, "trouble": trouble}))
    half.replace(path)


def unmark(home: Path) -> None:
    """Take the mark of this process away, where there is one."""
    (home / FOLDER / _name(os.getpid())).unlink(missing_ok=True)


def mark_port(home: Path, port: int) -> None:
    """Say on which port this process serves what is under a home.

    Raises:
        OSError: The mark cannot be written.
    """
    folder = home / FOLDER
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    (folder / _name(os.getpid())).with_suffix(".port").write_text(str(port))


def unmark_port(home: Path) -> None:
    """Take that mark away, where there is one."""
    (home / FOLDER / _name(os.getpid())).with_suffix(".port").unlink(missing_ok=True)


def ports(home: Path) -> set[int]:
    """Return the ports on which processes of this machine that live serve what is under a home."""
    found = set()
    for path in (home / FOLDER).glob(f"{_name(0)[: -len('0.json')]}*.port"):
        pid = path.stem.rpartition("-")[2]
        try:
            if pid.isdecimal() and _lives(int(pid)):
                found.add(int(path.read_text()))
        except (OSError, ValueError):
            continue
    return found


def look(home: Path) -> tuple[bool, str]:
    """Return whether a worker lives here and none hangs, and a sentence.

    Marks of processes that are gone say nothing, and are removed.
    """
    lines, is_well, found = [], True, False
    pattern = re.compile(re.escape(_name(0)[: -len("0.json")]) + r"[0-9]+\.json")
    for path in sorted((home / FOLDER).glob("*.json")):
        if not pattern.fullmatch(path.name):
            continue
        try:
            told = json.loads(path.read_text())
            age = time.time() - path.stat().st_mtime
            pid, every_s = int(told["pid"]), float(told["every_s"])
        except (OSError, ValueError, KeyError, TypeError):
            continue
        if not _lives(pid):
            path.unlink(missing_ok=True)
            continue
        found = True
        if age > max(OLD_S, 4 * every_s):
            is_well = False
            lines.append(f"process {pid} gave no sign for {age:.0f} s")
        else:
            lines.append(f"process {pid} lives" + (f"; {told['trouble']}" if told.get("trouble") else ""))
    if not found:
        return False, "no worker lives here"
    return is_well, "; ".join(lines)


def _lives(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        # Another user's.
        return True
    return True


def main() -> None:
    """Print the sentence, and exit with 1 unless a worker lives."""
    is_well, sentence = look(Path(os.environ.get("SEATRIAL_HOME") or ".seatrial"))
    print(f"ok: {sentence}" if is_well else f"Error: {sentence}", file=sys.stdout if is_well else sys.stderr)
    sys.exit(0 if is_well else 1)
