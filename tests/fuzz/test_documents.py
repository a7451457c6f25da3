"""Manifests, policies and bundles: an answer or the documented error, whatever they say."""

import hashlib
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pytest
import yaml
from pydantic import BaseModel

from app.policies.documents import YamlError, yaml_to_json
from app.policies.service import parse_policy
from app.reports.bundle_layout import INDEX, RESULTS, SUMS
from app.reports.unbundling import BundleError, open_bundle
from app.web.bodies import parse_json
from app.web.problems import ProblemError
from seatrial.contracts.audits import AuditCreate
from seatrial.contracts.datasets import DatasetManifest
from seatrial.contracts.models import ModelManifest
from seatrial.store.records import to_parquet
from tests.fuzz.conftest import Case
from tests.fuzz.mutations import damaged, document, encoded
from tests.ingest.builders import dataset_manifest, folder_manifest, model_manifest, zipped

ENDPOINT = {
    "name": "m",
    "version": "1",
    "task": "text-classification",
    "architecture": {
        "kind": "endpoint",
        "url": "https://models.example.com/v1",
        "request": {"inputs": "{{texts}}"},
        "headers": {"Authorization": "Bearer ${TOKEN}"},
    },
    "labels": ["negative", "positive"],
}
MANIFESTS: list[tuple[type[BaseModel], Any]] = [
    (ModelManifest, model_manifest().model_dump(mode="json", exclude_none=True)),
    (ModelManifest, folder_manifest(task="text-classification").model_dump(mode="json", exclude_none=True)),
    (ModelManifest, ENDPOINT),
    (
        DatasetManifest,
        dataset_manifest(task="text-classification", columns={"text": "t"}, labels=["a", "b"]).model_dump(
            mode="json", exclude_none=True
        ),
    ),
    (
        AuditCreate,
        {
            "model": "mdl_1",
            "dataset": "dat_1",
            "samples": 20,
            "policy": "standard",
            "checks": [{"kind": "uncertainty_span", "epsilon": 0.1, "steps": 5}],
        },
    ),
]
POLICY = {
    "name": "release",
    "description": "What must hold.",
    "rules": [
        {"metric": "uncertainty_span.mus_worst", "max": 0.6},
        {"metric": "uncertainty_span.ece[arm=clean]", "max": 0.02, "severity": "warn"},
    ],
    "correction": "holm",
}


def _is_told(error: ProblemError) -> bool:
    """Tell whether a problem is the sender's, and can be sent."""
    json.dumps(error.detail).encode()
    return 400 <= error.status < 500


def manifests(random: Random, folder: Path) -> bool:
    contract, right = random.choice(MANIFESTS)
    text = encoded(random, document(random, right))
    try:
        parse_json(text, contract)
    except ProblemError as error:
        assert _is_told(error)  # noqa: PT017
        return False
    return True


def policies(random: Random, folder: Path) -> bool:
    given = document(random, POLICY)
    try:
        text = yaml.safe_dump(given, allow_unicode=True, default_flow_style=random.random() < 0.5).encode(
            "utf-8", "surrogatepass"
        )
    except (yaml.YAMLError, RecursionError, UnicodeError):
        text = b"a: [" * 200
    if random.random() < 0.3:
        text = damaged(random, text)
    if random.random() < 0.1:
        text += random.choice(
            (
                b"\n&a x: *a\n",
                b"\n<<: {a: b}\n",
                b"\n!!python/object:os.system x\n",
                b"- " * 500,
                b"? " * 500,
                b"\n" * 5000,
            )
        )
    try:
        parse_policy(yaml_to_json(text))
    except YamlError:
        return False
    except ProblemError as error:
        assert _is_told(error)  # noqa: PT017
        return False
    return True


_TABLE = pa.table({"example_id": [0, 1, 2], "label": ["a", "b", None], "logits": [[0.5], None, [1.0, 2.0]]})
_INPUT = {
    "id": "mdl_1", "kind": "model", "roles": ["/model"], "name": "m", "version": "1", "format": "safetensors",
    "digest": "sha256:0", "size_bytes": 3, "manifest": "inputs/model.manifest.json", "file": None, "facts": None,
}  # fmt: skip
_RECORDS = {"stage": "attack", "source": "dataset", "examples": 3, "rows": 3, "file": "records/0/attack.parquet"}
_BUNDLE: dict[str, Any] = {
    INDEX: {
        "format": "seatrial.bundle/1", "audit": "aud_1", "state": "succeeded", "created_at": "2026-01-01T00:00:00Z",
        "started_at": None, "finished_at": None,
        "spec": {"model": "mdl_1", "dataset": "dat_1", "checks": [], "samples": 3},
        "spec_digest": "sha256:0", "seed": 0,
        "samples": 3, "error": None, "inputs": [_INPUT], "judgement": None, "policy": None, "versions": {"numpy": "2"},
        "workers": [],
        "checks": [
            {
                "position": 0, "kind": "uncertainty_span", "state": "succeeded", "params": {},
                "records": [_RECORDS],
            }
        ],
    },
    RESULTS: [{"position": 0, "kind": "uncertainty_span", "result": None, "error": None}],
    "inputs/model.manifest.json": {"name": "m"},
}  # fmt: skip


def bundles(random: Random, folder: Path) -> bool:
    records = to_parquet(_TABLE)
    files = {"records/0/attack.parquet": damaged(random, records, 3) if random.random() < 0.3 else records}
    changed = random.choice([*_BUNDLE, None])
    for name, right in _BUNDLE.items():
        files[name] = encoded(random, document(random, right, 2)) if name == changed else json.dumps(right).encode()
    if random.random() < 0.1:
        del files[random.choice(list(files))]
    listed = "".join(f"{hashlib.sha256(data).hexdigest()}  {name}\n" for name, data in files.items()).encode()
    files[SUMS] = listed if random.random() < 0.9 else damaged(random, listed)
    data = zipped(files)
    path = folder / "upload"
    path.write_bytes(data if random.random() < 0.9 else damaged(random, data))
    try:
        bundle = open_bundle(path, folder / "out")
        for one in bundle.index.inputs:
            bundle.manifest(one)
        for check in bundle.index.checks:
            for stage in check.records:
                bundle.records(stage)
    except BundleError as error:
        str(error).encode()
        return False
    finally:
        shutil.rmtree(folder / "out", ignore_errors=True)
    return True


@pytest.mark.parametrize("case", [manifests, policies, bundles], ids=lambda case: case.__name__)
def test_documents_are_accepted_or_refused(fuzz: Callable[[Case], None], case: Case) -> None:
    fuzz(case)
