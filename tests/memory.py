"""Temporary files of the tests in memory, where Linux has room for them.

Tests make thousands of small databases and artifacts and wait for the disk at each commit: of 292 tests of stores and
routes that was 30 of 80 s on a busy machine.
"""

import atexit
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

MEMORY = Path("/dev/shm")
NEEDED_BYTES = 6 * 2**30
"""Four times what ``make test`` leaves behind until it ends."""


def keep_temporary_files_in_memory() -> None:
    """Make a folder there this process' temporary folder and that of its children, until it ends.

    Nothing is done where ``TMPDIR`` is set, as it is for the children, or where there is no such memory: containers
    often have 64 MB of it, and may run no program from it.
    """
    if os.environ.get("TMPDIR") or not MEMORY.is_dir() or shutil.disk_usage(MEMORY).free < NEEDED_BYTES:
        return
    folder = Path(tempfile.mkdtemp(prefix="seatrial-tests-", dir=MEMORY))
    atexit.register(_removed_by, os.getpid(), folder)
    # Postgres runs as somebody else where the tests are run by root.
    folder.chmod(0o711)
    if _runs_programs(folder):
        os.environ["TMPDIR"] = str(folder)
        tempfile.tempdir = None


def _removed_by(process: int, folder: Path) -> None:
    # Forks have the same functions to call at their end.
    if os.getpid() == process:
        shutil.rmtree(folder, ignore_errors=True)


def _runs_programs(folder: Path) -> bool:
    program = folder / "program"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    try:
        return subprocess.run([program], check=False).returncode == 0
    except OSError:
        return False
    finally:
        program.unlink()
