"""OpenTelemetry traces from a request to the shards it leads to; off, nothing of OpenTelemetry is imported here.

The API keeps the context of the request with the audit, in W3C's form (``traceparent``), and workers go on from there:
the database carries it, as it carries everything else, so a trace outlives brokers, retries and restarts. Where the
spans go is said by OpenTelemetry's own variables, ``OTEL_EXPORTER_OTLP_ENDPOINT`` before all.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from opentelemetry.trace import TracerProvider

NEEDS = "SEATRIAL_TRACES needs OpenTelemetry's SDK and exporter: pip install 'seatrial[otel]'"

_tracer: Any = None


class TracingUnavailableError(RuntimeError):
    """Traces are wanted, and what sends them is not installed."""


def start(service: str) -> "TracerProvider":
    """Send spans from now on, by OTLP over HTTP, and return what makes them.

    Args:
        service: Name of this kind of process, unless ``OTEL_SERVICE_NAME`` says another.

    Raises:
        TracingUnavailableError: The extra is not installed.
    """
    try:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.resources import Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor
    except ImportError as error:
        raise TracingUnavailableError(NEEDS) from error
    name = os.environ.get("OTEL_SERVICE_NAME") or service
    provider: Any = TracerProvider(resource=Resource.create({"service.name": name}))
    # A thread of its own, and at most so many spans in memory: a collector that is away delays no work.
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    use(provider)
    return provider  # type: ignore[no-any-return]


def use(provider: "TracerProvider | None") -> None:
    """Make spans by this provider from now on; None makes none."""
    global _tracer
    _tracer = provider.get_tracer("seatrial") if provider is not None else None


def stop(provider: Any) -> None:
    """Send what is still in memory of what :func:`start` returned, and make no more spans."""
    use(None)
    provider.shutdown()


def is_on() -> bool:
    """Return whether spans are made in this process."""
    return _tracer is not None


def current() -> str | None:
    """Return the context of the span this thread or task is in, in W3C's form; None outside of any."""
    if _tracer is None:
        return None
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

    carrier: dict[str, str] = {}
    TraceContextTextMapPropagator().inject(carrier)
    return carrier.get("traceparent")


@contextmanager
def span(name: str, parent: str | None = None, **attributes: str) -> Iterator[dict[str, str | float]]:
    """Make a span of a block, where traces are on; what the block puts into the yielded mapping is told of it, too.

    Args:
        name: What is done, without ids.
        parent: Context to go on from, as :func:`current` returned it elsewhere; None begins a trace of its own.
        attributes: Of what; their names are told with ``seatrial.`` before them.
    """
    found: dict[str, str | float] = {}
    if _tracer is None:
        yield found
        return
    from opentelemetry.context import Context
    from opentelemetry.trace import SpanKind, StatusCode
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

    context = TraceContextTextMapPropagator().extract({"traceparent": parent} if parent else {}, context=Context())
    named = {f"seatrial.{key}": value for key, value in attributes.items()}
    with _tracer.start_as_current_span(name, context=context, kind=SpanKind.CONSUMER, attributes=named) as made:
        try:
            yield found
        finally:
            for key, value in found.items():
                made.set_attribute(f"seatrial.{key}", value)
            if found.get("state") == "failed":
                made.set_status(StatusCode.ERROR)
