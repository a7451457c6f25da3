import io
import json
import re
from collections.abc import Iterator
from typing import Any

import httpx
import numpy as np
import pytest
from jsonschema import Draft202012Validator

from app.web import samples
from app.web.services import Services
from seatrial.contracts.registry import family
from seatrial.store.settings import Settings
from tests.audits.acting import make_ready
from tests.client.test_client import ENDPOINT
from tests.gates.over_http import ended
from tests.uploads import dataset_manifest, npz, upload, upload_both, weights


@pytest.fixture
def document(client: httpx.Client) -> dict[str, Any]:
    """The OpenAPI document as served."""
    answer = client.get("/openapi.json")
    assert answer.status_code == 200
    return dict(answer.json())


def operations(document: dict[str, Any]) -> list[tuple[str, str, dict[str, Any]]]:
    return [
        (path, method, operation)
        for path, methods in document["paths"].items()
        for method, operation in methods.items()
    ]


def test_every_reference_leads_somewhere(document: dict[str, Any]) -> None:
    for name in set(re.findall(r'"#/components/schemas/([^"]+)"', json.dumps(document))):
        assert name in document["components"]["schemas"]


def test_every_route_documents_itself_and_its_problems(document: dict[str, Any]) -> None:
    tags = {tag["name"] for tag in document["tags"]}
    for path, method, operation in operations(document):
        assert operation.get("summary"), (method, path)
        assert operation.get("description"), (method, path)
        assert set(operation["tags"]) <= tags
        assert "application/problem+json" in operation["responses"]["default"]["content"]
        if path.startswith("/v1/"):
            assert {"401", "403"} <= set(operation["responses"])
        for parameter in operation.get("parameters", ()):
            assert parameter.get("description"), (method, path, parameter["name"])


def test_every_field_of_a_body_is_described(document: dict[str, Any]) -> None:
    for name, schema in document["components"]["schemas"].items():
        for field, described in schema.get("properties", {}).items():
            assert described.get("description"), f"{name}.{field}"


def with_examples(of: Any) -> Iterator[dict[str, Any]]:
    """Yield every schema of a document that has examples."""
    if isinstance(of, dict):
        if isinstance(of.get("examples"), list) and {"type", "anyOf", "oneOf", "allOf", "$ref", "enum"} & set(of):
            yield of
        for name, inner in of.items():
            if name != "examples":
                yield from with_examples(inner)
    elif isinstance(of, list):
        for inner in of:
            yield from with_examples(inner)


def test_every_example_is_of_its_schema(document: dict[str, Any]) -> None:
    found = list(with_examples(document["components"]["schemas"])) + list(with_examples(document["paths"]))
    assert len(found) > 100
    for schema in found:
        asked = Draft202012Validator({**schema, "components": document["components"]})
        for example in schema["examples"]:
            assert not [error.message for error in asked.iter_errors(example)]


def test_every_example_of_a_body_works(
    client: httpx.Client, services: Services, document: dict[str, Any], settings: Settings
) -> None:
    images = upload_both(client)
    described = client.post("/v1/models", json={"manifest": ENDPOINT}).json()["id"]
    reviews = b"text,label\n" + b"".join(b"Good %d.,%d\n" % (row, row % 2) for row in range(500))
    manifest = {"name": "reviews", "version": "0", "task": "text-classification"}
    texts = (described, upload(client, "datasets", manifest, reviews).json()["id"])
    answers = b"example_id,label,p_a,p_b\n" + b"".join(
        b"x%d,b,%g,%g\n" % (row, row / 600, 1 - row / 600) for row in range(600)
    )
    manifest = {"name": "answers", "version": "0", "task": "predictions"}
    architecture = {"kind": "predictions", "probabilities": ["p_a", "p_b"]}
    told = {**manifest, "labels": ["a", "b"], "architecture": architecture}
    predicted = (
        upload(client, "models", told, answers).json()["id"],
        upload(client, "datasets", {**manifest, "labels": ["a", "b"]}, answers).json()["id"],
    )
    make_ready(services)
    folder = settings.allowed_paths[0]
    (folder / "mnist-cnn.safetensors").write_bytes(weights())
    (folder / "mnist-test.npz").write_bytes(npz())
    (folder / "reviews.csv").write_text("review,sentiment\nGood.,positive\nBad.,negative\n")
    audit = ended(client, images)
    trained_on = upload(client, "datasets", dataset_manifest(name="training"), npz(30)).json()["id"]
    posted = 0
    webhook = ""
    for path, method, operation in operations(document):
        content = operation.get("requestBody", {}).get("content", {}).get("application/json")
        if content is None:
            continue
        assert content["examples"], path
        for example in content["examples"].values():
            # Ids and folders are the reader's own; everything else is posted as it stands.
            body = json.loads(json.dumps(example["value"]))
            if "checks" in body:
                tasks = family(body["checks"][0]["kind"]).tasks
                pair = predicted if "predictions" in tasks else texts if "text-classification" in tasks else images
                body |= dict(zip(("model", "dataset"), pair, strict=True))
            for step in body.get("steps", []):
                if "hardening" in step:
                    step["hardening"] |= {"model": images[0], "dataset": trained_on}
                    step["hardening"]["audit"]["dataset"] = images[1]
                if "audit" in step:
                    step["audit"]["dataset"] = images[1]
                    if step["audit"]["model"].startswith("mdl_"):
                        step["audit"]["model"] = images[0]
            if "path" in body:
                body["path"] = str(folder / body["path"].rpartition("/")[2])
            if isinstance(body.get("audit"), dict):
                # What is trained on is other bytes than what is audited.
                body |= {"model": images[0], "dataset": trained_on}
                body["audit"]["dataset"] = images[1]
            elif "audit" in body:
                body["audit"] = audit
            answer = client.request(
                method, path.format(audit_id=audit, subject_id=audit, webhook_id=webhook, name="default"), json=body
            )
            assert answer.status_code in (200, 201, 202), (path, answer.text)
            if path == "/v1/webhooks":
                webhook = answer.json()["id"]
            posted += 1
    assert posted >= 12


def test_the_samples_are_what_the_examples_of_their_manifests_say(
    client: httpx.Client, services: Services, document: dict[str, Any]
) -> None:
    for kind, name in (("models", "stripes.safetensors"), ("datasets", "stripes.npz")):
        form = document["paths"][f"/v1/{kind}"]["post"]["requestBody"]["content"]["multipart/form-data"]["schema"]
        sample = client.get(f"/docs/samples/{name}")
        assert sample.status_code == 200
        answer = upload(client, kind, form["properties"]["manifest"]["example"], sample.content)
        assert answer.status_code == 201, answer.text
    assert client.get("/docs/samples/nothing").status_code == 404
    images = np.load(io.BytesIO(samples.dataset()))
    scores = (images["images"] / 255 - 0.5).reshape(len(images["labels"]), -1) @ samples.patterns().reshape(4, -1).T
    assert 0.9 < (scores.argmax(1) == images["labels"]).mean() < 1


def test_the_page_needs_no_network(client: httpx.Client) -> None:
    page = client.get("/docs")
    assert page.status_code == 200
    sources = re.findall(r'(?:src|href)="([^"]+)"', page.text)
    assert sources
    for source in sources:
        assert source.startswith(("/", "data:", "#/")), source
        if source.startswith("/"):
            assert client.get(source).status_code == 200, source
    assert "script-src 'self';" in page.headers["content-security-policy"]
    assert not re.search(r"<script>| on\w+=", page.text)
