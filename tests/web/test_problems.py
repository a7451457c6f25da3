import httpx
import pytest
from sqlalchemy.exc import OperationalError

from app.web.bodies import parse_json
from app.web.problems import InvalidRequestError, Problem
from app.web.services import Services
from seatrial.contracts.audits import AuditCreate
from seatrial.store.settings import Settings
from tests.uploads import model_manifest, upload, weights

SUBMISSION = '{"model": "mdl_x", "dataset": "dat_x", "checks": [%s]}'


def assert_problem(answer: httpx.Response, status: int, code: str | None = None) -> Problem:
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/problem+json"
    problem = Problem.model_validate(answer.json())
    assert problem.status == status
    assert problem.request_id == answer.headers["x-request-id"]
    assert code in (None, problem.code)
    return problem


@pytest.mark.slow
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
        ("{}", "/checks/0/kind"),
        ("3", "/checks/0"),
        ('{"kind": "uncertainty_span", "epsilon": -1}', "/checks/0/epsilon"),
        ('{"kind": "uncertainty_span", "epsilon": "1"}', "/checks/0/epsilon"),
        ('{"kind": "uncertainty_span", "epsilon": false}', "/checks/0/epsilon"),
        ('{"kind": "uncertainty_span", "epsilon": NaN}', "/checks/0/epsilon"),
        ('{"kind": "uncertainty_span", "steps": 1.5}', "/checks/0/steps"),
        ('{"kind": "uncertainty_span", "a/b~c": 1}', "/checks/0/a~1b~0c"),
        ('{"kind": "uncertainty_span", "outliers": {}}', "/checks/0/outliers/dataset"),
        ('{"kind": "uncertainty_span", "restarts": 2}', "/checks/0/restarts"),
        ('{"kind": "uncertainty_span", "attacks": ["ace", "ace"]}', "/checks/0/attacks"),
        ('{"kind": "uncertainty_span", "epsilon": 1.5, "norm": "linf"}', "/checks/0/epsilon"),
        ('{"kind": "uncertainty_span"}, {"kind": "uncertainty_span", "norm": "linf"}', "/checks/1"),
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
    assert (problem.errors[0].part, problem.errors[0].pointer) == ("body", pointer)


@pytest.mark.parametrize(
    ("check", "pointer", "known"),
    [
        (
            '{"kind": "uncertainty_span", "epsilonn": 0.1}',
            "/checks/0/epsilonn",
            ": did you mean 'epsilon'? Known fields: kind, ",
        ),
        (
            '{"kind": "uncertainty_span", "outliers": {"data": "x"}}',
            "/checks/0/outliers/data",
            ": did you mean 'dataset'? Known fields: dataset",
        ),
        (
            '{"kind": "uncertainty_span"}], "sample": 5, "checks": [',
            "/sample",
            ": did you mean 'samples'? Known fields: model, dataset, checks, ",
        ),
        (
            '{"kind": "uncertainty_span"}], "policy": {"name": "p", "ruless": []}, "checks": [',
            "/policy/ruless",
            ": did you mean 'rules'? Known fields: name, description, rules, ",
        ),
    ],
    ids=["parameter", "nested", "audit", "policy"],
)
def test_an_unknown_field_is_refused_with_those_there_are(
    client: httpx.Client, check: str, pointer: str, known: str
) -> None:
    answer = client.post("/v1/audits", content=SUBMISSION % check, headers={"Content-Type": "application/json"})
    problem = assert_problem(answer, 422, "invalid-request")
    found = {one.pointer: one.detail for one in problem.errors}
    assert found[pointer].startswith(f"unknown field{known}")


@pytest.mark.parametrize(
    ("check", "pointer", "told"),
    [
        ('{"kind": "uncertanty_span"}', "/checks/0/kind", "'uncertanty_span' is not a choice here: did you mean "),
        ('{"steps": 3}', "/checks/0/kind", "kind is required; there are uncertainty_span, "),
        (
            '{"kind": "uncertainty_span", "norm": "L_2"}',
            "/checks/0/norm",
            "'L_2' is not a choice here: did you mean 'l2'? Choices are linf, l2",
        ),
        (
            '{"kind": "temperature_attack", "recipes": ["textfooler", "pwss"]}',
            "/checks/0/recipes/1",
            "'pwss' is not a choice here: did you mean 'pwws'? Choices are ",
        ),
    ],
    ids=["family", "none", "parameter", "inner"],
)
def test_a_value_that_is_none_of_a_few_is_refused_with_the_nearest(check: str, pointer: str, told: str) -> None:
    with pytest.raises(InvalidRequestError) as refused:
        parse_json(SUBMISSION % check, AuditCreate)
    found = {one.pointer: one.detail for one in refused.value.errors}
    assert found[pointer].startswith(told)


