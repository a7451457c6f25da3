"""Images behind an endpoint: what is sent, what is made of the answers, and what is refused."""

import base64
import io
import json
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from pydantic import ValidationError
from torch import Tensor

from seatrial.contracts.models import ModelManifest
from tests.models.endpoint.asked import Clock, settings
from tests.scripted import Asked, Scripted, answering
from workers.errors import PreflightError, TargetError
from workers.models.checks import check_target, preflight
from workers.models.endpoint import EndpointClassifier
from workers.models.image_endpoint import ImageEndpoint

CPU = torch.device("cpu")
WEIGHT = torch.randn(3, 16, generator=torch.Generator().manual_seed(5)).double()
IMAGES = torch.rand(6, 1, 4, 4, generator=torch.Generator().manual_seed(6))


def said(url: str, *, shape: Any = (1, 4, 4), **more: Any) -> dict[str, Any]:
    architecture = {"kind": "endpoint", "url": url, "request": {"images": "{{images}}"}, "batch_size": 4, **more}
    return {
        "name": "digits",
        "version": "1",
        "task": "image-classification",
        "architecture": architecture,
        "input": {"shape": list(shape)},
        "labels": ["a", "b", "c"],
    }


def manifest(url: str, **more: Any) -> ModelManifest:
    return ModelManifest.model_validate_json(json.dumps(said(url, **more)))


def pixels_of(sent: str) -> Tensor:
    image = Image.open(io.BytesIO(base64.b64decode(sent, validate=True)))
    assert image.format == "PNG"
    assert image.mode == "L"
    return torch.from_numpy(np.array(image)).double()[None] / 255


def probabilities(image: Any) -> list[float]:
    values = pixels_of(image) if isinstance(image, str) else torch.tensor(image, dtype=torch.float64)
    return (WEIGHT @ (values.flatten() - 0.5)).softmax(0).tolist()


def classify(handler: Any, asked: Asked) -> None:
    answering([probabilities(image) for image in asked.json["images"]])(handler, asked)


def expected(images: Tensor) -> Tensor:
    return ((images.double().flatten(1) - 0.5) @ WEIGHT.T).log_softmax(1).float()


@pytest.fixture
def images_of(server: Scripted, clock: Clock) -> Iterator[Callable[..., ImageEndpoint]]:
    server.otherwise, made = classify, []

    def make(**more: Any) -> ImageEndpoint:
        one = manifest(server.url, **more)
        made.append(ImageEndpoint(EndpointClassifier(one, settings(), clock=clock, sleep=clock.sleep), one, CPU))
        return made[-1]

    yield make
    for one in made:
        one.endpoint.close()


def test_a_png_is_rounded_before_it_is_sent_and_answered_for_what_it_is(
    images_of: Callable[..., ImageEndpoint], server: Scripted
) -> None:
    classifier, rounded = images_of(), (IMAGES * 255).round() / 255
    found = classifier.logits(IMAGES)
    torch.testing.assert_close(found, expected(rounded), rtol=1e-5, atol=1e-5)
    assert [len(one.json["images"]) for one in server.asked] == [4, 2]
    torch.testing.assert_close(pixels_of(server.asked[1].json["images"][1]), rounded[5].double())
    assert (classifier.queries, classifier.endpoint.sent, classifier.levels) == (6, 6, 255)


