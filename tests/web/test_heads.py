"""HEAD answers as GET does, without a body and without the work for one."""

import httpx
import pytest

from app.web.services import Services
from tests.audits.acting import end_check, first_check, make_ready, open_stage, run_shard
from tests.uploads import submission, upload_both
from tests.web.test_problems import assert_problem


@pytest.fixture
def paths(client: httpx.Client, services: Services) -> list[str]:
    """A path of everything that can be read, of a finished audit."""
    model, dataset = upload_both(client)
    make_ready(services)
    audit = client.post("/v1/audits", json=submission(model, dataset)).json()["id"]
    open_stage(services, first_check(services, audit), "attack", [(0, 20)])
    run_shard(services)
    end_check(services)
    of_audit = ("", "/events", "/records/0", "/records/0?format=jsonl", "/figures/0/span", "/report")
    return [
        *("/healthz", "/readyz", "/docs", "/v1/audits", f"/v1/models/{model}", f"/v1/models/{model}/content"),
        *(f"/v1/datasets/{dataset}/content", *(f"/v1/audits/{audit}{rest}" for rest in of_audit)),
    ]


def test_the_headers_are_those_of_get(client: httpx.Client, paths: list[str]) -> None:
    for path in paths:
        whole, head = client.get(path), client.head(path)
        assert (head.status_code, head.content) == (200, b""), path
        for name in ("content-type", "content-length", "etag", "seatrial-complete"):
            assert head.headers.get(name) == whole.headers.get(name), (path, name)


def test_the_stream_of_a_waiting_audit_is_not_begun(client: httpx.Client) -> None:
    audit = client.post("/v1/audits", json=submission(*upload_both(client))).json()["id"]
    answer = client.head(f"/v1/audits/{audit}/events")
    assert (answer.status_code, answer.headers["content-type"]) == (200, "text/event-stream; charset=utf-8")


def test_what_is_not_there_is_not_there_for_head(client: httpx.Client) -> None:
    assert client.head("/v1/models/mdl_x").status_code == 404
    assert client.head("/v1/audits/aud_x/cancel").status_code == 405
    assert_problem(client.get("/v1/models/mdl_x"), 404)


def test_metrics_know_the_route(client: httpx.Client) -> None:
    client.head("/v1/models/mdl_x")
    wanted = 'seatrial_http_requests_total{method="HEAD",route="/v1/models/{model_id}",status="404"} 1.0'
    assert wanted in client.get("/metrics").text
