import json
import re
import shutil
import time
from datetime import timedelta
from pathlib import Path

import httpx
import pytest
import yaml
from sqlalchemy import update

from app.health.repository import count_workers
from app.health.schemas import Readiness
from app.main import create_app
from app.web.housekeeping import Reaping
from app.web.services import Services
from seatrial.contracts import training
from seatrial.contracts.registry import families
from seatrial.store.claiming import claim_check
from seatrial.store.counters import (
    CHECK_SECONDS,
    COUNTERS,
    SHARD_FAILURES,
    SHARD_SECONDS,
    SHARDS_REQUEUED,
    count,
    observe,
)
from seatrial.store.retention import sweep_workers, tell_scheduler_alive
from seatrial.store.settings import Settings
from seatrial.store.tables import CheckRow, WorkerRow
from seatrial.store.tables.base import utc_now
from seatrial.store.worker_usage import GpuUsage, WorkerUsage
from tests.conftest import BASE_URL, TestClient
from tests.rows import add_audit
from tests.uploads import submission, upload_both, weights


def test_a_process_that_is_up_says_so(client: httpx.Client) -> None:
    assert client.get("/healthz").json()["status"] == "ok"


def test_readiness_names_each_part(client: httpx.Client, services: Services) -> None:
    told = Readiness.model_validate(client.get("/readyz").json())
    assert told == Readiness(status="ready", database="ok", storage="ok", broker="none", workers=0)
    with services.database.write() as session:
        session.add(WorkerRow(id="w", device="cpu", pid=1))
    assert client.get("/readyz").json()["workers"] == 1


def test_a_killed_worker_is_not_counted_for_long(client: httpx.Client, services: Services) -> None:
    with services.database.write() as session:
        for name, seconds in (("alive", 25), ("killed", 35)):
            session.add(WorkerRow(id=name, device="cpu", pid=1, last_seen_at=utc_now() - timedelta(seconds=seconds)))
    assert client.get("/readyz").json()["workers"] == 1
    assert "seatrial_workers_alive 1.0" in client.get("/metrics").text
    with services.database.read() as session:
        assert count_workers(session) == 1


def test_an_unmigrated_database_is_not_ready(settings: Settings) -> None:
    (settings.home / "seatrial.db").unlink()
    with TestClient(create_app(settings), base_url=BASE_URL) as client:
        answer = client.get("/readyz")
        assert answer.status_code == 503
        assert "migrations" in answer.json()["database"]
        assert client.get("/healthz").status_code == 200


def test_a_broker_that_is_down_delays_work_but_refuses_none(settings: Settings) -> None:
    distributed = settings.model_copy(update={"broker_url": "redis://127.0.0.1:1/0"})
    with TestClient(create_app(distributed), base_url=BASE_URL) as client:
        answer = client.get("/readyz")
        assert (answer.status_code, answer.json()["broker"]) == (200, "unreachable")
        pair = upload_both(client)
        began = time.monotonic()
        assert client.post("/v1/audits", json=submission(*pair)).status_code == 202
        assert time.monotonic() - began < 3


