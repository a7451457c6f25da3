"""Prometheus metrics: requests as they happen, the state of the work when somebody asks."""

import shutil
import threading
import time
from collections.abc import Iterator
from pathlib import Path

from prometheus_client import (
    CollectorRegistry,
    Counter,
    GCCollector,
    Histogram,
    PlatformCollector,
    ProcessCollector,
    generate_latest,
)
from prometheus_client.metrics_core import Metric
from sqlalchemy.exc import SQLAlchemyError

from app.health import repository
from app.health.work import gauge, project_metrics, work_metrics
from seatrial.store.database import Database
from seatrial.store.settings import Settings

# Several scrapers, or an impatient one, cost one look at the database in so many seconds.
KEPT_S = 5.0
# What is stored, has ended and was judged is counted over all there is, and changes slowly.
USE_KEPT_S = 60.0
_BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)


class Metrics:
    """The metrics of one API process."""

    def __init__(self, database: Database, settings: Settings) -> None:
        self._registry = CollectorRegistry()
        labels = ("method", "route", "status")
        self._requests = Counter("seatrial_http_requests", "Requests answered.", labels, registry=self._registry)
        self._seconds = Histogram(
            "seatrial_http_request_seconds",
            "Seconds until a response was sent.",
            ("method", "route"),
            buckets=_BUCKETS,
            registry=self._registry,
        )
        self._registry.register(_WorkCollector(database, settings))
        # Memory, processor time and open files of this process, and Python's own.
        ProcessCollector(registry=self._registry)
        GCCollector(registry=self._registry)
        PlatformCollector(registry=self._registry)

    def observe(self, method: str, route: str, status: int, seconds: float) -> None:
        """Count a request under its route's template."""
        method = method if method in _METHODS else "other"
        self._requests.labels(method, route, str(status)).inc()
        self._seconds.labels(method, route).observe(seconds)

    def text(self) -> bytes:
        """Return everything in Prometheus's text format."""
        return generate_latest(self._registry)


_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})


class _WorkCollector:
    """Reads the state of the work from the database when scraped; tells that there is none where it is down."""

    def __init__(self, database: Database, settings: Settings) -> None:
        self._database = database
        self._home = settings.home
        self._lock = threading.Lock()
        self._read_at = self._use_read_at = float("-inf")
        self._last: list[Metric] = []
        self._use: repository.Use | None = None

    def describe(self) -> list[Metric]:
        """Return nothing: the database may not be there yet when the collector is registered."""
        return []

    def collect(self) -> Iterator[Metric]:
        """Yield the gauges, read at most once in ``KEPT_S`` seconds, what is stored once in ``USE_KEPT_S``."""
        with self._lock:
            if time.monotonic() - self._read_at > KEPT_S:
                self._last = self._read()
                self._read_at = time.monotonic()
            yield from self._last

    def _read(self) -> list[Metric]:
        up = gauge("seatrial_database_up", "Whether the database answers.", 1)
        free = _free_bytes(self._home)
        told = [] if free is None else [gauge("seatrial_disk_free_bytes", "Bytes free under SEATRIAL_HOME.", free)]
        try:
            with self._database.read() as session:
                work = repository.count_work(session)
                use = self._use
                if use is None or time.monotonic() - self._use_read_at > USE_KEPT_S:
                    self._use = use = repository.read_use(session)
                    self._use_read_at = time.monotonic()
        except SQLAlchemyError:
            # Requests and this process are told all the same: an alert on the database needs the scrape to answer.
            self._use = None
            return [gauge("seatrial_database_up", "Whether the database answers.", 0), *told]
        return [up, *told, *work_metrics(work, use), *project_metrics(use)]


def _free_bytes(folder: Path) -> int | None:
    try:
        return shutil.disk_usage(folder).free
    except OSError:
        return None
