"""The client against a real server, and against servers that misbehave."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest

from app import client as client_module
from app.client import Client, ProblemResponseError, ServiceUnreachableError, WaitTimeoutError
from app.contracts.audits import AuditRead
from app.contracts.states import ModelState, RunState
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


def test_a_wrong_key_is_a_problem(server: Server) -> None:
    with Client(server.url, "sea_wrong") as client, pytest.raises(ProblemResponseError) as caught:
        list(client.models())
    assert caught.value.status == 401


@pytest.fixture
def pauses(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Collect the pauses instead of making them."""
    made: list[float] = []
    monkeypatch.setattr(client_module.time, "sleep", made.append)
    return made


def scripted(*answers: Callable[[httpx.Request], httpx.Response]) -> tuple[Client, list[httpx.Request]]:
    """Return a client whose requests are answered in turn."""
    waiting, requests = list(answers), []

    def answer(request: httpx.Request) -> httpx.Response:
        requests.append(request)
        return waiting.pop(0)(request)

    return Client("http://service", transport=httpx.MockTransport(answer), retries=3), requests


def status(code: int, **headers: str) -> Callable[[httpx.Request], httpx.Response]:
    return lambda request: httpx.Response(code, headers=headers, json={"title": "T", "detail": "D", "status": code})


def failing(error: type[httpx.TransportError]) -> Callable[[httpx.Request], httpx.Response]:
    def fail(request: httpx.Request) -> httpx.Response:
        raise error("no", request=request)

    return fail


def page(request: httpx.Request) -> httpx.Response:
    return httpx.Response(200, json={"items": [], "next": None})


def test_reads_are_tried_again_with_growing_pauses(pauses: list[float]) -> None:
    client, requests = scripted(failing(httpx.ReadError), status(503), status(429, **{"Retry-After": "7"}), page)
    assert list(client.models()) == []
    assert len(requests) == 4
    assert pauses == [0.1, 0.0, 0.2, 7.0, 0.4]


def test_a_submit_without_a_key_is_sent_once(pauses: list[float]) -> None:
    client, requests = scripted(status(503))
    with pytest.raises(ProblemResponseError):
        client.submit("mdl_a", "dat_a", [CHECK])
    client, more = scripted(failing(httpx.ReadTimeout))
    with pytest.raises(ServiceUnreachableError):
        client.submit("mdl_a", "dat_a", [CHECK])
    assert len(requests) == len(more) == 1


def test_a_connection_that_was_never_made_is_tried_again_for_any_request(pauses: list[float]) -> None:
    client, requests = scripted(failing(httpx.ConnectError), status(422))
    with pytest.raises(ProblemResponseError, match="T: D"):
        client.submit("mdl_a", "dat_a", [CHECK])
    assert len(requests) == 2


def test_an_upload_is_sent_once(pauses: list[float], tmp_path: Path) -> None:
    weights = tmp_path / "w.safetensors"
    weights.write_bytes(b"x")
    client, requests = scripted(status(503))
    with pytest.raises(ProblemResponseError):
        client.add_model(weights, {})
    assert len(requests) == 1
    assert requests[0].headers["Prefer"] == "wait=30"


def test_an_endpoint_is_sent_again_and_waited_for(pauses: list[float]) -> None:
    client, requests = scripted(status(503), failing(httpx.ReadTimeout), status(422))
    with pytest.raises(ProblemResponseError, match="T: D"):
        client.add_endpoint(ENDPOINT, wait_s=60)
    assert [request.headers["Prefer"] for request in requests] == ["wait=60"] * 3
    assert requests[0].extensions["timeout"]["read"] == 90


def test_what_is_no_problem_document_is_told_all_the_same(pauses: list[float]) -> None:
    client, _ = scripted(lambda request: httpx.Response(418, text="<html>teapot"))
    with pytest.raises(ProblemResponseError, match="HTTP 418: <html>teapot"):
        client.audit("aud_1")


def test_nobody_there(pauses: list[float]) -> None:
    with Client(f"http://127.0.0.1:{free_port()}", retries=2) as client, pytest.raises(ServiceUnreachableError):
        list(client.models())
    assert len(pauses) == 2