def test_storage_that_cannot_be_written_is_not_ready(
    client: httpx.Client, services: Services, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse() -> None:
        raise OSError(30, "Read-only file system")

    monkeypatch.setattr(services.store, "staging", refuse)
    answer = client.get("/readyz")
    assert (answer.status_code, answer.json()["storage"]) == (503, "not writable (Read-only file system)")


def test_metrics_count_requests_by_template_and_audits_by_state(client: httpx.Client) -> None:
    pair = upload_both(client)
    audit = client.post("/v1/audits", json=submission(*pair)).json()["id"]
    client.get(f"/v1/audits/{audit}")
    client.get("/v1/audits/aud_nowhere")
    client.get("/nowhere/at/all")
    text = client.get("/metrics").text
    for line in (
        'seatrial_http_requests_total{method="GET",route="/v1/audits/{audit_id}",status="200"} 1.0',
        'seatrial_http_requests_total{method="GET",route="/v1/audits/{audit_id}",status="404"} 1.0',
        'seatrial_http_requests_total{method="GET",route="none",status="404"} 1.0',
        'seatrial_audits{state="queued"} 1.0',
        'seatrial_audits{state="failed"} 0.0',
        "seatrial_models_checking 1.0",
        "seatrial_queued_shards 0.0",
        "seatrial_workers_alive 0.0",
    ):
        assert line in text, line
    assert audit not in text


def test_metrics_do_not_ask_the_database_at_every_scrape(client: httpx.Client, services: Services) -> None:
    assert "seatrial_workers_alive 0.0" in client.get("/metrics").text
    shutil.rmtree(services.settings.home)
    assert "seatrial_workers_alive 0.0" in client.get("/metrics").text


def test_the_scheduler_s_age_is_told_and_it_is_no_worker(client: httpx.Client, services: Services) -> None:
    assert client.get("/readyz").json()["scheduler_age_s"] is None
    tell_scheduler_alive(services.database)
    with services.database.write() as session:
        session.execute(update(WorkerRow).values(last_seen_at=utc_now() - timedelta(hours=3)))
    sweep_workers(services.database)
    told = client.get("/readyz").json()
    assert (told["workers"], told["status"]) == (0, "ready")
    assert 10_800 <= told["scheduler_age_s"] < 11_000


def test_an_api_process_takes_back_what_dead_workers_held(client: httpx.Client, services: Services) -> None:
    audit = add_audit(services.database)
    with services.database.write() as session:
        assert claim_check(session, lease_s=-1.0, worker="dead") is not None
    Reaping(services)()
    with services.database.read() as session:
        assert session.query(CheckRow).filter_by(audit_id=audit).one().token is None


def names_told(text: str) -> set[str]:
    """Return the names of metrics in Prometheus's text format, those of their samples included."""
    return set(re.findall(r"^([a-z_]+)[ {]", text, re.MULTILINE)) | set(re.findall(r"# HELP (\S+)", text))


def test_the_work_of_every_project_and_the_process_are_told(client: httpx.Client, services: Services) -> None:
    add_audit(services.database, created_at=utc_now() - timedelta(seconds=100))
    upload_both(client)
    tell_scheduler_alive(services.database)
    text = client.get("/metrics").text
    assert 100 <= float(re.findall(r"^seatrial_oldest_queued_seconds (\S+)", text, re.MULTILINE)[0]) < 200
    assert re.search(r'seatrial_project_audits{project="\S+",state="queued"} 1.0', text)
    assert f'seatrial_project_bytes{{kind="models",project="default"}} {float(len(weights()))}' in text or (
        f'seatrial_project_bytes{{project="default",kind="models"}} {float(len(weights()))}' in text
    )
    assert "seatrial_database_up 1.0" in text
    assert float(re.findall(r"^process_resident_memory_bytes (\S+)", text, re.MULTILINE)[0]) > 1e6


def test_metrics_answer_when_the_database_is_down(settings: Settings) -> None:
    down = settings.model_copy(update={"database_url": "postgresql+psycopg://nobody@127.0.0.1:1/none"})
    with TestClient(create_app(down), base_url=BASE_URL) as client:
        answer = client.get("/metrics")
    assert answer.status_code == 200
    assert "seatrial_database_up 0.0" in answer.text
    assert "process_resident_memory_bytes" in answer.text


def test_workers_and_what_happened_are_told(client: httpx.Client, services: Services) -> None:
    gpu = GpuUsage(name="H100", memory_used_bytes=7, memory_total_bytes=8, utilisation=0.5)
    usage = WorkerUsage(name="host:1", memory_bytes=1, models_memory_bytes=2, cpu_s=3.5, processes=4, gpu=gpu)
    gone = utc_now() - timedelta(seconds=40)
    with services.database.write() as session:
        session.add(WorkerRow(id="a", device="H100", pid=1, usage=usage.model_dump()))
        session.add(WorkerRow(id="b", device="cpu", pid=2, usage=usage.model_dump() | {"name": "b"}, last_seen_at=gone))
        # Of the version before.
        session.add(WorkerRow(id="c", device="cpu", pid=3))
        for seconds in (0.2, 2.0, 5000.0):
            observe(session, SHARD_SECONDS, "uncertainty_span", "attack", seconds=seconds)
    text = client.get("/metrics").text
    family, stage = 'family="uncertainty_span"', 'stage="attack"'
    for line in (
        'seatrial_worker_memory_bytes{worker="host:1"} 1.0',
        'seatrial_worker_cpu_seconds{worker="host:1"} 3.5',
        'seatrial_worker_gpu_memory_used_bytes{worker="host:1"} 7.0',
        'seatrial_worker_gpu_utilisation{worker="host:1"} 0.5',
        f'seatrial_shard_seconds_bucket{{{family},le="0.3",{stage}}} 1.0',
        f'seatrial_shard_seconds_bucket{{{family},le="3.0",{stage}}} 2.0',
        f'seatrial_shard_seconds_bucket{{{family},le="+Inf",{stage}}} 3.0',
        f"seatrial_shard_seconds_count{{{family},{stage}}} 3.0",
        f"seatrial_shard_seconds_sum{{{family},{stage}}} 5002.2",
        "# TYPE seatrial_lease_expiries_total counter",
    ):
        assert line in text, line
    assert 'worker="b"' not in text
    assert "seatrial_worker_disk_free_bytes{" not in text


def test_what_has_not_happened_is_told_as_0(client: httpx.Client, services: Services) -> None:
    with services.database.write() as session:
        count(session, SHARD_FAILURES, "uncertainty_span", "of-a-plugin")
        count(session, SHARDS_REQUEUED, "uncertainty_span", "error")
    text = client.get("/metrics").text
    for line in (
        *(f'seatrial_deliveries{{status="{status}"}} 0.0' for status in ("pending", "delivered", "failed")),
        'seatrial_shard_failures_total{code="of-a-plugin",family="uncertainty_span"} 1.0',
        'seatrial_shards_requeued_total{family="uncertainty_span",reason="error"} 1.0',
        'seatrial_lease_expiries_total{claim="model",family="none"} 0.0',
        *(f'seatrial_lease_expiries_total{{claim="training",family="{method}"}} 0.0' for method in training.methods()),
        *(f'seatrial_shard_failures_total{{code="worker-died",family="{family}"}} 0.0' for family in families()),
        *(f'seatrial_lease_expiries_total{{claim="shard",family="{family}"}} 0.0' for family in families()),
        *(
            f'seatrial_shards_requeued_total{{family="{family}",reason="{reason}"}} 0.0'
            for family in families()
            for reason in ("worker_died", "put_off", "worker_stopped")
        ),
    ):
        assert f"{line}\n" in text, line


def test_alerts_subtract_where_a_series_may_be_born_with_its_first_event() -> None:
    path = Path(__file__).parents[2] / "docs" / "monitoring" / "alerts.yaml"
    rules = {rule["alert"]: rule["expr"] for rule in yaml.safe_load(path.read_text())["groups"][0]["rules"]}
    for name in ("SeatrialWebhooksFail", "SeatrialLeasesRunOut", "SeatrialShardsFail"):
        now, before = rules[name].rpartition(" > ")[0].split(" - ")
        assert re.sub(r" offset \d+[hm]", "", before) == now != before, name


def test_panels_subtract_where_a_series_may_be_born_with_its_first_event() -> None:
    path = Path(__file__).parents[2] / "docs" / "monitoring" / "grafana.json"
    asked = [target["expr"] for panel in json.loads(path.read_text())["panels"] for target in panel["targets"]]
    assert not [one for one in asked if "increase(" in one]
    counted = [one for one in asked if any(f"seatrial_{counter.name}_total" in one for counter in COUNTERS)]
    assert len(counted) == len(COUNTERS)
    for one in counted:
        # What was not there an hour ago was 0.
        now, before, zero = re.fullmatch(r"(.+) - \((.+) or 0 \* (.+)\)", one).groups()  # type: ignore[union-attr]
        assert before.replace(" offset 1h", "") == now == zero != before


def test_dashboard_and_alerts_name_metrics_that_there_are(client: httpx.Client, services: Services) -> None:
    with services.database.write() as session:
        session.add(WorkerRow(id="scheduler", device="none", pid=1))
        observe(session, SHARD_SECONDS, "uncertainty_span", "attack", seconds=2.0)
        observe(session, CHECK_SECONDS, "uncertainty_span", "succeeded", seconds=2.0)
    client.get("/healthz")
    told = names_told(client.get("/metrics").text)
    folder = Path(__file__).parents[2] / "docs" / "monitoring"
    board = json.loads((folder / "grafana.json").read_text())
    asked = [target["expr"] for panel in board["panels"] for target in panel["targets"]]
    rules = yaml.safe_load((folder / "alerts.yaml").read_text())["groups"][0]["rules"]
    asked += [rule["expr"] for rule in rules]
    assert len(rules) >= 12
    for expression in asked:
        named = re.findall(r"\b(?:seatrial|process)_[a-z_]+", expression)
        assert named, expression
        assert set(named) <= told, expression
