"""FastAPI's own spans of requests: when traces are on, and then nothing but spans."""

from collections.abc import MutableMapping
from typing import Any

from fastapi.telemetry import TelemetryConfig
from opentelemetry.trace import TracerProvider

_QUIET = ("/healthz", "/readyz", "/metrics")


def telemetry(provider: TracerProvider | None) -> TelemetryConfig:
    """Return what FastAPI is to tell by OpenTelemetry: one span a request by this provider, nothing at all without.

    ``/metrics`` has the numbers and the log has the lines; a process of another purpose that sets ``OTEL_`` variables
    for all programs of a machine turns nothing on here.
    """
    return {
        "tracing": provider is not None,
        "metrics": False,
        "logs": False,
        "operation_spans": False,
        "auto_configure": False,
        "exclude": _is_quiet,
        **({"tracer_provider": provider} if provider is not None else {}),
    }


def _is_quiet(scope: MutableMapping[str, Any]) -> bool:
    return scope.get("path") in _QUIET
