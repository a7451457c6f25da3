"""Tells workers there may be something to claim. Losing a message loses nothing.

Settings and their reasons (each was tried against Celery 5.7 on a Redis broker):

- Messages are acknowledged early and expire within seconds: a wake-up is worth nothing later, and an unacknowledged
  message would come back after the broker's visibility timeout however healthy its task is.
- Results are ignored: the database holds them.
- Publishing gives up after a second: a broker that is down must not fail a submit, since the next sweep rings again.
"""

import logging
from typing import Any

from celery import Celery
from kombu.exceptions import OperationalError

from seatrial.contracts.wakeups import HOUSEKEEP, QUEUE_HOUSEKEEPING, QUEUE_WORK, WAKE
from seatrial.store.settings import Settings

log = logging.getLogger(__name__)

WAKE_EXPIRES_S = 30


def make_celery(settings: Settings) -> Celery:
    """Return the Celery application both sides use; the API only sends, the workers register the tasks."""
    celery = Celery("seatrial", broker=settings.broker_url, include=["workers.tasks"])
    celery.conf.update(
        task_acks_late=False,
        task_ignore_result=True,
        task_routes={WAKE: {"queue": QUEUE_WORK}, HOUSEKEEP: {"queue": QUEUE_HOUSEKEEPING}},
        task_default_queue=QUEUE_WORK,
        worker_pool="solo",
        worker_prefetch_multiplier=1,
        worker_send_task_events=False,
        worker_hijack_root_logger=False,
        broker_connection_retry_on_startup=True,
        broker_connection_max_retries=None,
        broker_transport_options={"socket_connect_timeout": 1, "socket_timeout": 5},
        beat_schedule={
            "housekeep": {
                "task": HOUSEKEEP,
                "schedule": settings.reap_s,
                "options": {"expires": settings.reap_s * 2, "queue": QUEUE_HOUSEKEEPING},
            }
        },
        # Beat's own memory of when it last rang: nothing depends on it.
        beat_schedule_filename=str(settings.home.absolute() / "beat-schedule"),
    )
    return celery


class WakeupNotifier:
    """Rings for work; silent when there is no broker, where workers poll the database."""

    def __init__(self, settings: Settings) -> None:
        self._celery = make_celery(settings) if settings.is_distributed else None
        if self._celery is not None:
            # Without these a message to a broker that is down took 6 s, connection retries included; now 20 ms.
            self._celery.conf.broker_transport_options = {
                **self._celery.conf.broker_transport_options,
                "max_retries": 1,
                "interval_start": 0,
                "interval_step": 0.1,
                "interval_max": 0.1,
            }

    def notify(self, times: int = 1) -> None:
        """Tell so many idle workers to look for work. Never raises for a broker that is down."""
        if self._celery is None:
            return
        try:
            for _ in range(times):
                self._celery.send_task(WAKE, expires=WAKE_EXPIRES_S, retry=False)
        except OperationalError as error:
            log.warning("cannot reach the broker (%s); workers find the work at their next sweep", error)

    def is_reachable(self) -> bool | None:
        """Return whether the broker answers; None when there is none to answer."""
        if self._celery is None:
            return None
        connection: Any = self._celery.connection_for_write()
        try:
            connection.ensure_connection(max_retries=1, interval_start=0, interval_step=0.1, timeout=1)
        except OperationalError:
            return False
        finally:
            connection.release()
        return True
