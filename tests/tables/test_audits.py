"""Rows of a table over HTTP: uploaded, priced, audited by a worker, reported."""

import json
import re
from typing import Any

import httpx
import pytest

from app.web.services import Services
from seatrial.store.settings import Settings
from tests import assets
from tests.ingest.onnx_files import model as onnx_model
from tests.ingest.onnx_files import node, port
from tests.runtime.inline import InlineWorker
from tests.tables import flowers

SPAN = {"kind": "uncertainty_span", "epsilon": 0.2, "steps": 10, "effort": "quick"}


CERTIFIED = {"kind": "certified_calibration", "sigma": 0.25, "n0": 20, "n": 100, "radii": [0.0, 0.1]}


def post(client: httpx.Client, path: str, manifest: dict[str, Any], name: str, data: bytes) -> httpx.Response:
    return client.post(path, **assets.multipart(manifest, name, data))


@pytest.fixture
def pair(client: httpx.Client) -> tuple[str, str]:
    model = post(client, "/v1/models", flowers.model_manifest(), "m.safetensors", flowers.weights())
    # The columns in another order: they are found by name.
    data = post(client, "/v1/datasets", flowers.dataset_manifest(), "d.csv", flowers.csv())
    assert (model.status_code, data.status_code) == (201, 201), (model.text, data.text)
    return model.json()["id"], data.json()["id"]


def audit(client: httpx.Client, services: Services, settings: Settings, pair: tuple[str, str], *checks: Any) -> str:
    worker = InlineWorker(services.database, services.store, settings)
    worker.drain()
    body = {"model": pair[0], "dataset": pair[1], "seed": 3, "samples": 30, "checks": list(checks)}
    answer = client.post("/v1/audits", json=body)
    assert answer.status_code == 202, answer.text
    worker.drain()
    done = client.get(f"/v1/audits/{answer.json()['id']}").json()
    assert done["state"] == "succeeded", json.dumps(done)[:2000]
    return str(done["id"])


def test_a_linear_model_of_a_table_is_audited_and_its_report_speaks_of_rows(
    client: httpx.Client, services: Services, settings: Settings, pair: tuple[str, str]
) -> None:
    asked = audit(client, services, settings, pair, SPAN, CERTIFIED)
    report = client.get(f"/v1/audits/{asked}/report", headers={"Accept": "application/json"}).json()
    accuracy = report["checks"][0]["estimates"]
    assert next(one["value"] for one in accuracy if one["name"].endswith(".clean_accuracy")) > 0.8
    for kind in ("text/markdown", "text/html"):
        text = client.get(f"/v1/audits/{asked}/report", headers={"Accept": kind}).text
        text = re.sub(r'data:image/[^"]+|image/svg|<img[^>]*>|<style.*?</style>', "", text, flags=re.S)
        found = re.findall(r".{60}\b(?:images?|pixels?|8-bit)\b.{40}", text, flags=re.I | re.S)
        assert not found, found


def test_a_manifest_that_makes_the_unit_small_is_doubted(
    client: httpx.Client, services: Services, settings: Settings, pair: tuple[str, str]
) -> None:
    """A radius of a hundredth of a deviation says little, and reads like one of a deviation."""

    def codes(manifest: dict[str, Any]) -> set[str]:
        model = post(client, "/v1/models", manifest, "m.safetensors", flowers.weights())
        assert model.status_code == 201, model.text
        asked = audit(client, services, settings, (model.json()["id"], pair[1]), SPAN)
        (check,) = client.get(f"/v1/audits/{asked}").json()["checks"]
        return {flag["code"] for flag in check["result"]["flags"]}

    said = flowers.model_manifest()["features"]
    small = {**said, "std": [one / 10 for one in said["std"]]}
    assert "small_unit" in codes(flowers.model_manifest(name="small", features=small))
    assert "small_unit" not in codes(flowers.model_manifest(name="honest"))


@pytest.mark.drill
def test_every_attack_of_a_check_takes_rows(
    client: httpx.Client, services: Services, settings: Settings, pair: tuple[str, str]
) -> None:
    robust = {"version": "standard", "steps": 5, "queries": 20}
    span = {**SPAN, "effort": "standard", "norm": "l2", "attacks": ["ace"], "robust_accuracy": robust}
    audit(client, services, settings, pair, span, {**CERTIFIED, "ace_attacks": ["ace_lower_true"]})


def test_what_cannot_audit_rows_says_why(client: httpx.Client, pair: tuple[str, str]) -> None:
    check = {"kind": "transductive_attack", "defences": [{"name": "dent"}]}
    answer = client.post("/v1/audits/estimate", json={"model": pair[0], "dataset": pair[1], "checks": [check]})
    assert answer.status_code == 422
    assert "rows of a table have none" in answer.text


def test_a_pipeline_of_scikit_learn_is_audited_as_onnx(
    client: httpx.Client, services: Services, settings: Settings, pair: tuple[str, str]
) -> None:
    weight, bias = flowers.linear()
    mean, std = (one.tolist() for one in flowers.units())
    classifier = {"coefficients": weight.reshape(-1).tolist(), "intercepts": bias.tolist()}
    told = {"classlabels_ints": [0, 1, 2], "post_transform": "SOFTMAX", "domain": "ai.onnx.ml"}
    nodes = [
        node("Scaler", ["x"], ["s"], domain="ai.onnx.ml", offset=mean, scale=[1 / one for one in std]),
        node("LinearClassifier", ["s"], ["label", "y"], **told, **classifier),
    ]
    data = onnx_model(nodes, {}, inputs=[port("x", ["n", 4])], outputs=[port("label", ["n"], 7), port("y", ["n", 3])])
    features = {**flowers.model_manifest()["features"], "takes": "raw"}
    manifest = flowers.model_manifest(name="sklearn", architecture={"kind": "onnx"}, features=features)
    model = post(client, "/v1/models", manifest, "pipeline.onnx", data)
    assert model.status_code == 201, model.text
    told_of = [
        audit(client, services, settings, (one, pair[1]), {**SPAN, "steps": 3}) for one in (pair[0], model.json()["id"])
    ]
    results = [client.get(f"/v1/audits/{one}").json()["checks"][0]["result"]["estimates"] for one in told_of]
    # The same network, once as layers on standardised rows and once as a graph on raw ones.
    assert results[0]["mus"]["value"] == pytest.approx(results[1]["mus"]["value"], abs=1e-4)