def test_a_misspelt_attacker_is_told_once() -> None:
    # The field takes `all`, or a list of names: what is neither is not told for each.
    with pytest.raises(InvalidRequestError) as refused:
        parse_json(SUBMISSION % '{"kind": "low_level_attack", "attackers": ["visual", "vizual"]}', AuditCreate)
    ((pointer, told),) = [(one.pointer, one.detail) for one in refused.value.errors if "attackers" in one.pointer]
    assert pointer == "/checks/0/attackers"
    assert told.startswith("'vizual' is not a choice here: did you mean 'visual'? Choices are inner_shuffle, ")


def test_parameters_of_a_query_are_refused_in_the_same_words(client: httpx.Client) -> None:
    state = client.get("/v1/audits?state=suceeded").json()["errors"][0]["detail"]
    assert state.startswith("'suceeded' is not a choice here: did you mean 'succeeded'? Choices are queued, ")
    name = client.get("/v1/audits?verdct=passed").json()["errors"][0]["detail"]
    assert name.startswith("This route has no parameter 'verdct': did you mean 'verdict'? There are ")
    board = client.get("/v1/leaderboard?dataset=dat_x&check=uncertanty_span").json()["errors"][0]["detail"]
    assert board.startswith("There is no family 'uncertanty_span': did you mean 'uncertainty_span'? There are ")


@pytest.mark.parametrize(
    ("method", "path", "headers", "part", "pointer"),
    [
        ("GET", "/v1/audits?limit=0", {}, "query", "/limit"),
        ("GET", "/v1/audits?cursor=nonsense", {}, "query", "/cursor"),
        ("GET", "/v1/audits/a%00b", {}, "path", "/audit_id"),
        ("GET", "/v1/audits/a/events", {"Last-Event-ID": "x"}, "header", "/last-event-id"),
    ],
)
def test_an_error_says_which_part_of_the_request_it_is_in(
    client: httpx.Client, method: str, path: str, headers: dict[str, str], part: str, pointer: str
) -> None:
    answer = client.request(method, path, headers=headers)
    assert_problem(answer, 422, "invalid-request")
    assert [(one["in"], one["pointer"]) for one in answer.json()["errors"]] == [(part, pointer)]


def test_the_same_mistake_is_pointed_at_in_a_form_and_in_a_reference(client: httpx.Client, settings: Settings) -> None:
    def places(answer: httpx.Response) -> list[tuple[str, str]]:
        return [(one["in"], one["pointer"]) for one in answer.json()["errors"]]

    empty = settings.allowed_paths[0] / "empty"
    empty.touch()
    reference = {"manifest": model_manifest(), "path": str(empty)}
    assert places(upload(client, "models", model_manifest(), b"")) == [("form", "/file")]
    assert places(client.post("/v1/models", json=reference)) == [("body", "/path")]
    wrong = model_manifest(labels=1)
    assert places(upload(client, "models", wrong, weights())) == [("form", "/manifest/labels")]
    assert places(client.post("/v1/models", json=reference | {"manifest": wrong})) == [("body", "/manifest/labels")]


@pytest.mark.parametrize(
    "path",
    [
        "/v1/models",
        "/v1/datasets",
        "/v1/audits",
        "/v1/keys",
        "/v1/models/mdl_x",
        "/v1/models/mdl_x/content",
        "/v1/audits/aud_x",
        "/v1/audits/aud_x/events",
        "/v1/audits/aud_x/records/0",
        "/v1/audits/aud_x/report",
    ],
)
def test_an_unknown_query_parameter_is_refused_by_name(client: httpx.Client, path: str) -> None:
    problem = assert_problem(client.get(path, params={"stat": "failed"}), 422, "invalid-request")
    assert problem.errors
    assert [(one.part, one.pointer) for one in problem.errors] == [("query", "/stat")]
    if path == "/v1/audits":
        assert "cursor, limit, model, state, verdict" in problem.detail


@pytest.mark.parametrize("body", [b"", b"{", b"\xff", b"[" * 100_000, b'{"a": 1}garbage', b'"\\ud800"', b"null"])
def test_a_body_that_is_no_json_object_is_refused(client: httpx.Client, body: bytes) -> None:
    answer = client.post("/v1/keys", content=body, headers={"Content-Type": "application/json"})
    assert answer.status_code in (400, 413, 422)
    assert_problem(answer, answer.status_code)


@pytest.mark.slow
def test_a_hundred_thousand_mistakes_are_not_told_one_by_one(client: httpx.Client) -> None:
    body = {"name": "a", **{f"{number:x}": 1 for number in range(1500)}}
    problem = assert_problem(client.post("/v1/keys", json=body), 422, "invalid-request")
    assert problem.errors
    assert len(problem.errors) == 100
    assert "the first 100 of 1,500" in problem.detail
    assert len(assert_problem(client.post("/v1/keys", json={"name": "a", "b": 1, "c": 1}), 422).errors or ()) == 2


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
    assert client.put("/v1/models").headers["allow"] == "GET, HEAD, POST"
    assert client.post("/v1/keys/key_x").headers["allow"] == "DELETE"
    assert client.post("/docs").headers["allow"] == "GET, HEAD"
    assert client.head("/v1/audits/aud_x/cancel").headers["allow"] == "POST"
