"""Models behind an HTTP endpoint: stored as their manifest, refused where they could never be asked."""

import hashlib
import json
from pathlib import Path
from typing import Any

import httpx
import pytest

from app.main import create_app
from app.web.services import Services
from seatrial.contracts.models import ModelManifest, ModelRead
from seatrial.contracts.problems import StoredProblem
from seatrial.contracts.states import ModelState
from seatrial.store.settings import Settings
from seatrial.store.tables import ModelRow
from tests.conftest import BASE_URL, TestClient
from tests.models.test_uploads import judging
from tests.uploads import assert_nothing_stored, model_manifest, upload, weights
from tests.web.test_problems import assert_problem


def endpoint_manifest(**more: Any) -> dict[str, Any]:
    """Return the manifest of an endpoint; what is given goes into its architecture."""
    architecture = {"kind": "endpoint", "url": "https://models.example.com/v1", "request": {"inputs": "{{texts}}"}}
    return {
        "name": "reviews",
        "version": "1",
        "task": "text-classification",
        "architecture": {**architecture, **more},
        "labels": ["negative", "positive"],
    }


def add(client: httpx.Client, manifest: dict[str, Any], **more: Any) -> httpx.Response:
    return client.post("/v1/models", json={"manifest": manifest}, **more)


def test_its_bytes_are_its_manifest(client: httpx.Client, services: Services) -> None:
    headers = {"Authorization": "Bearer {{secret:MODELS}}"}
    answer = add(client, endpoint_manifest(headers=headers, query_budget=100))
    assert answer.status_code == 201, answer.text
    told = ModelRead.model_validate(answer.json())
    assert (told.state, told.task, told.facts) == ("checking", "text-classification", None)
    assert told.manifest["architecture"]["headers"] == headers
    assert told.manifest["architecture"]["scores"] == "$"
    content = client.get(f"/v1/models/{told.id}/content")
    assert json.loads(content.content) == told.manifest
    assert told.digest == "sha256:" + hashlib.sha256(content.content).hexdigest()
    assert told.size_bytes == len(content.content)
    assert content.headers["content-disposition"].endswith('reviews-1.json"')
    assert ModelManifest.model_validate_json(content.content).architecture.kind == "endpoint"
    with services.database.read() as session:
        assert session.query(ModelRow).one().format == "endpoint"


def test_the_same_manifest_in_any_order_is_the_same_model(client: httpx.Client) -> None:
    first = add(client, endpoint_manifest(batch_size=16))
    said = endpoint_manifest()
    said["architecture"] = dict(reversed(said["architecture"].items()))
    again = add(client, dict(reversed(said.items())))
    assert (again.status_code, again.json()) == (201, first.json())
    problem = assert_problem(add(client, endpoint_manifest(batch_size=8)), 409)
    assert problem.errors
    assert problem.errors[0].pointer == "/manifest/version"


def test_a_patient_client_is_told_what_the_worker_found(client: httpx.Client, services: Services) -> None:
    problem = StoredProblem(
        code="endpoint-labels", title="T", detail="no score for 'positive'", field="/manifest/labels"
    )
    worker = judging(services, ModelState.REJECTED, problem=problem.model_dump())
    answer = add(client, endpoint_manifest(), headers={"Prefer": "wait=30"})
    worker.join()
    told = assert_problem(answer, 422, "endpoint-labels")
    assert told.errors
    assert told.errors[0].pointer == "/manifest/labels"
    assert add(client, endpoint_manifest(batch_size=8)).status_code == 201


@pytest.mark.parametrize(
    "host",
    ["localhost", "a.localhost", "127.0.0.1:8000", "2130706433", "0x7f.1", "[::1]", "[::ffff:10.0.0.1]", "10.1.2.3"],
)
def test_private_hosts_are_refused_at_once(client: httpx.Client, services: Services, host: str) -> None:
    problem = assert_problem(add(client, endpoint_manifest(url=f"http://{host}/v1")), 422, "invalid-request")
    assert problem.errors
    assert problem.errors[0].pointer == "/manifest/architecture/url"
    assert "SEATRIAL_ENDPOINT_ALLOWED_NETWORKS" in problem.detail
    assert_nothing_stored(services)


