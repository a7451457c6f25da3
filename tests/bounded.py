"""Running something in a forked child with bounded memory and time: whatever it does, the test process lives on."""

import mmap
import os
import pickle
import resource
import select
import signal
import time
import traceback
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

T = TypeVar("T")

MIB = 2**20


class OutOfBoundsError(AssertionError):
    """The child ran out of memory or time, died, or raised; ``step`` is what it noted last."""

    def __init__(self, what: str, step: int) -> None:
        super().__init__(what)
        self.step = step


class Steps:
    """A number the child notes and the parent can read, however the child ends."""

    def __init__(self) -> None:
        self._memory = mmap.mmap(-1, 8)

    def note(self, step: int) -> None:
        self._memory[:8] = step.to_bytes(8, "little")

    @property
    def last(self) -> int:
        return int.from_bytes(self._memory[:8], "little")


def bounded(
    work: Callable[[], T], *, extra_bytes: int = 256 * MIB, deadline_s: float = 60.0, steps: Steps | None = None
) -> T:
    """Return what ``work`` returns in a forked child that may map ``extra_bytes`` more than this process has.

    Raises:
        OutOfBoundsError: It raised (MemoryError included), died, or did not end within ``deadline_s`` seconds.
    """
    steps = steps or Steps()
    reading, writing = os.pipe()
    with warnings.catch_warnings():
        # The child computes in the one thread that forks.
        warnings.simplefilter("ignore", DeprecationWarning)
        child = os.fork()
    if not child:
        os.close(reading)
        _run(work, extra_bytes, writing)
    os.close(writing)
    try:
        said = _read(reading, time.monotonic() + deadline_s)
    finally:
        os.close(reading)
        os.kill(child, signal.SIGKILL)
        _, status = os.waitpid(child, 0)
    if said is None:
        raise OutOfBoundsError(f"it did not end within {deadline_s:g} s", steps.last)
    if not said:
        raise OutOfBoundsError(f"it died with status {status}", steps.last)
    is_right, value = pickle.loads(said)
    if not is_right:
        raise OutOfBoundsError(value, steps.last)
    return value  # type: ignore[no-any-return]


def _run(work: Callable[[], object], extra_bytes: int, writing: int) -> None:
    """Run the work and leave the process without whatever pytest would do at its end."""
    try:
        used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (used + extra_bytes, used + extra_bytes))
        try:
            said = pickle.dumps((True, work()))
        except BaseException:
            said = pickle.dumps((False, traceback.format_exc()[-4000:]))
        with os.fdopen(writing, "wb") as pipe:
            pipe.write(said)
    finally:
        os._exit(0)


def _read(reading: int, until: float) -> bytes | None:
    parts = []
    while (left := until - time.monotonic()) > 0:
        if select.select([reading], [], [], left)[0]:
            part = os.read(reading, MIB)
            if not part:
                return b"".join(parts)
            parts.append(part)
    return None
