"""Quotas hold, over everything at once, and their refusals name the limit and its use."""

import json
import threading
from typing import Any

import httpx
import pytest
from click.testing import CliRunner
from fastapi.testclient import TestClient
from sqlalchemy import select, update

from app.access.service import create_key
from app.cli import main
from app.web import quotas
from app.web.problems import ConflictError
from app.web.quotas import QuotaError, Quotas, check_submission
from app.web.services import Services
from seatrial.store.database import Database
from seatrial.store.ids import new_id
from seatrial.store.settings import Settings
from seatrial.store.tables import ActivityRow, AuditRow, CheckRow, QuotaRow
from seatrial.store.tables.base import utc_now
from seatrial.store.usage import disk_use
from tests.audits.acting import make_ready, submit
from tests.conftest import key_for
from tests.databases import migrated
from tests.deletions.test_http import ended
from tests.rows import add_audit, add_project
from tests.uploads import dataset_manifest, model_manifest, npz, submission, upload, upload_both, weights
from tests.web.test_problems import assert_problem


def limit(client: httpx.Client, **quotas: Any) -> None:
    answer = client.patch("/v1/projects/default", json={"quotas": quotas})
    assert answer.status_code == 200, answer.text


def assert_refused(answer: httpx.Response, status: int, name: str) -> dict[str, Any]:
    """Assert that an answer names the limit and its use, and return them."""
    assert_problem(answer, status, "quota-exceeded")
    told: dict[str, Any] = answer.json()["limit"]
    assert told["name"] == name
    assert name in answer.json()["detail"]
    return told


def test_audits_and_their_costs_are_limited_and_deleting_them_gives_nothing_back(
    client: httpx.Client, services: Services
) -> None:
    pair = upload_both(client)
    limit(client, daily_s=1e9)
    assert_problem(client.post("/v1/audits", json=submission(*pair)), 409, "cost-unknown")
    first = ended(client, services, pair)
    with services.database.read() as session:
        cost = session.execute(select(AuditRow.estimated_s).where(AuditRow.id == first)).scalar_one()
    assert cost is not None
    limit(client, audit_s=cost / 2)
    assert_refused(client.post("/v1/audits", json=submission(*pair)), 413, "audit_s")
    limit(client, audit_s=None, daily_s=1.5 * cost)
    assert client.delete(f"/v1/audits/{first}").status_code == 200
    told = assert_refused(client.post("/v1/audits", json=submission(*pair)), 429, "daily_s")
    assert told["used"] == pytest.approx(cost)
    limit(client, daily_s=None, unfinished_audits=1)
    submit(client, pair)
    refused = client.post("/v1/audits", json=submission(*pair))
    assert assert_refused(refused, 429, "unfinished_audits") == {"name": "unfinished_audits", "most": 1, "used": 1}
    assert refused.headers["retry-after"]
    assert client.get("/v1/projects/default").json()["spent"]["unfinished_audits"] == 1


def test_stored_bytes_are_limited_and_a_file_counts_once(client: httpx.Client) -> None:
    assert upload(client, "models", model_manifest(), weights()).status_code == 201
    limit(client, stored_bytes=len(weights()) + 100)
    # The limit is on what is new to the project's disk; the same file again is refused by what it would add at most.
    told = assert_refused(upload(client, "datasets", dataset_manifest(), npz()), 413, "stored_bytes")
    assert told["used"] == len(weights())
    limit(client, stored_bytes=10**6)
    assert upload(client, "datasets", dataset_manifest(), npz()).status_code == 201


def test_figures_that_checks_share_count_once_in_a_project(database: Database) -> None:
    project, others = add_project(database), add_project(database)
    add_figures(database, project, {"sha256:a": 10, "sha256:b": 20})
    assert told_figures(database, project) == 30
    add_figures(database, project, {"sha256:a": 10, "sha256:c": 5})
    assert told_figures(database, project) == 35
    # A worker of the version before tells their sum alone.
    add_figures(database, project, {"sha256:a": 10}, tells_sizes=False)
    assert told_figures(database, project) == 45
    assert told_figures(database, others) == 0


def add_figures(
    database: Database,
    project_id: str,
    sizes: dict[str, int],
    *,
    tells_sizes: bool = True,
) -> None:
    audit = add_audit(database, project_id=project_id)
    with database.write() as session:
        check = session.scalars(select(CheckRow).where(CheckRow.audit_id == audit)).one()
        check.figures, check.figures_bytes = {f"of {digest}": digest for digest in sizes}, sum(sizes.values())
        check.figure_sizes = sizes if tells_sizes else None


