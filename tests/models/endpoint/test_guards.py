"""Secrets, private addresses, and manifests that could never be asked."""

from collections.abc import Callable
from typing import Any

import pytest
from pydantic import SecretStr

from app.models.inspection import inspect_endpoint
from seatrial.contracts.endpoints import EndpointSecret
from seatrial.contracts.models import ModelManifest
from seatrial.net.endpoint_rules import EndpointRuleError
from seatrial.store.settings import Settings
from tests.models.endpoint.asked import Clock, manifest, reason, settings
from tests.scripted import Answerer, Asked, Scripted, answering
from workers.errors import TargetError
from workers.models.endpoint import EndpointClassifier

SECRET = 'to"ken-0123456789'


def with_secret(port: int | None = None, *, scheme: str = "http", host: str = "127.0.0.1", **more: Any) -> Settings:
    entry = {"host": host, "scheme": scheme, "port": port, "value": SecretStr(SECRET), **more}
    return settings(endpoint_secrets={"MODELS": EndpointSecret(**entry)})


HEADERS = {"Authorization": "Bearer {{secret:MODELS}}", "X-Team": "a"}


def test_a_secret_reaches_its_server(server: Scripted, classifier: Callable[..., EndpointClassifier]) -> None:
    assert len(classifier(with_secret(server.port), headers=HEADERS).check(["a"])) == 1
    assert server.asked[0].headers["authorization"] == f"Bearer {SECRET}"
    assert server.asked[0].headers["x-team"] == "a"
    own = with_secret(server.port, headers=["x-TOKEN"], projects=["nlp", "vision"])
    assert len(classifier(own, headers={"X-Token": "{{secret:MODELS}}"}, project="vision").check(["a"])) == 1
    assert server.asked[1].headers["x-token"] == SECRET


@pytest.mark.parametrize(
    ("bound", "asked"),
    [
        ({"host": "models.example.com"}, {}),
        ({"host": "127.0.0.1.evil.example"}, {}),
        ({"scheme": "https"}, {}),
        ({"port": 1}, {}),
        ({"port": None}, {}),
        ({"projects": ["nlp"]}, {}),
        ({}, {"project": "nlp"}),
        ({"headers": ["X-Token"]}, {}),
        ({}, {"headers": {"X-Log-This": "{{secret:MODELS}}"}}),
        ({}, {"headers": {"Authorization": "{{secret:OTHER}}"}}),
    ],
    ids=str,
)
def test_a_secret_reaches_nobody_else(
    server: Scripted, classifier: Callable[..., EndpointClassifier], bound: dict[str, Any], asked: dict[str, Any]
) -> None:
    with pytest.raises(TargetError) as caught:
        classifier(with_secret(**{"port": server.port, **bound}), **{"headers": HEADERS, **asked})
    problem = caught.value.problem
    assert problem.field == f"/manifest/architecture/headers/{next(iter(asked.get('headers', HEADERS)))}"
    # What would be right, and nothing of the entry there is.
    assert f'"host": "127.0.0.1", "scheme": "http", "port": {server.port}' in problem.detail
    assert "example" not in problem.detail
    assert SECRET not in problem.detail
    assert server.asked == []


def test_a_secret_no_header_can_carry_is_not_shown(
    server: Scripted, classifier: Callable[..., EndpointClassifier]
) -> None:
    with pytest.raises(TargetError, match="no header can carry") as caught:
        classifier(with_secret(server.port, value=SecretStr("a\nb-c")), headers=HEADERS)
    assert "b-c" not in str(caught.value)


def test_a_secret_is_known_to_the_api_or_left_to_the_workers() -> None:
    said = manifest("https://models.example.com/v1", headers=HEADERS)
    entry = EndpointSecret(host="Models.Example.com", value=SecretStr(SECRET))
    for known in ({}, {"MODELS": entry}):
        assert inspect_endpoint(said, Settings(endpoint_secrets=known), "default") == "endpoint"
    with pytest.raises(EndpointRuleError, match="for project nlp"):
        inspect_endpoint(said, Settings(endpoint_secrets={"MODELS": entry}), "nlp")


def test_a_secret_does_not_follow_a_redirect(server: Scripted, classifier: Callable[..., EndpointClassifier]) -> None:
    server.script = [answering(b"", 307, Location=server.url + "/elsewhere")]
    found = reason(classifier(with_secret(server.port), headers=HEADERS).logits(["a"])[0])
    assert found.code == "endpoint-redirects"
    assert len(server.asked) == 1


