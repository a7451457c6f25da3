"""Hearing of the signals that end a process before its server has ended all responses."""

import signal
import threading
from collections.abc import Callable
from types import FrameType


def at_signals(act: Callable[[], object]) -> None:
    """Call ``act`` when SIGTERM or SIGINT comes, then whoever listened before; in the main thread only.

    Called while a server runs, so that the server's own handlers are the ones that listened before.
    """
    if threading.current_thread() is not threading.main_thread():
        return
    for number in (signal.SIGTERM, signal.SIGINT):
        before = signal.getsignal(number)
        if callable(before):
            signal.signal(number, _chained(act, before))


def _chained(
    act: Callable[[], object], before: Callable[[int, FrameType | None], object]
) -> Callable[[int, FrameType | None], None]:
    def handle(number: int, frame: FrameType | None) -> None:
        act()
        before(number, frame)

    return handle
