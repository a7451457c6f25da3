"""The Celery tasks: what happens when the bell rings. The database holds the truth; a message carries nothing."""

import gc
import logging
import threading
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from celery.signals import worker_ready, worker_shutdown, worker_shutting_down
from sqlalchemy.exc import SQLAlchemyError

from seatrial import tracing
from seatrial.contracts.wakeups import HOUSEKEEP, QUEUE_WORK, WAKE
from seatrial.imports import kept_imports
from seatrial.store.artifacts import open_store
from seatrial.store.checkpoints import has_due_discards
from seatrial.store.database import Database, connect
from seatrial.store.lifecycle import count_workers
from seatrial.store.queue import WakeupNotifier
from seatrial.store.reaping import reap
from seatrial.store.retention import sweep_workers, tell_scheduler_alive
from seatrial.store.settings import get_settings
from seatrial.store.waiting import count_work
from workers.celery_app import app
from workers.runtime.presence import mark

if TYPE_CHECKING:
    from workers.runtime.worker import Worker

log = logging.getLogger(__name__)

_stopping = threading.Event()
_traces: list[Any] = []


@worker_shutting_down.connect  # type: ignore[untyped-decorator]
def _stop(**_: Any) -> None:
    # The solo pool runs the task in the main thread; the signal handler only raises the flag, and the shard in hand is
    # given back at its next batch or gradient step.
    _stopping.set()


@lru_cache(maxsize=1)
def _database() -> Database:
    return connect(get_settings(), pool_size=2)


@lru_cache(maxsize=1)
def _worker() -> "Worker":
    # What runs models is started here, and never by the scheduler.
    with kept_imports():
        from workers.runtime.worker import Worker

    settings = get_settings()
    if settings.traces:
        _traces.append(tracing.start("seatrial-worker"))
    notify = WakeupNotifier(settings).notify
    return Worker(_database(), open_store(settings), settings, is_stopping=_stopping.is_set, notify=notify)


@worker_ready.connect  # type: ignore[untyped-decorator]
def _prepare(**_: Any) -> None:
    # A worker that has just started says it is there and looks for work: whatever was rung before is gone. The
    # scheduler does not consume the work queue and stays without torch.
    if QUEUE_WORK not in app.amqp.queues.consume_from:
        return
    _worker().begin()
    try:
        _worker().sweep()
    except SQLAlchemyError as error:
        log.warning("the database does not answer; the next wake-up tries again: %s", error)
    WakeupNotifier(get_settings()).notify()


@worker_shutdown.connect  # type: ignore[untyped-decorator]
def _end(**_: Any) -> None:
    if _worker.cache_info().currsize:
        _worker().leave()
    for traces in _traces:
        tracing.stop(traces)
    # The process ends: what families have imported since need not be looked through for garbage.
    gc.freeze()


@app.task(name=WAKE)  # type: ignore[untyped-decorator]
def wake() -> None:
    """Drain what can be claimed. A second message for the same work finds nothing and returns."""
    try:
        done = _worker().drain()
    except SQLAlchemyError as error:
        log.warning("the database does not answer; the next wake-up tries again: %s", error)
    else:
        log.info("drained %d claims", done)


@app.task(name=HOUSEKEEP)  # type: ignore[untyped-decorator]
def housekeep() -> None:
    """Take back expired leases, drop what is too old, and wake workers when there is something to claim."""
    settings = get_settings()
    # Here, since the scheduler has no timer of its own: what it does is this.
    mark(settings.home, every_s=settings.reap_s)
    try:
        tell_scheduler_alive(_database())
        reap(_database(), max_attempts=settings.max_attempts)
        sweep_workers(_database())
        with _database().read() as session:
            # The scheduler may have no store; whoever is rung deletes what is discarded, with or without other work.
            wanted = min(max(count_work(session), has_due_discards(session)), count_workers(session))
    except SQLAlchemyError as error:
        log.warning("the database does not answer; the next sweep tries again: %s", error)
        return
    WakeupNotifier(settings).notify(wanted)
