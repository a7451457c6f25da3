"""Text audits over HTTP with real workers: the illusion is seen, and no accident of a worker changes a number."""

import json
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from tests import assets, texts
from tests.e2e.deployment import Deployment
from tests.servers import eventually

pytestmark = pytest.mark.slow

STAGES = ["preflight", "validation", "attack_deepwordbug", "attack_pruthi"]


def upload(deployment: Deployment, folder: Path) -> tuple[str, str]:
    """Return the ids of the sentiment model and 120 reviews, uploaded once."""

    def sent() -> tuple[str, str]:
        archive = texts.zip_folder(texts.tiny_sentiment(folder / "model"))
        model = deployment.client.post(
            "/v1/models", **assets.multipart(texts.model_manifest("reviews"), "model.zip", archive)
        )
        assert model.status_code == 201, model.text
        return model.json()["id"], add_reviews(deployment, folder, texts.sentences(120, seed=5), name="reviews")

    return deployment.once("reviews", sent)


def add_reviews(deployment: Deployment, folder: Path, rows: list[Any], **manifest: Any) -> str:
    path = texts.jsonl(folder / "reviews.jsonl", rows)
    data = deployment.client.post(
        "/v1/datasets", **assets.multipart(texts.dataset_manifest(**manifest), path.name, path.read_bytes())
    )
    assert data.status_code == 201, data.text
    return str(data.json()["id"])


def submit(deployment: Deployment, model: str, dataset: str, **more: Any) -> str:
    check = {
        "kind": "temperature_attack",
        "recipes": ["deepwordbug"],
        "arms": ["calibrated"],
        "validation_samples": 60,
        **more.pop("params", {}),
    }
    body = {"model": model, "dataset": dataset, "seed": 3, "samples": 48, "checks": [check], **more}
    answer = deployment.client.post("/v1/audits", json=body)
    assert answer.status_code == 202, answer.text
    return str(answer.json()["id"])


def all_records(deployment: Deployment, audit_id: str, stages: list[str]) -> dict[str, bytes]:
    return {stage: deployment.records(audit_id, stage) for stage in stages}


@pytest.mark.drill
def test_an_over_confident_model_is_seen_through(shared: Deployment, tmp_path: Path) -> None:
    model, dataset = upload(shared, tmp_path)
    params = {"design_temperature": 0.01, "arms": ["calibrated", "optimized"], "temperature_evaluations": 8}
    audit = shared.wait(submit(shared, model, dataset, params=params))
    assert audit["state"] == "succeeded", audit["checks"][0]["error"]
    (check,) = audit["checks"]
    found = {name: estimate["value"] for name, estimate in check["result"]["estimates"].items()}
    gap = check["result"]["estimates"]["illusion_gap"]
    assert gap["low"] > 0
    # Calibration undoes the design temperature, whatever the model's own is.
    plain = shared.wait(submit(shared, model, dataset, params={"arms": ["calibrated"]}))
    own = plain["checks"][0]["result"]["estimates"]["temperature[arm=calibrated]"]["value"]
    assert found["temperature[arm=calibrated]"] == pytest.approx(100 * own, rel=1e-4)
    assert found["adversarial_accuracy[arm=calibrated]"] < found["adversarial_accuracy[arm=as_served]"]
    assert found["clean_accuracy"] == plain["checks"][0]["result"]["estimates"]["clean_accuracy"]["value"]
    meters = check["meters"]
    # Attacks are answered from known logits at further temperatures; what shows a memory is asked anew, always.
    assert meters["forward_passes"] < 0.6 * meters["queries"]
    report = shared.client.get(f"/v1/audits/{audit['id']}/report", params={"format": "html"})
    assert report.status_code == 200
    assert "<ins" in report.text


@pytest.mark.drill
def test_neither_shards_nor_workers_nor_a_kill_change_a_text_record(distributed: Deployment, tmp_path: Path) -> None:
    deployment = distributed
    model, dataset = upload(deployment, tmp_path)
    params = {"recipes": ["deepwordbug", "pruthi"], "query_budget": 150}
    worker = deployment.add_worker()
    expected = submit(deployment, model, dataset, shards=1, params=params)
    assert deployment.wait(expected)["state"] == "succeeded"
    deployment.add_worker()
    killed = submit(deployment, model, dataset, shards=6, params={**params, "bins": 14})
    eventually(
        lambda: any(s.state == "running" for s in deployment.shards(killed, "attack_pruthi")),
        timeout_s=120,
        every_s=0.01,
    )
    worker.signal(signal.SIGKILL)
    worker.wait()
    audit = deployment.wait(killed)
    assert audit["state"] == "succeeded"
    assert len(deployment.shards(killed, "attack_pruthi")) == 6
    assert all_records(deployment, killed, STAGES) == all_records(deployment, expected, STAGES)


@pytest.mark.drill
def test_cancel_stops_in_the_middle_of_an_attack(shared: Deployment, tmp_path: Path) -> None:
    model, dataset = upload(shared, tmp_path)
    audit_id = submit(shared, model, dataset, shards=1, params={"recipes": ["pruthi"]})
    eventually(
        lambda: any(s.state == "running" for s in shared.shards(audit_id, "attack_pruthi")),
        timeout_s=120,
        every_s=0.01,
    )
    assert shared.client.post(f"/v1/audits/{audit_id}/cancel").status_code in (200, 202)
    assert shared.wait(audit_id, timeout_s=20)["state"] == "cancelled"


