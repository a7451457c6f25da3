"""Exported programs and Hugging Face folders, hardened over HTTP: trained, written back, audited in pairs, judged."""

import io
import json
import zipfile
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
import torch
from safetensors.numpy import load
from sqlalchemy import select, update
from transformers import ResNetConfig, ResNetForImageClassification

from app.hardenings.advancing import advance_hardenings
from app.web.services import Services
from seatrial.store.settings import Settings
from seatrial.store.tables import HardeningRow, QuotaRow
from tests import assets, texts
from tests.ingest.builders import zipped
from tests.runtime.inline import InlineWorker

SPAN = {"kind": "uncertainty_span", "epsilon": 0.05, "steps": 2, "effort": "quick"}
NOISE = {"kind": "low_level_attack", "attackers": ["disemvowel"], "levels": [0.5]}
Uploads = dict[str, tuple[dict[str, Any], str, bytes]]


@pytest.fixture
def settings(settings: Settings) -> Settings:
    return settings.model_copy(update={"max_model_bytes": 2**22, "torch_threads": 1})


def digits(start: int, stop: int) -> bytes:
    images, labels = assets.digits()
    stream = io.BytesIO()
    np.savez(stream, images=images[start:stop], labels=labels[start:stop])
    return stream.getvalue()


def exported(folder: Path) -> tuple[Uploads, dict[str, Any], dict[str, Any], str]:
    uploads = {
        "model": (assets.model_manifest(architecture={"kind": "exported"}), "m.pt2", assets.exported()),
        "dataset": (assets.dataset_manifest("training", split="train"), "t.npz", digits(0, 200)),
        "audited": (assets.dataset_manifest(), "d.npz", digits(1000, 1030)),
    }
    params = {"epochs": 1, "batch_size": 50, "steps": 1, "epsilon": 0.05, "learning_rate": 0.01}
    return uploads, {"method": "adversarial", "params": params}, SPAN, "uncertainty_span.clean_accuracy"


def huggingface(folder: Path) -> tuple[Uploads, dict[str, Any], dict[str, Any], str]:
    def reviews(count: int, seed: int) -> bytes:
        return texts.jsonl(folder / f"{seed}.jsonl", texts.sentences(count, seed=seed)).read_bytes()

    model = texts.zip_folder(texts.tiny_sentiment(folder / "model", shard_size="100KB"))
    uploads = {
        "model": (texts.model_manifest(), "m.zip", model),
        "dataset": (texts.dataset_manifest("training", split="train"), "t.jsonl", reviews(60, 11)),
        "audited": (texts.dataset_manifest(), "d.jsonl", reviews(20, 12)),
    }
    params = {"epochs": 1, "steps": 1, "learning_rate": 1e-3}
    return uploads, {"method": "pgd_k", "params": params}, NOISE, "low_level_attack.score[level=0]"


def pictures(folder: Path) -> tuple[Uploads, dict[str, Any], dict[str, Any], str]:
    torch.manual_seed(0)
    names = {str(digit): digit for digit in range(10)}
    config = ResNetConfig(
        num_channels=1, embedding_size=8, hidden_sizes=[8], depths=[1], layer_type="basic", label2id=names
    )
    config.id2label = {number: name for name, number in names.items()}
    ResNetForImageClassification(config).save_pretrained(folder / "model")
    files = {path.name: path.read_bytes() for path in (folder / "model").iterdir()}
    size = {"do_resize": True, "size": {"height": 8, "width": 8}, "do_rescale": True, "rescale_factor": 1 / 255}
    normal = {"do_normalize": True, "image_mean": [0.5], "image_std": [0.5]}
    files["preprocessor_config.json"] = json.dumps(size | normal).encode()
    manifest = {"name": "pictures", "version": "1", "task": "image-classification"}
    uploads = {
        "model": (manifest | {"architecture": {"kind": "huggingface"}}, "m.zip", zipped(files)),
        "dataset": (assets.dataset_manifest("training", split="train"), "t.npz", digits(0, 400)),
        "audited": (assets.dataset_manifest(), "d.npz", digits(1000, 1030)),
    }
    params = {"epochs": 3, "batch_size": 20, "steps": 1, "epsilon": 0.01, "learning_rate": 0.05}
    return uploads, {"method": "adversarial", "params": params}, SPAN, "uncertainty_span.clean_accuracy"


