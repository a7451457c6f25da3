"""Runs a command that ends when its parent does: ``python parent_death.py PARENT_PID COMMAND...``.

Run as a file by an interpreter without site-packages, so it costs milliseconds; then the command takes its place.
"""

import ctypes
import os
import signal
import sys

PR_SET_PDEATHSIG = 1


def main(parent: int, command: list[str]) -> None:
    """Ask the kernel for SIGTERM when the parent dies, and become the command. The request survives exec."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)
    # The parent may have died before the request was made; then nobody would tell.
    if os.getppid() != parent:
        sys.exit(f"the parent process {parent} is gone")
    os.execv(command[0], command)  # noqa: S606


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2:])