@pytest.mark.drill
def test_what_a_text_audit_cannot_be_is_said_at_once(shared: Deployment, tmp_path: Path) -> None:
    model, dataset = upload(shared, tmp_path)
    digits, images = shared.once("digits", shared.upload)

    def refused(expected: str, **body: Any) -> str:
        check = {"kind": "temperature_attack", "validation_samples": 20, **body.pop("params", {})}
        sent = {"model": model, "dataset": dataset, "samples": 50, "checks": [check], **body}
        answer = shared.client.post("/v1/audits", json=sent)
        assert answer.status_code == 422, answer.text
        assert expected in {error["pointer"] for error in answer.json()["errors"]}, answer.text
        return str(answer.json()["detail"])

    assert "20" in refused("/checks/0/validation_samples", samples=110)
    unsaid = {"model": model, "dataset": dataset, "checks": [{"kind": "temperature_attack", "validation_samples": 20}]}
    assert shared.client.post("/v1/audits/estimate", json=unsaid).json()["examples"] == 100
    assert "image-classification" in refused("/checks/0/kind", model=digits, dataset=images)
    assert "leave this out" in refused("/checks/0/validation_dataset", params={"validation_dataset": dataset})
    refused("/checks/0/recipes/0", params={"recipes": ["no such recipe"]})
    assert "leave it out" in refused("/checks/0/arms", params={"arms": ["as_served", "calibrated"]})
    refused("/checks/0/query_budget", params={"query_budget": 1})
    refused("/checks/0", params={"arms": ["transfer"]})
    refused("/dataset", dataset=images)


@pytest.mark.drill
def test_further_models_and_data_must_number_the_classes_alike(shared: Deployment, tmp_path: Path) -> None:
    model, dataset = upload(shared, tmp_path)
    folder = texts.tiny_sentiment(tmp_path / "reversed")
    config = json.loads((folder / "config.json").read_text())
    config["id2label"] = dict(enumerate(texts.LABELS[::-1]))
    config["label2id"] = {name: number for number, name in config["id2label"].items()}
    (folder / "config.json").write_text(json.dumps(config))
    manifest = texts.model_manifest("reversed")
    source = shared.client.post("/v1/models", **assets.multipart(manifest, "model.zip", texts.zip_folder(folder)))
    validation = add_reviews(shared, tmp_path, texts.sentences(60, seed=8), name="reversed", labels=texts.LABELS[::-1])
    for named, more in (
        ("source_model", {"source_model": source.json()["id"], "arms": ["transfer"]}),
        ("validation_dataset", {"validation_dataset": validation}),
    ):
        audit = shared.wait(submit(shared, model, dataset, params=more))
        error = audit["checks"][0]["error"]
        assert (error["code"], error["field"]) == ("label-order-mismatch", f"/checks/0/{named}")


@contextmanager
def sentiment_endpoint(*, silent_on: str = "") -> Iterator[str]:
    """Serve a sentiment model that counts words, over real HTTP; texts holding ``silent_on`` are never answered."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            sent = json.loads(self.rfile.read(int(self.headers["Content-Length"])))["inputs"]
            if silent_on and any(silent_on in text.split() for text in sent):
                self.send_error(500)
                return
            score = [[1.0, 1.0 + sum((w in texts.POSITIVE) - (w in texts.NEGATIVE) for w in t.split())] for t in sent]
            body = json.dumps({"logits": score}).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: Any) -> None:
            """Say nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}/classify"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def test_an_endpoint_is_audited_and_the_unanswered_are_never_robust(shared: Deployment, tmp_path: Path) -> None:
    rows = texts.sentences(80, seed=6)
    dataset = add_reviews(shared, tmp_path, rows, name="asked")
    silent_on = next(word for word in texts.PLACES if 0 < sum(word in text.split() for text, _ in rows) < 16)
    with sentiment_endpoint(silent_on=silent_on) as url:
        manifest = texts.model_manifest(
            "sentiment-endpoint",
            labels=texts.LABELS,
            architecture={
                "kind": "endpoint",
                "url": url,
                "request": {"inputs": "{{texts}}"},
                "scores": "$.logits[*]",
                "outputs": "logits",
                "batch_size": 1,
                "retries": 0,
            },
        )
        made = shared.client.post("/v1/models", json={"manifest": manifest})
        assert made.status_code == 201, made.text
        body = {"samples": 40, "max_error_rate": 0.5, "params": {"validation_samples": 40}}
        audit = shared.wait(submit(shared, made.json()["id"], dataset, **body))
    (check,) = audit["checks"]
    assert audit["state"] == "succeeded", check["error"]
    counts = check["result"]["counts"]
    assert counts["errored"] > 0
    served = check["result"]["estimates"]["adversarial_accuracy[arm=as_served,recipe=deepwordbug]"]
    assert served["n"] == 40 - counts["errored"]
    gradients = shared.client.post(
        "/v1/audits",
        json={"model": made.json()["id"], "dataset": dataset, "checks": [{"kind": "uncertainty_span"}]},
    )
    assert gradients.status_code == 422
