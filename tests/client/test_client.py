"""The client against a real server."""

from pathlib import Path
from typing import Any

import pytest

from seatrial.client import Client, ProblemResponseError, WaitTimeoutError
from seatrial.contracts.audits import AuditRead
from seatrial.contracts.states import ModelState, RunState
from tests import assets
from tests.client.conftest import Server
from tests.servers import free_port

CHECK = {"kind": "uncertainty_span", "epsilon": 0.1, "steps": 3}


@pytest.fixture
def files(tmp_path: Path) -> tuple[Path, Path]:
    model, data = tmp_path / "model.safetensors", tmp_path / "data.npz"
    model.write_bytes(assets.weights())
    data.write_bytes(assets.npz(60))
    return model, data


def submitted(client: Client, files: tuple[Path, Path], **options: Any) -> AuditRead:
    model = client.add_model(files[0], assets.model_manifest(), wait_s=0)
    dataset = client.add_dataset(files[1], assets.dataset_manifest())
    return client.submit(model.id, dataset.id, [CHECK], samples=50, **options)


@pytest.mark.slow
def test_upload_submit_read_cancel(client: Client, files: tuple[Path, Path]) -> None:
    audit = submitted(client, files, seed=7)
    assert audit.state == RunState.QUEUED
    assert (audit.seed, audit.samples) == (7, 50)
    assert client.model(audit.model).state == ModelState.CHECKING
    assert client.dataset(audit.dataset).facts.examples == 60
    assert [one.id for one in client.audits()] == [audit.id]
    assert [one.id for one in client.models()] == [audit.model]
    assert [one.id for one in client.datasets()] == [audit.dataset]
    assert client.cancel(audit.id).state == RunState.CANCELLED
    assert client.cancel(audit.id).state == RunState.CANCELLED
    assert client.wait(audit.id, timeout_s=5).state == RunState.CANCELLED
    assert client.cancel_check(audit.model).state == ModelState.REJECTED


ENDPOINT: dict[str, Any] = {
    "name": "reviews",
    "version": "1",
    "task": "text-classification",
    "architecture": {"kind": "endpoint", "url": "https://models.example.com/", "request": {"inputs": "{{texts}}"}},
    "labels": ["negative", "positive"],
}


def test_an_endpoint_is_stored_and_stored_once(client: Client) -> None:
    model = client.add_endpoint(ENDPOINT, wait_s=0)
    assert (model.name, model.state) == ("reviews", ModelState.CHECKING)
    assert client.add_endpoint(ENDPOINT, wait_s=0).id == model.id
    with pytest.raises(ProblemResponseError, match="path is required"):
        client.add_endpoint(assets.model_manifest(), wait_s=0)


def test_the_report_comes_in_both_formats(client: Client, files: tuple[Path, Path]) -> None:
    audit = submitted(client, files)
    assert client.report(audit.id).startswith(b"<!doctype html>")
    assert b'"seatrial.report/1"' in client.report(audit.id, "json")


def test_an_estimate_spends_nothing(client: Client, files: tuple[Path, Path]) -> None:
    audit = submitted(client, files)
    assert client.estimate(audit.model, audit.dataset, [CHECK], samples=50).examples == 50
    assert len(list(client.audits())) == 1


def test_the_same_upload_again_is_what_is_there(client: Client, files: tuple[Path, Path]) -> None:
    first = submitted(client, files)
    again = submitted(client, files)
    assert (again.model, again.dataset) == (first.model, first.dataset)
    assert again.id != first.id


def test_events_are_followed_to_the_end_and_from_the_middle(client: Client, files: tuple[Path, Path]) -> None:
    audit = submitted(client, files)
    client.cancel(audit.id)
    seen = list(client.events(audit.id))
    assert [one.seq for one in seen] == list(range(1, len(seen) + 1))
    assert [one.data["state"] for one in seen if one.kind == "audit"][-1] == "cancelled"
    assert list(client.events(audit.id, after=2)) == seen[2:]


def test_the_same_key_submits_once(client: Client, files: tuple[Path, Path]) -> None:
    first = submitted(client, files, idempotency_key="once")
    again = client.submit(first.model, first.dataset, [CHECK], samples=50, idempotency_key="once")
    assert again.id == first.id


def test_lists_are_read_to_their_last_page(client: Client, files: tuple[Path, Path]) -> None:
    for version in "12345":
        client.add_dataset(files[1], assets.dataset_manifest(version=version))
    assert [one.version for one in client.datasets(limit=2)] == list("54321")


def test_a_problem_is_raised_with_its_fields(client: Client, files: tuple[Path, Path]) -> None:
    dataset = client.add_dataset(files[1], assets.dataset_manifest())
    with pytest.raises(ProblemResponseError) as caught:
        client.submit("mdl_x", dataset.id, [{**CHECK, "epsilon": -1}])
    assert caught.value.status == 422
    assert "epsilon" in str(caught.value)
    with pytest.raises(ProblemResponseError, match="aud_nothing"):
        client.audit("aud_nothing")


def test_the_id_of_something_else_is_called_that(client: Client, files: tuple[Path, Path]) -> None:
    audit = submitted(client, files)
    with pytest.raises(
        ProblemResponseError, match=f"{audit.dataset} is the id of a dataset, and this takes that of a "
    ):
        client.submit(audit.dataset, audit.model, [CHECK])
    with pytest.raises(ProblemResponseError, match=r"of a model, and this takes that of an audit \(aud_"):
        client.audit(audit.model)


def test_records_that_are_not_there_leave_no_file(client: Client, files: tuple[Path, Path], tmp_path: Path) -> None:
    audit = submitted(client, files)
    with pytest.raises(ProblemResponseError):
        client.records(audit.id, audit.checks[0].id, tmp_path / "records.parquet")
    assert not (tmp_path / "records.parquet").exists()


def test_patience_ends_and_progress_is_told(client: Client, files: tuple[Path, Path]) -> None:
    audit = submitted(client, files)
    seen: list[str] = []
    with pytest.raises(WaitTimeoutError, match="still queued"):
        client.wait(audit.id, timeout_s=0.5, progress=lambda one: seen.append(one.state))
    assert seen
    assert set(seen) == {"queued"}


def test_a_proxy_of_the_environment_is_not_asked_for_this_machine(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HTTP_PROXY", f"http://127.0.0.1:{free_port()}")
    with Client(server.url, retries=0) as client:
        assert list(client.models()) == []


def test_a_wrong_key_is_a_problem(server: Server) -> None:
    with Client(server.url, "sea_wrong") as client, pytest.raises(ProblemResponseError) as caught:
        list(client.models())
    assert caught.value.status == 401
