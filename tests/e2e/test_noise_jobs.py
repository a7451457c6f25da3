"""Audits under character-level noise over HTTP with real workers: the promises of other families hold for this one."""

import io
import signal
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
import torch

from seatrial.contracts.models import ModelManifest
from tests import assets, texts
from tests.e2e.deployment import Deployment
from tests.scripted import Asked, answering, serving
from tests.servers import eventually
from workers.models.hf_tokens import load_huggingface_tokens

pytestmark = pytest.mark.slow

TAGGING = "token-classification"
STAGES = ["preflight", "clean", "attack_keyboard_typo", "attack_visual"]
KINDS = {word: tag for tokens, tags in texts.tagged(400) for word, tag in zip(tokens, tags, strict=True)}
"""The tag each word of a review has."""


def add(deployment: Deployment, kind: str, manifest: dict[str, Any], name: str, data: bytes) -> str:
    made = deployment.client.post(f"/v1/{kind}", **assets.multipart(manifest, name, data))
    assert made.status_code == 201, made.text
    return str(made.json()["id"])


def add_sentences(deployment: Deployment, folder: Path, rows: list[dict[str, Any]]) -> str:
    path = texts.jsonl(folder / "sentences.jsonl", rows)
    manifest = texts.dataset_manifest("sentences", task=TAGGING, labels=texts.TAGS)
    return add(deployment, "datasets", manifest, path.name, path.read_bytes())


def submit(deployment: Deployment, model: str, dataset: str, **body: Any) -> str:
    check = {
        "kind": "low_level_attack",
        "attackers": ["keyboard_typo", "visual"],
        "levels": [0.5],
        **body.pop("params", {}),
    }
    sent = {"model": model, "dataset": dataset, "seed": 3, "samples": 48, "checks": [check], **body}
    answer = deployment.client.post("/v1/audits", json=sent)
    assert answer.status_code == 202, answer.text
    return str(answer.json()["id"])


@pytest.mark.drill
def test_neither_shards_nor_workers_nor_a_kill_change_a_tagged_record(distributed: Deployment, tmp_path: Path) -> None:
    folder = texts.tiny_tagger(tmp_path / "model")
    manifest = texts.model_manifest("tagger", task=TAGGING)
    # What an untrained tagger says is taken for the truth, so that it does not guess.
    tagger = load_huggingface_tokens(ModelManifest.model_validate(manifest), folder, torch.device("cpu"))
    sentences = [tuple(tokens) for tokens, _ in texts.tagged(60, seed=5)]
    answers = [answer for answer in tagger.logits(sentences) if isinstance(answer, torch.Tensor)]
    rows = [
        {"tokens": tokens, "tags": [texts.TAGS[tag] for tag in answer.argmax(1).tolist()]}
        for tokens, answer in zip(sentences, answers, strict=True)
    ]
    model = add(distributed, "models", manifest, "model.zip", texts.zip_folder(folder))
    dataset = add_sentences(distributed, tmp_path, rows)
    # Draws enough to be in the middle of something when the worker is killed.
    params = {"draws": 12}
    worker = distributed.add_worker()
    expected = submit(distributed, model, dataset, shards=1, params=params)
    ended = distributed.wait(expected)
    assert ended["state"] == "succeeded", ended["checks"][0]["error"]
    distributed.add_worker()
    killed = submit(distributed, model, dataset, shards=6, params={**params, "bins": 14})
    eventually(
        lambda: any(shard.state == "running" for shard in distributed.shards(killed, "attack_visual")),
        timeout_s=120,
        every_s=0.01,
    )
    worker.signal(signal.SIGKILL)
    worker.wait()
    audit = distributed.wait(killed)
    assert audit["state"] == "succeeded", audit["checks"][0]["error"]
    assert len(distributed.shards(killed, "attack_visual")) == 6
    for stage in STAGES:
        assert distributed.records(killed, stage) == distributed.records(expected, stage), stage


def tagging(handler: BaseHTTPRequestHandler, asked: Asked) -> None:
    """Tag words as reviews have them, and those it does not know at random of their first letter."""

    def scores(word: str) -> list[float]:
        tag = KINDS.get(word, texts.TAGS[ord(word[0]) % len(texts.TAGS)])
        return [0.9 if one == tag else 0.1 / (len(texts.TAGS) - 1) for one in texts.TAGS]

    answering([[scores(word) for word in sentence] for sentence in asked.json["sentences"]])(handler, asked)


@pytest.mark.drill
def test_a_tagger_behind_an_endpoint_is_audited_by_noise_that_nobody_makes_before(
    shared: Deployment, tmp_path: Path
) -> None:
    rows = [{"tokens": tokens, "tags": tags} for tokens, tags in texts.tagged(60, seed=6)]
    dataset = add_sentences(shared, tmp_path, rows)
    with serving(tagging) as server:
        architecture = {
            "kind": "endpoint",
            "url": server.url,
            "request": {"sentences": "{{sentences}}"},
            "scores": "$[*]",
            "batch_size": 16,
        }
        manifest = texts.model_manifest("tagging-endpoint", task=TAGGING, labels=texts.TAGS, architecture=architecture)
        made = shared.client.post("/v1/models", json={"manifest": manifest})
        assert made.status_code == 201, made.text
        audit = shared.wait(submit(shared, made.json()["id"], dataset, params={"attackers": ["visual"]}))
    (check,) = audit["checks"]
    assert audit["state"] == "succeeded", check["error"]
    found = {name: estimate["value"] for name, estimate in check["result"]["estimates"].items()}
    assert found["score[level=0]"] == 1
    noisy = pq.read_table(io.BytesIO(shared.records(audit["id"], "attack_visual"))).to_pylist()
    assert found["score[attacker=visual,level=0.5]"] == pytest.approx(
        sum(row["correct[level=0.5]"] for row in noisy) / sum(len(row["predictions[level=0.5]"]) for row in noisy)
    )
    assert found["score[attacker=visual,level=0.5]"] < 0.8
    asked = {"sentences": [row["tokens"] for row in rows], "attackers": ["visual"], "levels": [0.5], "seed": 3}
    perturbed = shared.client.post("/v1/perturb", json=asked).json()["items"]
    # It follows from a salt as well, which is drawn.
    assert any(row["tokens[level=0.5]"] != perturbed[row["example_id"]]["perturbed"] for row in noisy)
    report = shared.client.get(f"/v1/audits/{audit['id']}/report", params={"format": "html"})
    assert report.status_code == 200
    assert "<ins" in report.text