def told_figures(database: Database, project_id: str) -> int:
    with database.read() as session:
        return disk_use(session, project_id).figures


def test_files_are_added_up_now_and_then_for_submissions_and_anew_for_a_refusal(
    client: httpx.Client, services: Services, monkeypatch: pytest.MonkeyPatch
) -> None:
    pair = upload_both(client)
    make_ready(services)
    sums = []
    monkeypatch.setattr(quotas, "disk_use", lambda *args: sums.append(args) or disk_use(*args))
    room = len(weights()) + len(npz()) + 1
    limit(client, stored_bytes=room)
    for _ in range(3):
        assert client.post("/v1/audits", json=submission(*pair)).status_code == 202
    assert len(sums) == 1
    # A limit that is lowered holds at once, and a project that is full is asked every time.
    limit(client, stored_bytes=room - 1)
    for _ in range(2):
        assert_refused(client.post("/v1/audits", json=submission(*pair)), 413, "stored_bytes")
    assert len(sums) == 3
    limit(client, stored_bytes=room)
    with monkeypatch.context() as later:
        later.setattr(quotas, "_SUM_KEPT_S", 0.0)
        assert client.post("/v1/audits", json=submission(*pair)).status_code == 202
    assert len(sums) == 4
    # An upload is weighed by what is there now.
    assert_refused(upload(client, "datasets", dataset_manifest(version="2"), npz(2)), 413, "stored_bytes")
    assert len(sums) == 5


def test_a_refusal_advises_what_would_help(client: httpx.Client, services: Services) -> None:
    """Nothing that is used can be deleted, nor waited for, where the limit itself is too low."""

    def told(answer: httpx.Response, status: int, name: str) -> str:
        assert_refused(answer, status, name)
        return str(answer.json()["detail"])

    def model() -> httpx.Response:
        return upload(client, "models", model_manifest(), weights())

    limit(client, stored_bytes=0)
    raised = "the operator can raise it."
    nothing = f"This project may store nothing (stored_bytes is 0): {raised}"
    assert told(model(), 413, "stored_bytes") == nothing
    limit(client, stored_bytes=100)
    assert told(model(), 413, "stored_bytes").endswith(f"may store 100 in all (stored_bytes): {raised}")
    limit(client, stored_bytes=None, open_uploads=0)
    assert told(refused := model(), 429, "open_uploads").endswith(f"upload nothing (open_uploads is 0): {raised}")
    assert "retry-after" not in refused.headers
    limit(client, open_uploads=None)
    pair = upload_both(client)
    make_ready(services)
    limit(client, stored_bytes=len(weights()) + len(npz()) + 10)
    refused = upload(client, "datasets", dataset_manifest(version="2"), npz(2))
    assert told(refused, 413, "stored_bytes").endswith(": delete audits, models or datasets.")
    fewer = "take fewer samples, steps or checks."
    free = dict.fromkeys(("stored_bytes", "unfinished_audits", "daily_s", "audit_s"))
    for quota, most, advice in (
        ("stored_bytes", 0, nothing),
        ("unfinished_audits", 0, f"submit no audit (unfinished_audits is 0): {raised}"),
        ("daily_s", 1e-6, f" s (daily_s): {fewer}"),
        ("audit_s", 1e-6, f" s (audit_s): {fewer}"),
    ):
        limit(client, **{**free, quota: most})
        refused = client.post("/v1/audits", json=submission(*pair))
        assert told(refused, refused.status_code, quota).endswith(advice), quota
        # No time that passes gives room.
        assert "retry-after" not in refused.headers, quota


def test_requests_and_uploads_are_limited_by_project(keyed: TestClient) -> None:
    run, other = key_for(keyed, "run"), key_for(keyed, "run", "other")
    services: Services = keyed.app.state.services  # type: ignore[attr-defined]
    with services.database.write() as session:
        project = session.execute(select(ActivityRow.project_id).order_by(ActivityRow.id)).scalars().first()
        session.add(QuotaRow(project_id=project, requests_per_s=0.01, open_uploads=0))
    assert keyed.get("/v1/models", headers=run).status_code == 200
    refused = keyed.get("/v1/models", headers=run)
    assert_refused(refused, 429, "requests_per_s")
    assert 90 <= int(refused.headers["retry-after"]) <= 100
    assert keyed.get("/v1/models", headers=other).status_code == 200
    with services.database.write() as session:
        session.execute(update(QuotaRow).values(requests_per_s=None))
    services.of(Quotas).forget(str(project))
    answer = upload(keyed, "models", model_manifest(), weights(), headers=run)
    assert_refused(answer, 429, "open_uploads")
    assert upload(keyed, "models", model_manifest(), weights(), headers=other).status_code == 201