def test_a_secret_is_not_sent_in_plain_text_into_the_internet(clock: Clock) -> None:
    said = manifest("http://models.example.com/", headers=HEADERS, retries=0)
    endpoint = EndpointClassifier(
        said,
        with_secret(host="Models.Example.com"),
        "default",
        resolve=lambda host, port: ["93.184.216.34"],
        clock=clock,
    )
    answer = reason(endpoint.logits(["a"])[0])
    assert answer.code == "endpoint-address-refused"
    assert endpoint.sent == 1
    endpoint.close()


def echo(status: int, *, body: bool = True) -> Answerer:
    def answer(handler: Any, asked: Asked) -> None:
        said = asked.headers["authorization"]
        told = {"padding": "p" * 170, "you sent": said, "as it is": [said]} if body else b""
        answering(told, status, Location=f"http://x/?{said}")(handler, asked)

    return answer


@pytest.mark.parametrize("answer", [echo(200), echo(400), echo(401), echo(503), echo(302, body=False)])
def test_a_secret_that_comes_back_is_not_shown(
    server: Scripted, classifier: Callable[..., EndpointClassifier], answer: Answerer, caplog: pytest.LogCaptureFixture
) -> None:
    server.otherwise = answer
    with caplog.at_level("DEBUG"):
        found = reason(classifier(with_secret(server.port), headers=HEADERS, retries=1).logits(["a"])[0])
    for start in range(len(SECRET) - 4):
        assert SECRET[start : start + 5] not in found.detail
    assert SECRET not in caplog.text
    assert len(found.detail) < 500


@pytest.mark.parametrize(
    ("url", "allowed"),
    [
        ("http://127.0.0.1/", []),
        ("http://localhost:8000/", []),
        ("http://[::ffff:10.0.0.1]/", ["127.0.0.0/8"]),
        ("https://169.254.169.254/latest", []),
    ],
)
def test_private_addresses_are_refused(url: str, allowed: list[str]) -> None:
    with pytest.raises(TargetError) as caught:
        EndpointClassifier(manifest(url), Settings(endpoint_allowed_networks=allowed))
    assert caught.value.problem.field == "/manifest/architecture/url"
    assert "SEATRIAL_ENDPOINT_ALLOWED_NETWORKS" in caught.value.problem.detail


def test_a_name_that_leads_to_a_private_address_is_told_at_the_check(clock: Clock) -> None:
    endpoint = EndpointClassifier(
        manifest("http://models.example.com/"), Settings(), resolve=lambda host, port: ["10.0.0.7"], clock=clock
    )
    with pytest.raises(TargetError) as caught:
        endpoint.check(["a"])
    assert caught.value.problem.code == "endpoint-address-refused"
    assert "10.0.0.7" not in caught.value.problem.detail
    endpoint.close()


@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("predictions", "no JSONPath"),
        ("$[", "no JSONPath"),
        ("$[99999999999999999999]", "no JSONPath"),
        ("$..a..b", "may stand once"),
        ("$[0, 1]", "one selector"),
        ("$[?match(@.a, '(a+)+$')]", "literals"),
        ("$[?count($..*) > 1]", "literals"),
        ("$[?@.a == $.b]", "literals"),
        ("$[?@..a]", "literals"),
        ("$..[?@.a]", "cannot follow"),
        ("$" + "[?@" * 200, "no JSONPath"),
    ],
)
def test_a_path_without_a_bound_on_its_work_is_refused(path: str, said: str) -> None:
    with pytest.raises(TargetError) as caught:
        EndpointClassifier(manifest("https://models.example.com/", scores=path[:500]), Settings())
    assert caught.value.problem.field == "/manifest/architecture/scores"
    assert said in caught.value.problem.detail


@pytest.mark.parametrize(
    ("template", "member", "said"),
    [
        ({"$each": {"t": "{{text}}"}, "n": 1}, "request", "only member"),
        ({"$each": {"a": {"$each": "{{text}}"}}}, "request", "inside another"),
        ({"a": "{{text}}", "b": "{{texts}}"}, "batch_size", "batch_size to 1"),
    ],
)
def test_a_template_that_can_be_read_in_two_ways_is_refused(template: Any, member: str, said: str) -> None:
    with pytest.raises(TargetError) as caught:
        EndpointClassifier(manifest("https://models.example.com/", request=template), Settings())
    assert caught.value.problem.field == f"/manifest/architecture/{member}"
    assert said in caught.value.problem.detail


def test_other_architectures_are_no_endpoints() -> None:
    said = ModelManifest.model_validate(
        {"name": "m", "version": "1", "task": "text-classification", "architecture": {"kind": "huggingface"}}
    )
    with pytest.raises(TargetError, match="huggingface is no endpoint"):
        EndpointClassifier(said, Settings())
