"""Texts of any task through the real runtime: a worker, its shards, and the same examples however they are cut."""

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
import torch
from sqlalchemy import select
from torch import Tensor

from app.datasets.inspection import inspect_dataset
from seatrial.contracts.datasets import DatasetManifest
from seatrial.contracts.estimates import Estimate, Result
from seatrial.contracts.states import ModelState
from seatrial.store.artifacts import LocalStore, digest_of_bytes
from seatrial.store.database import Database
from seatrial.store.ids import new_id
from seatrial.store.records import read_parquet
from seatrial.store.settings import Settings
from seatrial.store.tables import AuditRow, CheckRow, DatasetRow, ModelRow, ShardRow
from tests import texts
from tests.rows import add_project
from tests.runtime.inline import InlineWorker
from workers.data import Text
from workers.families.contexts import Records, RunContext
from workers.families.protocol import HELD_OUT, SAMPLE, DataInfo, Shard, Stage, TargetInfo
from workers.runtime import inline

SINGLE, PAIRS = "text-classification", "text-pair-classification"
MULTI, TAGS = "multi-label-classification", "token-classification"
LABELS = {SINGLE: texts.LABELS, PAIRS: texts.PAIR_LABELS, MULTI: ["praise", "blame", "music"], TAGS: texts.TAGS}
EXAMPLES, SAMPLES = 70, 50


class Reading:
    """Writes down the texts it is given, and the bits of their logits."""

    def __init__(self, source: str = SAMPLE) -> None:
        self.source = source
        self.told: list[tuple[TargetInfo, DataInfo]] = []

    def preflight(self, target: TargetInfo, data: DataInfo, params: Any) -> None:
        self.told.append((target, data))

    def next_stage(self, params: Any, done: Mapping[str, Records]) -> Stage | None:
        return None if "attack" in done else Stage("attack", source=self.source, limit=20, grain=4)

    def run(self, params: Any, shard: Shard, context: RunContext) -> Records:
        examples = context.labelled()
        answers = context.scoring().scores([example.text for example in examples])
        assert all(isinstance(answer, Tensor) for answer in answers)
        return pa.table(
            {
                "example_id": pa.array([example.example_id for example in examples], pa.int64()),
                "label": pa.array([-1] * len(examples), pa.int64()),
                "errored": pa.array([False] * len(examples), pa.bool_()),
                "task": [context.task] * len(examples),
                "text": [json.dumps(example.text) for example in examples],
                "truths": pa.array([example.truths for example in examples], pa.list_(pa.int64())),
                "logits": [answer.numpy().tobytes() for answer in answers if isinstance(answer, Tensor)],
            }
        )

    def reduce(
        self, params: Any, done: Mapping[str, Records], seed: int, *, check_cancelled: Callable[[], None] = lambda: None
    ) -> Result:
        return Result(
            estimates={"mus": Estimate(value=0.0, low=None, high=None, n=1, method="none")},
            counts={"n": done["attack"].num_rows, "errored": 0},
        )

    def figures(self, params: Any, result: Result) -> Mapping[str, str]:
        return {}


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(home=tmp_path, device="cpu", torch_threads=1)


@pytest.fixture
def worker(db: Database, settings: Settings, tmp_path: Path) -> InlineWorker:
    return InlineWorker(db, LocalStore(tmp_path / "artifacts"), settings)


def _untrained(folder: Path, labels: list[str]) -> Path:
    """Write an untrained classifier whose logits differ enough to be told apart."""
    model = texts._seeded(labels)
    with torch.no_grad():
        model.classifier.weight *= 1000
    return texts.save(folder, model)