def test_floats_are_sent_as_they_are_also_beyond_the_box(
    images_of: Callable[..., ImageEndpoint], server: Scripted
) -> None:
    noisy = IMAGES * 3 - 1
    classifier = images_of(image_format="floats", request={"inputs": {"$each": {"x": "{{image}}"}}})
    server.otherwise = lambda handler, asked: answering([probabilities(one["x"]) for one in asked.json["inputs"]])(
        handler, asked
    )
    torch.testing.assert_close(classifier.logits(noisy), expected(noisy), rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(torch.tensor(server.asked[0].json["inputs"][0]["x"]), noisy[0], rtol=0, atol=1e-9)
    assert classifier.levels is None


def test_a_png_may_stand_inside_of_a_string(images_of: Callable[..., ImageEndpoint], server: Scripted) -> None:
    classifier = images_of(request={"url": "data:image/png;base64,{{image}}"}, batch_size=1)
    server.otherwise = lambda handler, asked: answering(probabilities(asked.json["url"].split(",")[1]))(handler, asked)
    torch.testing.assert_close(classifier.logits(IMAGES[:2]), expected((IMAGES[:2] * 255).round() / 255))


def test_what_is_not_answered_is_no_number_and_what_is_over_budget_is_not_sent(
    images_of: Callable[..., ImageEndpoint], server: Scripted
) -> None:
    classifier = images_of(query_budget=5)
    found = classifier.logits(IMAGES)
    assert found.isfinite().all(1).tolist() == [True] * 5 + [False]
    assert "query budget of 5 is spent" in str(classifier.failure)
    assert classifier.endpoint.sent == 5
    server.otherwise = answering({"oops": 1})
    assert not images_of().logits(IMAGES).isfinite().any()


def test_an_upload_asks_ten_times_and_measures(images_of: Callable[..., ImageEndpoint], server: Scripted) -> None:
    classifier = images_of()
    report = check_target(classifier, manifest(server.url))
    assert (report.facts.device, report.facts.input_shape, report.facts.backward_s) == ("endpoint", [1, 4, 4], None)
    assert (report.flags, classifier.endpoint.sent) == ([], 10)


@pytest.mark.parametrize(
    ("row", "field", "told"),
    [
        ([0.5, 0.5], "/manifest/labels", "an image has 2 scores for 3 labels"),
        ([0.9, 0.9, 0.9], "/manifest/architecture/outputs", "an image's scores are no probabilities"),
        ([0.2, 0.3, "x"], "/manifest/architecture/scores", "a score is no number"),
        ("cat", "/manifest/architecture/scores", "an image's scores must be a list of numbers"),
        ({"a": 1}, "/manifest/labels", "an image has no score for the label 'b'"),
        ([0.2, 0.3, 0.5], "/manifest/architecture", "8 different images give the same logits"),
        (None, "/manifest/architecture/scores", "for 1 image the path finds"),
    ],
)
def test_a_wrong_answer_is_refused_with_its_field_and_no_word_of_texts(
    images_of: Callable[..., ImageEndpoint], server: Scripted, row: Any, field: str, told: str
) -> None:
    server.otherwise = lambda handler, asked: answering(
        [row] * len(asked.json["images"]) if row is not None else [[0.2, 0.3, 0.5]] * 9
    )(handler, asked)
    with pytest.raises(TargetError) as caught:
        check_target(images_of(), manifest(server.url))
    assert caught.value.problem.field == field
    assert told in caught.value.problem.detail
    assert "text" not in caught.value.problem.detail


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"request": {"inputs": "{{texts}}"}}, "may hold {{images}}, {{image}}"),
        ({"request": {"inputs": "nothing"}}, "no place for an example"),
        ({"request": {"a": "x{{images}}"}}, None),
        ({"shape": [4, 8, 8]}, "a PNG has 1 channel"),
        (
            {"image_format": "floats", "request": {"a": "x{{image}}"}, "batch_size": 1},
            "cannot stand inside of a string",
        ),
        ({"batch_size": 2, "request": "{{image}}"}, "a single example outside of $each"),
    ],
)
def test_what_could_never_be_asked_is_refused_and_never_in_words_of_texts(change: Any, told: str | None) -> None:
    from seatrial.net.endpoint_rules import EndpointRuleError, check_endpoint

    with pytest.raises((ValidationError, EndpointRuleError)) as caught:
        check_endpoint(manifest("https://models.example.com/", **change).architecture, [])  # type: ignore[arg-type]
    assert (told or "becomes a list, which cannot stand inside") in str(caught.value)
    messages = [one["msg"] for one in caught.value.errors()] if isinstance(caught.value, ValidationError) else []
    assert not any("text" in message.split("image-classification")[-1] for message in messages)


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"shape": [1, 4, 4], "mean": [0.5], "std": [0.5]}, "normalises them itself"),
        (None, "input is required"),
    ],
)
def test_the_shape_is_all_there_is_to_say_of_the_images(given: Any, told: str) -> None:
    asked = said("https://models.example.com/") | {"input": given}
    with pytest.raises(ValidationError, match=told):
        ModelManifest.model_validate_json(json.dumps(asked))


def test_the_sample_says_how_images_were_sent_and_who_was_not_answered(
    images_of: Callable[..., ImageEndpoint], server: Scripted
) -> None:
    labels = expected((IMAGES * 255).round() / 255).argmax(1).numpy()

    class Dataset:
        label_names = None

        def __init__(self) -> None:
            self.labels = labels

        def images(self, positions: Any) -> Tensor:
            return IMAGES[list(positions)]

    report = preflight(images_of(), Dataset(), range(6), manifest=manifest(server.url))
    assert {flag.code for flag in report.flags} >= {"sent_as_png"}
    assert report.predictions.tolist() == labels.tolist()
    short = preflight(images_of(query_budget=11), Dataset(), range(6), manifest=manifest(server.url), batch_size=3)
    assert "unanswered_images" not in {flag.code for flag in short.flags}
    server.otherwise = answering({"error": "busy"})
    with pytest.raises(PreflightError, match="none of 6 images has scores") as caught:
        preflight(images_of(), Dataset(), range(6), manifest=manifest(server.url))
    assert "NaN" not in str(caught.value)
