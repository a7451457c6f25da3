"""What a job may take of memory and time, and what is said where it took more."""

import os
import signal
import time
from dataclasses import dataclass
from pathlib import Path

from seatrial.sandbox.launcher import Child, ChildDiedError
from seatrial.store.settings import MIB
from workers.errors import TargetError
from workers.runtime.executor import Holder
from workers.runtime.interruptions import Interrupted, ShuttingDown

STOP_S = 8.0
"""Seconds a child has to stop by itself; less than a service that is asked to end gives its workers."""

CANCEL_S = 1.0
"""The same where its work is not wanted any more: the next model waits."""

OUT_OF_MEMORY = "out-of-memory"

CRASHES = {-number for number in (signal.SIGABRT, signal.SIGSEGV, signal.SIGBUS, signal.SIGILL, signal.SIGFPE)}
"""What a file does to the library that reads it; SIGKILL may be the kernel's, for want of memory of others."""


@dataclass(frozen=True)
class Limits:
    """Of one job; None is without.

    Attributes:
        memory_bytes: Address space beyond what its process begins with.
        total_s: Time in all.
        silence_s: Time without a sign of life.
    """

    memory_bytes: int | None = None
    total_s: float | None = None
    silence_s: float | None = None

    def deadline(self, watch: "Watch") -> float | None:
        """Return when the job's time is over, on the monotonic clock."""
        ends = []
        if self.total_s is not None:
            ends.append(watch.began_at + self.total_s)
        if self.silence_s is not None:
            ends.append(watch.seen_at + self.silence_s)
        if watch.stop_at is not None:
            ends.append(watch.stop_at)
        return min(ends, default=None)


class Watch:
    """Looks after a job while its child is silent: passes on a reason to stop, and ends the child if it does not."""

    def __init__(self, child: Child, holder: Holder | None) -> None:
        self._child, self._holder = child, holder
        self.reason: Interrupted | None = None
        self.began_at = self.seen_at = time.monotonic()
        self.stop_at: float | None = None

    def seen(self) -> None:
        """Note a sign of life."""
        self.seen_at = time.monotonic()
        self()

    def __call__(self) -> None:
        """Look for a reason to stop."""
        if self.reason is not None or self._holder is None:
            return
        try:
            self._holder.check_cancelled()
        except Interrupted as error:
            # Only a process that is stopping has anything to store.
            patience = STOP_S if isinstance(error, ShuttingDown) else CANCEL_S
            self.reason, self.stop_at = error, time.monotonic() + patience
            self._child.channel.send({"stop": error.reason})


def machine_memory() -> int:
    """Return the memory of this machine, or of the control group the process is in where that is less, in bytes."""
    total = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    for path in ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"):
        try:
            total = min(total, int(Path(path).read_text()))
        except (OSError, ValueError):
            continue
    return total


def too_large(what: str, limits: Limits) -> TargetError:
    """Return the problem of a job that used up its memory."""
    setting = "SEATRIAL_CHECK_MEMORY_BYTES" if what == "check" else "SEATRIAL_SHARD_MEMORY_BYTES"
    return TargetError(
        OUT_OF_MEMORY,
        "The worker has too little memory for the model",
        f"its process asked for more than the {(limits.memory_bytes or 0) // MIB:,} MiB it is given ({setting} and the "
        "model's size): send a smaller model, smaller images or a smaller batch_size, or ask the operator for more",
        field="/file" if what == "check" else None,
    )


def too_slow(what: str, limits: Limits) -> TargetError:
    """Return the problem of a job that used up its time."""
    if what == "check":
        return TargetError(
            "check-timed-out",
            "The check of the model took too long",
            f"it was ended after {limits.total_s:.0f} seconds (SEATRIAL_CHECK_DEADLINE_S and the file's size): loading "
            "the model and running it on eight examples should take seconds",
            field="/file",
        )
    return TargetError(
        "shard-silent",
        "The model made no progress",
        f"nothing was heard of it for {limits.silence_s:.0f} seconds (SEATRIAL_SHARD_SILENCE_S): a batch, a gradient "
        "step or a text should take less",
    )


def crashed(error: ChildDiedError) -> TargetError:
    """Return the problem of a model that crashed what read it."""
    return TargetError(
        "check-crashed",
        "Loading the model crashed",
        f"a library that read or ran the model crashed ({error}): a file of it is damaged, or asks for more memory "
        "than there is",
        field="/file",
    )
