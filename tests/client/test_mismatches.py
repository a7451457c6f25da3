"""What is known not to fit is refused before a price is shown, at every door and in the same words."""

import html
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
from click.testing import CliRunner

from app.cli import main
from seatrial.client import Client, ProblemResponseError
from tests.client.conftest import Server, served
from tests.console.conftest import HERE, words
from tests.uploads import dataset_manifest, model_manifest, npz, upload, weights

SPAN: dict[str, Any] = {"kind": "uncertainty_span", "epsilon": 0.1, "steps": 5, "effort": "quick"}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """One service for all: nothing that is stored is changed."""
    with served(tmp_path_factory.mktemp("doors") / "home") as running:
        yield running


@pytest.fixture(scope="module")
def named(server: Server) -> dict[str, str]:
    """Ids of what does not fit, by what is wrong with it."""
    texts = b"text,label\nfine,0\nbad,1\n"
    uploads: dict[str, tuple[str, dict[str, Any], bytes]] = {
        "model": ("models", model_manifest(), weights()),
        "data": ("datasets", dataset_manifest(), npz()),
        "size": ("datasets", {}, npz(images=np.zeros((20, 1, 5, 4), np.uint8))),
        "channels": ("datasets", {}, npz(images=np.zeros((20, 3, 4, 4), np.uint8))),
        "label": ("datasets", {}, npz(labels=np.arange(20) % 3)),
        "order": ("datasets", {"labels": ["odd", "even"]}, npz()),
        "task": ("datasets", {"task": "text-classification"}, texts),
        "other": (
            "models",
            model_manifest(
                name="other",
                architecture={"kind": "layers", "layers": [["avg_pool", 2], ["flatten"], ["linear", 16, 2]]},
                input={"shape": [1, 8, 8], "mean": [0.0], "std": [1.0]},
            ),
            weights(),
        ),
    }
    with httpx.Client(base_url=server.url) as client:
        found = {}
        for name, (kind, changes, data) in uploads.items():
            manifest = changes if "name" in changes else dataset_manifest(name=name, **changes)
            answer = upload(client, kind, manifest, data)
            assert answer.status_code == 201, answer.text
            found[name] = str(answer.json()["id"])
    return found


@pytest.mark.parametrize(
    ("data", "check", "reason"),
    [
        ("size", {}, "takes images of shape [1, 4, 4] (channels, height, width), {size} has [1, 5, 4]"),
        pytest.param(
            "channels",
            {},
            "takes images of shape [1, 4, 4] (channels, height, width), {channels} has [3, 4, 4]",
            marks=pytest.mark.drill,
        ),
        ("label", {}, "has label 2, the model has 2 classes"),
        pytest.param("order", {}, "Label 0 is 'odd' in the dataset", marks=pytest.mark.drill),
        ("task", {}, "The model does image-classification, the dataset is for text-classification"),
        pytest.param(
            "data", {"transfer_model": "{other}"}, "{model} takes images of shape [1, 4, 4]", marks=pytest.mark.drill
        ),
        ("data", {"outliers": {"dataset": "{task}"}}, "{task} is for text-classification"),
        ("data", {"kind": "temperature_attack"}, "audits models for"),
    ],
)
def test_every_door_says_the_same_before_a_price(
    server: Server, named: dict[str, str], tmp_path: Path, data: str, check: dict[str, Any], reason: str
) -> None:
    text = json.dumps(check)
    for name, its_id in named.items():
        text, reason = text.replace(f"{{{name}}}", its_id), reason.replace(f"{{{name}}}", its_id)
    asked = json.loads(text)
    asked = asked if "kind" in asked else SPAN | asked
    pair = {"model": named["model"], "dataset": named[data]}
    body = {**pair, "samples": 20, "checks": [asked]}
    answers = [httpx.post(f"{server.url}/v1/audits{end}", json=body) for end in ("/estimate", "")]
    assert [answer.status_code for answer in answers] == [422, 422]
    (first,), (second,) = (answer.json()["errors"] for answer in answers)
    assert first == second
    told = first["detail"]
    assert reason in told

    with Client(server.url) as client, pytest.raises(ProblemResponseError) as refused:
        client.estimate(*pair.values(), [asked], samples=20)
    assert told in str(refused.value)

    metric = "mus" if asked["kind"] == SPAN["kind"] else "clean_accuracy"
    policy = {"name": "p", "rules": [{"metric": f"{asked['kind']}.{metric}", "max": 0.5}], "checks": [asked]}
    (tmp_path / "policy.yaml").write_text(json.dumps(policy), encoding="utf-8")
    arguments = ["gate", "--model", pair["model"], "--data", pair["dataset"], "--policy", str(tmp_path / "policy.yaml")]
    gate = CliRunner().invoke(main, [*arguments, "--samples", "20", "--estimate-only", "--server", server.url])
    assert gate.exit_code == 2, gate.output
    assert told in gate.stderr
    assert "At most" not in gate.output

    params = json.dumps({name: value for name, value in asked.items() if name != "kind"})
    form = {**pair, "checks": asked["kind"], f"params-{asked['kind']}": params, "samples": "20"}
    page = httpx.post(f"{server.url}/submit", data=form, headers=HERE)
    assert page.status_code == 422
    # Names that are typed in stand between marks elsewhere, and are set as such on a page.
    assert told.replace("`", "") in " ".join(html.unescape(words(page)).split())
    assert "Estimated cost" not in page.text
