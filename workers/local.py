"""A worker that polls the database, with a broker or without. Run as ``python -m workers.local``."""

import argparse
import gc
import logging
import os
import signal
import sys
import threading
from types import FrameType

from seatrial import tracing
from seatrial.imports import kept_imports
from seatrial.logs import log_to_stderr
from seatrial.store.artifacts import open_store
from seatrial.store.database import connect
from seatrial.store.private_files import UMASK
from seatrial.store.queue import WakeupNotifier
from seatrial.store.settings import get_settings
from seatrial.store.settings_errors import InvalidSettingsError

log = logging.getLogger(__name__)


def main() -> None:
    """Work until SIGTERM or SIGINT; a shard in hand is given back at its next batch or gradient step."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--until-idle", type=float, default=None)
    until_idle_s = parser.parse_args().until_idle
    os.umask(UMASK)
    with kept_imports():
        from workers.runtime.worker import Worker, work_until

    try:
        settings = get_settings()
    except InvalidSettingsError as error:
        sys.exit(f"The settings do not fit: {error}")
    log_to_stderr(settings.log_level, as_json=settings.log_json)
    traces = tracing.start("seatrial-worker") if settings.traces else None
    stopping = threading.Event()

    def stop(_signal: int, _frame: FrameType | None) -> None:
        stopping.set()

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, stop)
    database = connect(settings, pool_size=2)
    notify = WakeupNotifier(settings).notify
    worker = Worker(database, open_store(settings), settings, is_stopping=stopping.is_set, notify=notify)
    worker.begin()
    log.info("worker %s on %s is ready", worker.name, worker.device)
    work_until(worker, stopping.is_set, lambda: stopping.wait(settings.poll_s), until_idle_s=until_idle_s)
    worker.leave()
    if traces is not None:
        tracing.stop(traces)
    database.dispose()
    # The process ends: what families have imported since need not be looked through for garbage.
    gc.freeze()


if __name__ == "__main__":
    main()