def test_private_hosts_the_operator_allows_are_taken(settings: Settings) -> None:
    allowing = settings.model_copy(update={"endpoint_allowed_networks": ["127.0.0.0/8"]})
    with TestClient(create_app(allowing), base_url=BASE_URL) as client:
        assert add(client, endpoint_manifest(url="http://127.0.0.1:8000/v1")).status_code == 201
        assert_problem(add(client, {**endpoint_manifest(url="http://10.0.0.1/v1"), "version": "2"}), 422)


def test_names_are_left_to_the_worker(client: httpx.Client, monkeypatch: pytest.MonkeyPatch) -> None:
    def look_up(*_: object, **__: object) -> None:
        raise AssertionError("the API looks nothing up")

    monkeypatch.setattr("socket.getaddrinfo", look_up)
    assert add(client, endpoint_manifest(url="https://internal.example.com/v1")).status_code == 201


@pytest.mark.parametrize(
    ("more", "pointer"),
    [
        ({"scores": "predictions"}, "/manifest/architecture/scores"),
        ({"scores": "$[?1e999"}, "/manifest/architecture/scores"),
        ({"scores": "$..a..b"}, "/manifest/architecture/scores"),
        ({"request": {"inputs": "text"}}, "/manifest/architecture/request"),
        ({"request": {"$each": "{{text}}", "n": 1}}, "/manifest/architecture/request"),
        ({"request": "{{text}}"}, "/manifest/architecture/batch_size"),
        ({"request": "{{text}}", "batch_size": 2}, "/manifest/architecture/batch_size"),
        ({"url": "ftp://models.example.com/"}, "/manifest/architecture/url"),
        ({"url": "https://models.example.com%zz\\/"}, "/manifest/architecture/url"),
        ({"url": "https://0177.0.0.1/"}, "/manifest/architecture/url"),
        ({"url": "https://user:word@models.example.com/"}, "/manifest/architecture/url"),
        ({"headers": {"Host": "a"}}, "/manifest/architecture/headers"),
        ({"headers": {"X-Key": "{{secret:no spaces}}"}}, "/manifest/architecture/headers/X-Key"),
        ({"surprise": 1}, "/manifest/architecture/surprise"),
    ],
)
def test_what_could_never_be_asked_is_refused_with_its_field(
    client: httpx.Client, services: Services, more: dict[str, Any], pointer: str
) -> None:
    problem = assert_problem(add(client, endpoint_manifest(**more)), 422, "invalid-request")
    assert problem.errors
    assert problem.errors[0].pointer == pointer
    if more.get("request") == "{{text}}":
        assert "{{text}} is a single example outside of $each: put {{texts}}, the list of all," in problem.detail
    assert_nothing_stored(services)


@pytest.mark.parametrize(
    ("task", "template"),
    [
        ("multi-label-classification", {"inputs": "{{texts}}"}),
        ("multi-label-classification", {"$each": {"t": "{{text}}"}}),
        ("token-classification", {"inputs": "{{sentences}}"}),
        ("token-classification", {"$each": {"words": "{{tokens}}"}}),
        ("text-pair-classification", {"$each": ["{{premise}}", "{{hypothesis}}"]}),
    ],
    ids=["labels", "labels each", "tags", "tags each", "pairs each"],
)
def test_every_task_of_texts_is_taken(client: httpx.Client, task: str, template: Any) -> None:
    answer = add(client, {**endpoint_manifest(request=template), "task": task})
    assert answer.status_code == 201, answer.text
    assert answer.json()["task"] == task


