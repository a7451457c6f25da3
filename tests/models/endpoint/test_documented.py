"""The manifests the pages show, asked of servers that answer as the pages say."""

import json
from typing import Any

import pytest
import torch

from app.models.schemas import IMAGES_REFERENCE, LANGUAGE_MODEL_REFERENCE
from seatrial.contracts.models import ModelManifest, ModelReference
from tests.models.endpoint.asked import settings
from tests.models.endpoint.language_server import LanguageServer
from tests.models.endpoint.test_images import pixels_of
from tests.packaging.pages import blocks
from tests.scripted import Asked, Scripted, answering
from workers.models.checks import check_target
from workers.models.endpoint import EndpointClassifier
from workers.models.image_endpoint import ImageEndpoint
from workers.models.text_checks import check_text_target


def documented(task: str, kind: str) -> ModelManifest:
    shown = [
        json.loads(block) for block in blocks("docs/models-and-data.md", "json") if block.lstrip().startswith('{"name"')
    ]
    (found,) = [one for one in shown if one["task"] == task and one["architecture"]["kind"] == kind]
    return ModelManifest.model_validate_json(json.dumps(found))


def at(manifest: ModelManifest, url: str) -> ModelManifest:
    said = manifest.model_dump(mode="json")
    said["architecture"] |= {"url": url, "headers": {}}
    return ModelManifest.model_validate_json(json.dumps(said))


def classify(handler: Any, asked: Asked) -> None:
    weight = torch.randn(10, 28 * 28, generator=torch.Generator().manual_seed(0)).double() / 28
    images = torch.stack([pixels_of(image) for image in asked.json["images"]])
    rows = (images.flatten(1) @ weight.T).softmax(1)
    answering({"predictions": [{"scores": row.tolist()} for row in rows]})(handler, asked)


@pytest.mark.parametrize("where", ["page", "reference"])
def test_the_image_endpoint_is_ready(server: Scripted, where: str) -> None:
    server.otherwise = classify
    shown = documented("image-classification", "endpoint")
    if where == "reference":
        shown = ModelReference.model_validate_json(json.dumps(IMAGES_REFERENCE)).manifest
    manifest = at(shown, server.url)
    asking = EndpointClassifier(manifest, settings())
    report = check_target(ImageEndpoint(asking, manifest, torch.device("cpu")), manifest)
    asking.close()
    assert (report.facts.classes, report.facts.input_shape, report.flags) == (10, [1, 28, 28], [])


@pytest.mark.parametrize("where", ["page", "reference"])
def test_the_language_model_is_ready(server: Scripted, where: str) -> None:
    server.otherwise = LanguageServer(strips=True)
    shown = documented("text-classification", "chat")
    if where == "reference":
        shown = ModelReference.model_validate_json(json.dumps(LANGUAGE_MODEL_REFERENCE)).manifest
    manifest = at(shown, f"{server.url}/chat/completions")
    asking = EndpointClassifier(manifest, settings())
    report = check_text_target(asking, manifest)
    asking.close()
    assert report.facts.labels is None
    assert (report.facts.classes, asking.labels) == (2, ["negative", "positive"])
    assert {flag.code for flag in report.flags} == {"logprobs_scale"}
