"""Prometheus metrics: requests as they happen, the state of the work when somebody asks."""

import threading
import time
from collections.abc import Iterator

from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client.core import GaugeMetricFamily

from app.health import repository
from seatrial.store.database import Database
from seatrial.store.settings import Settings

# Several scrapers, or an impatient one, cost one look at the database in so many seconds.
KEPT_S = 5.0
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
    """Counts audits, shards and workers when scraped."""

    def __init__(self, database: Database, settings: Settings) -> None:
        self._database = database
        self._settings = settings
        self._lock = threading.Lock()
        self._read_at = float("-inf")
        self._last: list[GaugeMetricFamily] = []

    def describe(self) -> list[GaugeMetricFamily]:
        """Return nothing: the database may not be there yet when the collector is registered."""
        return []

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """Yield the gauges, read at most once in ``KEPT_S`` seconds."""
        with self._lock:
            if time.monotonic() - self._read_at > KEPT_S:
                self._last = self._read()
                self._read_at = time.monotonic()
            yield from self._last

    def _read(self) -> list[GaugeMetricFamily]:
        with self._database.read() as session:
            work = repository.count_work(session)
        audits = GaugeMetricFamily("seatrial_audits", "Audits by state.", labels=["state"])
        for state, count in sorted(work.audits.items()):
            audits.add_metric([state], count)
        return [
            audits,
            GaugeMetricFamily("seatrial_queued_shards", "Shards waiting for a worker.", value=work.queued_shards),
            GaugeMetricFamily("seatrial_running_shards", "Shards being run.", value=work.running_shards),
            GaugeMetricFamily(
                "seatrial_models_checking", "Models waiting for their check.", value=work.models_checking
            ),
            GaugeMetricFamily("seatrial_workers_alive", "Workers seen lately.", value=work.workers_alive),
        ]
