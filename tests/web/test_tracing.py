"""One trace from a client's request to the shard, over a stand-in for OpenTelemetry's SDK.

The stand-in keeps what its API is asked for; contexts are made, carried and read by the API itself.
"""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.trace import NonRecordingSpan, SpanContext, StatusCode, TraceFlags
from sqlalchemy import select, update

from app.main import create_app
from app.web.services import Services
from seatrial import tracing
from seatrial.contracts.states import ModelState
from seatrial.store.artifacts import LocalStore
from seatrial.store.claiming import claim_check
from seatrial.store.lifecycle import open_stage
from seatrial.store.settings import Settings
from seatrial.store.tables import AuditRow, ModelRow, ShardRow
from tests.conftest import BASE_URL, TestClient
from tests.runtime.inline import InlineWorker
from tests.uploads import submission, upload_both
from workers.runtime.stages import make_shards

TRACE, CALLER = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"


class Span(NonRecordingSpan):
    """A span that remembers what it was told."""

    def __init__(self, name: str, parent: SpanContext, number: int, attributes: Any) -> None:
        trace_id = parent.trace_id if parent.is_valid else 1000 + number
        super().__init__(SpanContext(trace_id, number, is_remote=False, trace_flags=TraceFlags(1)))
        self.name, self.parent, self.attributes, self.status = name, parent, dict(attributes or {}), StatusCode.UNSET

    def set_attribute(self, key: str, value: Any) -> None:
        self.attributes[key] = value

    def set_attributes(self, attributes: Any) -> None:
        self.attributes |= attributes

    def update_name(self, name: str) -> None:
        self.name = name

    def set_status(self, status: Any, description: str | None = None) -> None:
        self.status = status


class Recorder(trace.TracerProvider, trace.Tracer):
    """Makes such spans, and keeps them."""

    def __init__(self) -> None:
        self.spans: list[Span] = []

    def get_tracer(self, *names: Any, **more: Any) -> trace.Tracer:
        return self

    def start_span(self, name: str, context: Context | None = None, attributes: Any = None, **more: Any) -> Span:
        parent = trace.get_current_span(context).get_span_context()
        self.spans.append(Span(name, parent, len(self.spans) + 1, attributes))
        return self.spans[-1]

    @contextmanager
    def start_as_current_span(self, name: str, context: Context | None = None, **more: Any) -> Iterator[Span]:
        with trace.use_span(self.start_span(name, context, more.get("attributes"))) as span:
            yield span


@pytest.fixture
def recorder(monkeypatch: pytest.MonkeyPatch) -> Iterator[Recorder]:
    made = Recorder()

    def start(_service: str) -> Recorder:
        tracing.use(made)
        return made

    monkeypatch.setattr(tracing, "start", start)
    monkeypatch.setattr(tracing, "stop", lambda provider: tracing.use(None))
    yield made
    tracing.use(None)


def test_the_shards_of_an_audit_are_in_the_trace_of_its_request(
    settings: Settings, recorder: Recorder, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    with TestClient(create_app(settings.model_copy(update={"traces": True})), base_url=BASE_URL) as client:
        services: Services = client.app.state.services  # type: ignore[attr-defined]
        pair = upload_both(client)
        recorder.spans.clear()
        headers = {"traceparent": f"00-{TRACE}-{CALLER}-01"}
        assert client.get("/metrics").status_code == 200
        audit_id = client.post("/v1/audits", json=submission(*pair), headers=headers).json()["id"]
        (request,) = recorder.spans
        with services.database.write() as session:
            session.execute(update(ModelRow).values(state=ModelState.READY))
            check = claim_check(session, lease_s=60, worker="w")
        assert check is not None
        with services.database.write() as session:
            rows = make_shards(check[0], "attack", [(0, 10)])
            assert open_stage(session, *check, name="attack", source="sample", examples=10, shards=rows)
        worker = InlineWorker(services.database, LocalStore(tmp_path / "artifacts"), settings)

        def stumble(*arguments: object) -> None:
            raise RuntimeError("a bug")

        monkeypatch.setattr(worker.executor, "run", stumble)
        for _ in range(settings.max_attempts):
            assert worker.step()
        with services.database.read() as session:
            kept = session.scalars(select(AuditRow.traceparent)).one()
            shard_id = session.scalars(select(ShardRow.id)).one()
    assert (request.name, f"{request.parent.trace_id:032x}") == ("POST /v1/audits", TRACE)
    assert kept == f"00-{TRACE}-{request.get_span_context().span_id:016x}-01"
    shards = recorder.spans[1:]
    assert [span.name for span in shards] == ["work on shards"] * settings.max_attempts
    for span in shards:
        assert f"{span.get_span_context().trace_id:032x}" == TRACE
        assert span.parent.span_id == request.get_span_context().span_id
        assert span.attributes["seatrial.shard_id"] == shard_id
        assert span.attributes["seatrial.audit_id"] == audit_id
        assert span.attributes["seatrial.stage"] == "attack"
    assert [span.attributes["seatrial.state"] for span in shards] == ["queued", "queued", "failed"]
    assert [span.status for span in shards] == [StatusCode.UNSET, StatusCode.UNSET, StatusCode.ERROR]


def test_off_nothing_is_made_and_nothing_imported() -> None:
    code = "import sys; from seatrial import tracing\nwith tracing.span('a', 'b', c='d'): print(tracing.current())\n"
    code += "import workers.tasks, workers.runtime.jobs; print('opentelemetry' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout == "None\nFalse\n", done.stderr


def test_traces_without_the_extra_say_what_to_install(monkeypatch: pytest.MonkeyPatch, settings: Settings) -> None:
    monkeypatch.setitem(sys.modules, "opentelemetry.exporter.otlp.proto.http.trace_exporter", None)
    with pytest.raises(tracing.TracingUnavailableError, match=r"pip install 'seatrial\[otel\]'"):
        create_app(settings.model_copy(update={"traces": True}))