def weights_of(container: bytes, name: str) -> dict[str, np.ndarray]:
    """Return the weights of a container that holds them in one safetensors file."""
    return load(zipfile.ZipFile(io.BytesIO(container)).read(name))


@pytest.mark.drill
@pytest.mark.parametrize("kind", [exported, huggingface, pictures])
def test_it_is_trained_written_back_and_audited_in_pairs(
    client: httpx.Client, services: Services, settings: Settings, tmp_path: Path, kind: Any
) -> None:
    uploads, asked, check, metric = kind(tmp_path)
    ids = {}
    for name, (manifest, file, data) in uploads.items():
        path = "/v1/models" if name == "model" else "/v1/datasets"
        answer = client.post(path, **assets.multipart(manifest, file, data))
        assert answer.status_code == 201, answer.text
        ids[name] = answer.json()["id"]
    worker = InlineWorker(services.database, services.store, settings)
    worker.drain()
    policy = {"name": "release", "rules": [{"metric": metric, "min": 0.3}]}
    audit = {"dataset": ids["audited"], "checks": [check], "samples": 16, "policy": policy}
    body = {"model": ids["model"], "dataset": ids["dataset"], **asked, "audit": audit, "max_accuracy_loss": 1.0}
    told = client.post("/v1/hardenings/estimate", json=body)
    assert told.status_code == 200, told.text
    assert told.json()["memory_bytes"] > 0
    submitted = client.post("/v1/hardenings", json=body)
    assert submitted.status_code == 202, submitted.text
    if kind is exported:
        # Only one of the pair may wait at a time.
        with services.database.write() as session:
            project = session.scalars(select(HardeningRow.project_id)).one()
            session.add(QuotaRow(project_id=project, unfinished_audits=1, daily_s=1e9))
    put_off = 0
    for _ in range(6):
        worker.drain()
        advance_hardenings(services)
        # What a quota refuses for now is left alone, and tried again later.
        assert advance_hardenings(services) == 0 or kind is not exported
        with services.database.write() as session:
            later = update(HardeningRow).where(HardeningRow.lease_until > 1.0).values(lease_until=1.0)
            put_off += session.execute(later).rowcount  # type: ignore[attr-defined]
    assert bool(put_off) == (kind is exported)
    made = client.get(submitted.headers["location"]).json()
    assert made["state"] == "succeeded", made
    assert [note for note in made["notes"] if "exported program" in note] == made["notes"]
    assert bool(made["notes"]) == (kind is exported)
    assert made["verdict"] == "passed"
    assert "paired" in {one["worse_by"]["method"] for one in made["result"]["differences"]}
    version = client.get(f"/v1/models/{made['hardened']}").json()
    assert (version["state"], version["derived_from"]) == ("ready", ids["model"])
    weights = load(client.get(f"/v1/models/{made['hardened']}/weights").content)
    content = client.get(f"/v1/models/{made['hardened']}/content").content
    # A hardened archive has its weights in a file of their own; figures and records are there too.
    stored = client.get("/v1/projects/default").json()["disk"]
    files = sum(services.store.measure(digest)[0] for digest in services.store.digests())
    # Those of both audits may be the same.
    assert 0 <= stored["total"] - files < stored["figures"]
    assert stored["checkpoints"] == 0
    assert stored["figures"] > 0
    if kind is exported:
        before = load(assets.weights())
    else:
        held = weights_of(content, "model.safetensors")
        assert all(np.array_equal(held[name], weights[name]) for name in weights)
        uploaded = {name: tensor.numpy() for name, tensor in texts.trained().items()}
        before = uploaded if kind is huggingface else weights_of(uploads["model"][2], "model.safetensors")
    assert weights.keys() == before.keys()
    assert any(not np.array_equal(weights[name], before[name]) for name in before)