def _rows(task: str, answer: Callable[[list[Text]], list[Tensor]]) -> list[dict[str, Any]]:
    """Return texts labelled by the model, so that it does not guess."""
    if task == TAGS:
        sentences: list[Text] = [tuple(tokens) for tokens, _ in texts.tagged(EXAMPLES, seed=5)]
        tags = [[texts.TAGS[tag] for tag in rows.argmax(1).tolist()] for rows in answer(sentences)]
        return [{"tokens": tokens, "tags": own} for tokens, own in zip(sentences, tags, strict=True)]
    if task == PAIRS:
        pairs: list[Text] = [(premise, hypothesis) for premise, hypothesis, _ in texts.pairs(EXAMPLES, seed=5)]
        classes = [int(row.argmax()) for row in answer(pairs)]
        return [{"premise": p, "hypothesis": h, "label": c} for (p, h), c in zip(pairs, classes, strict=True)]
    reviews: list[Text] = [text for text, _ in texts.sentences(EXAMPLES, seed=5)]
    if task == SINGLE:
        return [{"text": t, "label": int(row.argmax())} for t, row in zip(reviews, answer(reviews), strict=True)]
    logits = torch.stack(answer(reviews))
    given = (logits > logits.median(0).values).tolist()
    # Nobody has the last label: what the file does not show, the model's labels do.
    return [{"text": t, "labels": [n for n in (0, 1) if has[n]]} for t, has in zip(reviews, given, strict=True)]


def _uploaded(db: Database, worker: InlineWorker, folder: Path, task: str) -> tuple[str, str]:
    """Store a tiny model of a task and examples for it, as the API does; return their ids."""
    made = folder / "model"
    if task in (SINGLE, PAIRS):
        _untrained(made, LABELS[task])
    else:
        {MULTI: texts.tiny_multi_label, TAGS: texts.tiny_tagger}[task](made)
    data = texts.zip_folder(made)
    project = add_project(db)
    model = ModelRow(
        **{"id": new_id("mdl"), "project_id": project, "name": "m", "version": "1", "task": task, "format": "archive"},
        manifest=texts.model_manifest(task=task),
        digest=worker.store.put_bytes(data),
        size_bytes=len(data),
        state=ModelState.READY,
    )

    def answer(asked: list[Text]) -> list[Tensor]:
        return [found for found in worker.executor.resources.scoring(model).scores(asked) if isinstance(found, Tensor)]

    path = texts.jsonl(folder / "data.jsonl", _rows(task, answer))
    manifest = texts.dataset_manifest(task=task, labels=LABELS[task] if task != MULTI else None)
    facts = inspect_dataset(path, path.name, DatasetManifest.model_validate(manifest), Settings())
    dataset = DatasetRow(
        **{"id": new_id("dat"), "project_id": project, "name": "d", "version": "1", "task": task, "split": "test"},
        manifest=manifest,
        digest=worker.store.put_bytes(path.read_bytes()),
        size_bytes=path.stat().st_size,
        format=facts.format,
        facts=facts.model_dump(mode="json"),
    )
    ids = model.id, dataset.id
    with db.write() as session:
        session.add_all([model, dataset])
    return ids


def _audit(db: Database, worker: InlineWorker, ids: tuple[str, str], shards: int) -> tuple[dict[str, pa.Table], int]:
    """Audit with so many shards; return the records of each stage and how many shards the attack had."""
    check = new_id("chk")
    with db.write() as session:
        model, dataset = session.get_one(ModelRow, ids[0]), session.get_one(DatasetRow, ids[1])
        audit = AuditRow(
            **{"id": new_id("aud"), "project_id": model.project_id, "model_id": model.id, "dataset_id": dataset.id},
            seed=7,
            samples=SAMPLES,
            spec={"batch_size": 8, "shards": shards, "max_error_rate": 0.05},
            spec_digest=digest_of_bytes(check.encode()),
        )
        session.add(audit)
        session.flush()
        params = {"kind": "uncertainty_span"}
        session.add(CheckRow(id=check, audit_id=audit.id, ordinal=0, kind="uncertainty_span", params=params))
    worker.drain()
    with db.read() as session:
        done = session.get_one(CheckRow, check)
        assert done.state == "succeeded", done.error
        query = select(ShardRow).where(ShardRow.check_id == check).order_by(ShardRow.ordinal)
        found: dict[str, list[Path]] = {}
        for shard in session.scalars(query):
            assert shard.records_digest is not None
            found.setdefault(shard.stage, []).append(worker.store.local_path(shard.records_digest))
    return {stage: read_parquet(paths) for stage, paths in found.items()}, len(found["attack"])


@pytest.fixture
def family(monkeypatch: pytest.MonkeyPatch) -> Reading:
    reading = Reading()
    monkeypatch.setattr(inline, "find_family", lambda kind: reading)
    return reading