@pytest.mark.slow
@pytest.mark.parametrize(
    ("task", "template", "said"),
    [
        ("token-classification", "{{texts}}", "of token-classification may hold {{sentences}}, {{tokens}}"),
        ("token-classification", ["{{sentences}}", "{{texts}}"], "may hold {{sentences}}, {{tokens}}"),
        ("multi-label-classification", "{{sentences}}", "may hold {{texts}}, {{text}}"),
        ("text-classification", {"$each": "{{tokens}}"}, "may hold {{texts}}, {{text}}"),
        ("text-pair-classification", "{{sentences}}", "{{premises}}, {{premise}}, {{hypotheses}}, {{hypothesis}}"),
        ("text-pair-classification", "{{premises}}", "holds no {{hypotheses}} or {{hypothesis}}"),
        ("text-pair-classification", "{{hypotheses}}", "holds no {{premises}} or {{premise}}"),
        ("image-classification", "{{texts}}", "may hold {{images}}, {{image}}"),
    ],
    ids=["texts", "texts too", "sentences", "tokens", "of pairs", "half", "other half", "images"],
)
def test_a_template_of_another_task_is_refused_with_what_it_may_hold(
    client: httpx.Client, services: Services, task: str, template: Any, said: str
) -> None:
    manifest = {**endpoint_manifest(request=template), "task": task}
    if task == "image-classification":
        manifest["input"] = {"shape": [1, 8, 8]}
    problem = assert_problem(add(client, manifest), 422, "invalid-request")
    assert said in problem.detail
    assert problem.errors
    assert [one.pointer for one in problem.errors] == ["/manifest/architecture"]
    assert_nothing_stored(services)


def test_the_tokens_of_one_sentence_are_sent_alone(client: httpx.Client) -> None:
    said = {**endpoint_manifest(request={"words": "{{tokens}}"}), "task": "token-classification"}
    problem = assert_problem(add(client, said), 422, "invalid-request")
    assert problem.errors
    assert problem.errors[0].pointer == "/manifest/architecture/batch_size"
    said["architecture"]["batch_size"] = 1
    assert add(client, said).status_code == 201


def test_a_template_with_nan_is_refused(client: httpx.Client, services: Services) -> None:
    body = json.dumps({"manifest": endpoint_manifest(request={"inputs": "{{texts}}", "n": float("nan")})})
    problem = assert_problem(client.post("/v1/models", content=body, headers={"Content-Type": "application/json"}), 422)
    assert problem.errors
    assert problem.errors[0].pointer == "/manifest/architecture/request"
    assert_nothing_stored(services)


def test_an_endpoint_takes_no_file_and_no_path_and_weights_need_one(
    client: httpx.Client, services: Services, settings: Settings
) -> None:
    problem = assert_problem(upload(client, "models", endpoint_manifest(), weights()), 422)
    assert problem.errors
    assert (problem.errors[0].part, problem.errors[0].pointer) == ("form", "/manifest/architecture/kind")
    assert "application/json" in problem.detail
    path: Path = settings.allowed_paths[0] / "m.safetensors"
    path.write_bytes(weights())
    named = client.post("/v1/models", json={"manifest": endpoint_manifest(), "path": str(path)})
    assert "leave it out" in assert_problem(named, 422).detail
    assert "path is required" in assert_problem(add(client, model_manifest()), 422).detail
    assert_nothing_stored(services)


@pytest.mark.parametrize("name", ["Authorization", "x-api-key", "Cookie"])
def test_what_a_manifest_shows_to_everybody_is_no_secret(client: httpx.Client, name: str) -> None:
    refused = assert_problem(add(client, endpoint_manifest(headers={name: "Bearer sk-literal"})), 422)
    assert refused.errors[0].pointer == f"/manifest/architecture/headers/{name}"
    assert "{{secret:NAME}}" in refused.detail
    assert "sk-literal" not in refused.detail
    assert add(client, endpoint_manifest(headers={"X-Tenant": "literal"})).status_code == 201