def test_an_admin_of_a_project_may_not_raise_its_own_limits(keyed: TestClient) -> None:
    admin = key_for(keyed, "admin")
    for change in ({"quotas": {"unfinished_audits": None}}, {"weight": 5.0}, {"priority": 1}):
        assert_problem(keyed.patch("/v1/projects/vision", json=change, headers=admin), 403, "forbidden")
    assert keyed.patch("/v1/projects/vision", json={"retention": {"audits": 3}}, headers=admin).status_code == 200
    assert_problem(keyed.get("/v1/projects/default", headers=admin), 404, "not-found")


def test_of_two_that_submit_at_once_one_is_refused(database: Database) -> None:
    project = add_project(database)
    with database.write() as session:
        session.add(QuotaRow(project_id=project, unfinished_audits=3))
    refused: list[Exception] = []

    def one() -> None:
        try:
            with database.write() as session:
                check_submission(session, project, 1.0)
                copied = {"project_id": project, "model_id": model, "dataset_id": dataset, "seed": 0, "samples": 1}
                session.add(AuditRow(id=new_id("aud"), spec={}, spec_digest="", created_at=utc_now(), **copied))
        except (QuotaError, ConflictError) as error:
            refused.append(error)

    first = add_audit(database, project_id=project)
    with database.read() as session:
        row = session.get_one(AuditRow, first)
        model, dataset = row.model_id, row.dataset_id
    threads = [threading.Thread(target=one) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    with database.read() as session:
        assert len(session.scalars(select(AuditRow.id)).all()) == 3
    assert len(refused) == 4


def test_who_does_what_is_written_down(client: httpx.Client, services: Services) -> None:
    pair = upload_both(client)
    key = client.post("/v1/keys", json={"name": "ci"}).json()["id"]
    client.delete(f"/v1/keys/{key}")
    audit = ended(client, services, pair)
    client.post("/v1/baselines", json={"audit": audit, "name": "champion", "note": "best"})
    policy = {"name": "release", "rules": [{"metric": "uncertainty_span.clean_accuracy", "min": 0.9}]}
    client.post("/v1/policies", json=policy)
    limit(client, unfinished_audits=5)
    log = client.get("/v1/activity").json()["items"]
    assert [one["action"] for one in reversed(log)] == [
        "key.created",
        "key.revoked",
        "baseline.promoted",
        "policy.stored",
        "project.changed",
    ]
    assert {one["actor"] for one in log} == {"operator"}
    assert log[0]["details"] == {"quotas": {"unfinished_audits": 5}}
    assert log[2]["details"]["note"] == "best"
    make_ready(services)


def test_the_operator_reads_what_was_done_in_any_project(client: httpx.Client) -> None:
    client.post("/v1/keys", json={"name": "x", "scope": "read", "project": "speech"})
    assert client.get("/v1/activity").json()["items"] == []
    (entry,) = client.get("/v1/activity", params={"project": "speech"}).json()["items"]
    assert (entry["action"], entry["details"]["name"]) == ("key.created", "x")
    assert_problem(client.get("/v1/activity", params={"project": "nowhere"}), 404)


def test_an_admin_reads_its_own_project_alone(keyed: TestClient) -> None:
    mine, theirs = key_for(keyed, "admin"), key_for(keyed, "admin", project="speech")
    own = keyed.get("/v1/activity", params={"project": "vision"}, headers=mine)
    assert own.json()["items"] == keyed.get("/v1/activity", headers=mine).json()["items"]
    assert_problem(keyed.get("/v1/activity", params={"project": "vision"}, headers=theirs), 404)


def test_the_command_line_shows_what_projects_may_use(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SEATRIAL_HOME", "")
    empty = migrated(settings)
    for name in ("vision", "speech"):
        create_key(empty, name, "x", "read")

    def run(command: str, *arguments: str) -> str:
        return CliRunner().invoke(main, ["projects", command, "--home", str(settings.home), *arguments]).output

    run("quota", "vision", "--unfinished-audits", "20", "--audit-s", "3600")
    listed = {line.partition("  ")[0]: line for line in run("list").splitlines()}
    assert listed["vision"].endswith("  unfinished_audits 20, audit_s 3600")
    assert listed["speech"].endswith("  no limits")
    shown = json.loads(run("show", "vision"))
    assert (shown["quotas"]["unfinished_audits"], shown["spent"]["unfinished_audits"]) == (20, 0)
    assert shown["disk"]["total"] == 0
    assert "there is no project visio" in run("show", "visio")