@pytest.mark.slow
@pytest.mark.parametrize("task", [SINGLE, PAIRS, MULTI, TAGS])
def test_the_same_examples_come_in_one_shard_and_in_three(
    db: Database, worker: InlineWorker, tmp_path: Path, family: Reading, task: str
) -> None:
    ids = _uploaded(db, worker, tmp_path, task)
    alone, shards = _audit(db, worker, ids, 1)
    assert shards == 1
    cut, shards = _audit(db, worker, ids, 3)
    assert shards == 3
    assert cut["attack"].equals(alone["attack"])
    assert cut["preflight"].equals(alone["preflight"])
    records = alone["attack"].to_pylist()
    assert len({row["example_id"] for row in records}) == 20
    assert {row["task"] for row in records} == {task}
    written = [json.loads(line) for line in (tmp_path / "data.jsonl").read_text().splitlines()]
    for row in records:
        assert (json.loads(row["text"]), row["truths"]) == _wanted(task, written[row["example_id"]])
    target, data = family.told[0]
    assert (target.task, target.classes, target.has_gradients) == (task, len(LABELS[task]), False)
    kinds = {truth for line in written for truth in (line.get("tags") or line.get("labels") or [line.get("label")])}
    assert (data.examples, data.classes) == (EXAMPLES, len(kinds - {None}))


def _wanted(task: str, line: dict[str, Any]) -> tuple[Any, list[int]]:
    if task == TAGS:
        return line["tokens"], [texts.TAGS.index(tag) for tag in line["tags"]]
    if task == MULTI:
        return line["text"], [int(number in line["labels"]) for number in range(3)]
    return ([line["premise"], line["hypothesis"]] if task == PAIRS else line["text"]), [line["label"]]


@pytest.mark.parametrize("task", [MULTI, TAGS])
def test_what_preflight_records_of_examples_with_several_decisions(
    db: Database, worker: InlineWorker, tmp_path: Path, family: Reading, task: str
) -> None:
    records = _audit(db, worker, _uploaded(db, worker, tmp_path, task), 1)[0]["preflight"].to_pylist()
    assert len(records) == SAMPLES
    assert {(row["label"], row["prediction"], row["errored"]) for row in records} == {(-1, -1, False)}
    written = [json.loads(line) for line in (tmp_path / "data.jsonl").read_text().splitlines()]
    for row in records:
        wanted = len(written[row["example_id"]]["tokens"]) if task == TAGS else 3
        assert row["decisions"] == wanted
        # The tags are the tagger's own; labels are above its medians, which decisions at 0.5 are not.
        assert row["correct"] == (wanted if task == TAGS else 3 - sum(_wanted(task, written[row["example_id"]])[1]))


@pytest.mark.parametrize("task", [MULTI, TAGS])
def test_held_out_examples_are_none_of_the_sample(
    db: Database, worker: InlineWorker, tmp_path: Path, family: Reading, task: str
) -> None:
    ids = _uploaded(db, worker, tmp_path, task)
    sample = _audit(db, worker, ids, 1)[0]["preflight"]
    family.source = HELD_OUT
    apart = _audit(db, worker, ids, 2)[0]["attack"]
    assert apart.num_rows == 20
    assert set(apart["example_id"].to_pylist()).isdisjoint(sample["example_id"].to_pylist())


def test_where_everything_is_audited_nothing_is_held_out(
    db: Database, worker: InlineWorker, tmp_path: Path, family: Reading, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tests.runtime.test_labelled.SAMPLES", EXAMPLES)
    ids = _uploaded(db, worker, tmp_path, MULTI)
    family.source = HELD_OUT
    assert _audit(db, worker, ids, 2)[0]["attack"].num_rows == 0


@pytest.mark.parametrize("task", [MULTI, TAGS])
def test_uploads_of_every_task_are_checked(db: Database, worker: InlineWorker, tmp_path: Path, task: str) -> None:
    model, _ = _uploaded(db, worker, tmp_path, task)
    with db.write() as session:
        session.get_one(ModelRow, model).state = ModelState.CHECKING
    worker.drain()
    with db.read() as session:
        row = session.get_one(ModelRow, model)
        assert (row.state, row.problem) == (ModelState.READY, None)
        assert row.facts is not None
        assert (row.facts["labels"], row.facts["classes"]) == (LABELS[task], len(LABELS[task]))
