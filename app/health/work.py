"""The state of the work as Prometheus's metrics."""

from collections.abc import Callable, Iterator, Mapping

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.metrics_core import Metric

from app.health import repository
from seatrial.store.counters import COUNTERS, DURATIONS, Values, histograms, zeros
from seatrial.store.worker_usage import WorkerUsage


def gauge(name: str, text: str, value: float) -> GaugeMetricFamily:
    """Return a number without labels."""
    return GaugeMetricFamily(name, text, value=value)


def _labelled(
    name: str, text: str, labels: tuple[str, ...], values: Mapping[tuple[str, ...], float]
) -> GaugeMetricFamily:
    family = GaugeMetricFamily(name, text, labels=labels)
    for key, value in sorted(values.items()):
        family.add_metric(key, value)
    return family


def _by(name: str, text: str, label: str, values: Mapping[str, float]) -> GaugeMetricFamily:
    return _labelled(name, text, (label,), {(key,): value for key, value in values.items()})


def work_metrics(work: repository.Work, use: repository.Use) -> list[Metric]:
    """Return what there is to do, who does it, and what has happened; what has ended as it was when it was counted."""
    gauges = [
        _by("seatrial_audits", "Audits by state.", "state", work.audits | use.ended),
        gauge("seatrial_queued_shards", "Shards waiting for a worker.", work.queued_shards),
        gauge("seatrial_running_shards", "Shards being run.", work.running_shards),
        _by(
            "seatrial_shard_retries",
            "Attempts beyond the first of shards that are waiting or running, by family.",
            "family",
            work.retries,
        ),
        gauge("seatrial_oldest_queued_seconds", "Age of the oldest audit that has not begun.", work.oldest_queued_s),
        gauge("seatrial_models_checking", "Models waiting for their check.", work.models_checking),
        gauge("seatrial_workers_alive", "Workers seen lately.", work.workers_alive),
        _by(
            "seatrial_deliveries",
            "Messages to webhooks of the last 30 days, by status.",
            "status",
            {"pending": work.pending, **use.sent},
        ),
        _labelled(
            "seatrial_project_audits",
            "Audits of a project that are queued or running.",
            ("project", "state"),
            work.by_project,
        ),
    ]
    if work.scheduler_age_s is not None:
        gauges.append(
            gauge("seatrial_scheduler_age_seconds", "Seconds since the scheduler swept last.", work.scheduler_age_s)
        )
    return [*gauges, *_worker_metrics(work.workers), *_counted(work.counts)]


def project_metrics(use: repository.Use) -> list[Metric]:
    """Return what is stored and what came of it."""
    return [
        _labelled("seatrial_project_bytes", "Bytes a project stores.", ("project", "kind"), use.stored),
        _by("seatrial_verdicts", "Audits by verdict.", "verdict", use.verdicts),
        _labelled("seatrial_checks", "Checks by family and state.", ("family", "state"), use.checks),
    ]


_OF_WORKERS: tuple[tuple[str, str, Callable[[WorkerUsage], float | None]], ...] = (
    ("seatrial_worker_memory_bytes", "Resident memory of the worker itself.", lambda one: one.memory_bytes),
    (
        "seatrial_worker_models_memory_bytes",
        "Resident memory of the processes it runs models in.",
        lambda one: one.models_memory_bytes,
    ),
    ("seatrial_worker_cpu_seconds", "Seconds of processors that all of them have used.", lambda one: one.cpu_s),
    ("seatrial_worker_processes", "Processes of the worker.", lambda one: one.processes),
    ("seatrial_worker_disk_free_bytes", "Bytes free where it keeps files.", lambda one: one.disk_free_bytes),
    (
        "seatrial_worker_gpu_memory_used_bytes",
        "Memory in use of the worker's GPU, by all its users.",
        lambda one: one.gpu.memory_used_bytes if one.gpu else None,
    ),
    (
        "seatrial_worker_gpu_memory_total_bytes",
        "Memory of the worker's GPU.",
        lambda one: one.gpu.memory_total_bytes if one.gpu else None,
    ),
    (
        "seatrial_worker_gpu_utilisation",
        "Share of the last moments in which the worker's GPU computed, 0 to 1.",
        lambda one: one.gpu.utilisation if one.gpu else None,
    ),
)


def _worker_metrics(workers: list[WorkerUsage]) -> Iterator[Metric]:
    for name, text, of in _OF_WORKERS:
        yield _labelled(name, text, ("worker",), {(one.name,): n for one in workers if (n := of(one)) is not None})


def _counted(counts: Mapping[str, Values]) -> Iterator[Metric]:
    for counter in COUNTERS:
        total = CounterMetricFamily(f"seatrial_{counter.name}", counter.text, labels=counter.labels)
        for labels, value in sorted((zeros(counter) | dict(counts.get(counter.name, {}))).items()):
            total.add_metric(labels, value)
        yield total
    for durations in DURATIONS:
        family = HistogramMetricFamily(f"seatrial_{durations.name}", durations.text, labels=durations.labels)
        for labels, (buckets, seconds) in sorted(histograms(counts.get(durations.name, {})).items()):
            family.add_metric(labels, buckets, seconds)
        yield family
