import httpx
import pytest
from sqlalchemy.exc import OperationalError

from app.contracts.audits import AuditCreate
from app.web.bodies import parse_json
from app.web.problems import InvalidRequestError, Problem
from app.web.services import Services

SUBMISSION = '{"model": "mdl_x", "dataset": "dat_x", "checks": [%s]}'


def assert_problem(answer: httpx.Response, status: int, code: str | None = None) -> Problem:
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    problem = Problem.model_validate(answer.json())
    assert problem.status == status
    assert problem.request_id == answer.headers["x-request-id"]
    assert code in (None, problem.code)
    return problem


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/nowhere", 404),
        ("PUT", "/v1/models", 405),
        ("GET", "/v1/models/mdl_x", 404),
        ("GET", "/v1/datasets/dat_x", 404),
        ("GET", "/v1/audits/aud_x", 404),
        ("GET", "/v1/audits/aud_x/events", 404),
        ("GET", "/v1/audits/aud_x/records/0", 404),
        ("GET", "/v1/audits/aud_x/figures/0/span", 404),
        ("POST", "/v1/audits/aud_x/cancel", 404),
        ("POST", "/v1/audits/aud_x/retry", 404),
        ("DELETE", "/v1/keys/key_x", 404),
        ("GET", "/v1/audits?limit=0", 422),
        ("GET", "/v1/audits?cursor=nonsense", 422),
        ("GET", "/v1/audits/a%00b", 422),
        ("POST", "/v1/audits", 415),
    ],
)
def test_every_error_is_a_problem(client: httpx.Client, method: str, path: str, status: int) -> None:
    assert_problem(client.request(method, path), status)


@pytest.mark.parametrize(
    ("check", "pointer"),
    [
        ('{"kind": "nope"}', "/checks/0/kind"),
        ('{"kind": "uncertainty_span", "epsilon": -1}', "/checks/0/epsilon"),
        ('{"kind": "uncertainty_span", "epsilon": "1"}', "/checks/0/epsilon"),
        ('{"kind": "uncertainty_span", "epsilon": false}', "/checks/0/epsilon"),
        ('{"kind": "uncertainty_span", "epsilon": NaN}', "/checks/0/epsilon"),
        ('{"kind": "uncertainty_span", "steps": 1.5}', "/checks/0/steps"),
        ('{"kind": "uncertainty_span", "a/b~c": 1}', "/checks/0/a~1b~0c"),
        ('{"kind": "uncertainty_span", "outliers": {}}', "/checks/0/outliers/dataset"),
        ("", "/checks"),
    ],
)
def test_a_bad_body_is_pointed_at(client: httpx.Client, check: str, pointer: str) -> None:
    answer = client.post("/v1/audits", content=SUBMISSION % check, headers={"Content-Type": "application/json"})
    if "NaN" in check:
        assert_problem(answer, 400 if answer.status_code == 400 else 422)
        return
    problem = assert_problem(answer, 422, "invalid-request")
    assert problem.errors
    assert problem.errors[0].pointer == pointer


@pytest.mark.parametrize("body", [b"", b"{", b"\xff", b"[" * 100_000, b'{"a": 1}garbage', b'"\\ud800"', b"null"])
def test_a_body_that_is_no_json_object_is_refused(client: httpx.Client, body: bytes) -> None:
    answer = client.post("/v1/keys", content=body, headers={"Content-Type": "application/json"})
    assert answer.status_code in (400, 413, 422)
    assert_problem(answer, answer.status_code)


def test_whole_numbers_are_numbers_and_union_tags_stay_out_of_pointers() -> None:
    body = parse_json(SUBMISSION % '{"kind": "uncertainty_span", "epsilon": 1}', AuditCreate)
    assert body.checks[0].epsilon == 1.0
    with pytest.raises(InvalidRequestError) as caught:
        parse_json('{"model": 1, "dataset": "d", "checks": [{"kind": "uncertainty_span", "norm": "l7"}]}', AuditCreate)
    assert caught.value.errors is not None
    assert [error.pointer for error in caught.value.errors] == ["/model", "/checks/0/norm"]


def test_a_mistake_of_ours_tells_nothing_of_itself(
    client: httpx.Client, services: Services, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise RuntimeError("secret detail")

    monkeypatch.setattr("app.audits.routes.read_audit", fail)
    answer = client.get("/v1/audits/aud_x")
    assert_problem(answer, 500, "internal-error")
    assert "secret" not in answer.text
    assert answer.headers["x-content-type-options"] == "nosniff"


def test_a_database_that_is_away_is_a_503(client: httpx.Client, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> None:
        raise OperationalError("SELECT secret", {}, Exception("gone"))

    monkeypatch.setattr("app.audits.routes.read_audit", fail)
    answer = client.get("/v1/audits/aud_x")
    assert_problem(answer, 503, "unavailable")
    assert "secret" not in answer.text
    assert answer.headers["retry-after"]


def test_request_ids_are_taken_over_when_they_are_harmless(client: httpx.Client) -> None:
    assert client.get("/healthz", headers={"X-Request-ID": "ci-42"}).headers["x-request-id"] == "ci-42"
    assert client.get("/healthz", headers={"X-Request-ID": "a b\tc"}).headers["x-request-id"] != "a b\tc"


def test_a_wrong_method_is_told_the_right_ones(client: httpx.Client) -> None:
    assert client.put("/v1/models").headers["allow"] == "GET, POST"
    assert client.post("/v1/keys/key_x").headers["allow"] == "DELETE"
    assert client.post("/docs").headers["allow"] == "GET"
