"""Trainings by a worker in the test's process: what comes out, what is resumed, what is refused."""

import io
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load

from seatrial.contracts.states import RunState
from seatrial.store.database import Database
from seatrial.store.hardening import cancel_hardening
from seatrial.store.ids import new_id
from seatrial.store.settings import Settings
from seatrial.store.tables import DatasetRow, HardeningRow
from tests import assets
from tests.runtime.bench import AuditBench
from tests.runtime.inline import InlineWorker
from workers.runtime import checkpointing
from workers.runtime.interruptions import ShuttingDown

PARAMS: dict[str, Any] = {
    "adversarial": {"epochs": 2, "batch_size": 50, "steps": 2, "epsilon": 0.1, "learning_rate": 0.05},
    "recalibrate": {"map": "temperature"},
}


class HardeningBench(AuditBench):
    """The bench of audits, with digits to train on that the audit has not."""

    def add_dataset(self, images: np.ndarray, labels: np.ndarray, name: str) -> DatasetRow:
        stream = io.BytesIO()
        np.savez(stream, images=images, labels=labels)
        data = stream.getvalue()
        facts = {**self.dataset.facts, "examples": len(labels)}
        row = DatasetRow(
            **{"id": new_id("dat"), "project_id": self.project, "name": name, "version": "1", "split": "train"},
            task="image-classification",
            manifest=assets.dataset_manifest(name),
            digest=self.store.put_bytes(data),
            size_bytes=len(data),
            format="npz",
            facts=facts,
        )
        with self.db.write() as session:
            session.add(row)
        return row

    def digits(self, start: int = 0, stop: int = 300) -> DatasetRow:
        images, labels = assets.digits()
        return self.add_dataset(images[start:stop], labels[start:stop], new_id("digits"))

    def harden(self, dataset: DatasetRow, method: str = "adversarial", **more: Any) -> str:
        row = HardeningRow(
            **{"id": new_id("hrd"), "project_id": self.project, "model_id": self.model.id, "dataset_id": dataset.id},
            audited_id=self.dataset.id,
            method=method,
            params={"method": method, **PARAMS[method]},
            seed=3,
            spec={},
            **more,
        )
        with self.db.write() as session:
            session.add(row)
        return row.id

    def read(self, hardening_id: str) -> HardeningRow:
        with self.db.read() as session:
            return session.get_one(HardeningRow, hardening_id)

    def weights(self, hardening_id: str) -> dict[str, torch.Tensor]:
        outcome = self.read(hardening_id).outcome
        assert outcome is not None
        return load(self.store.read_bytes(outcome["digest"]))


@pytest.fixture
def bench(database: Database, tmp_path: Path) -> HardeningBench:
    return HardeningBench(database, Settings(home=tmp_path, torch_threads=1))


def stop_after(steps: int, worker: InlineWorker, bench: HardeningBench, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run a training until its worker has saved so often, and let go of it as a process that stops does."""
    left = [steps]
    write = checkpointing.CheckpointStore.write

    def stopping(self: Any, *args: Any, **named: Any) -> None:
        write(self, *args, **named)
        left[0] -= 1
        if not left[0]:
            raise ShuttingDown("test")

    with monkeypatch.context() as patched:
        patched.setattr(checkpointing, "SAVE_S", 0.0)
        patched.setattr(checkpointing, "SAVE_SHARE", 0)
        patched.setattr(checkpointing.CheckpointStore, "write", stopping)
        assert worker.step()


def test_a_training_is_stopped_and_resumed_to_the_same_bits(
    bench: HardeningBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    dataset = bench.digits()
    undisturbed = bench.harden(dataset)
    assert bench.worker().step()
    disturbed = bench.harden(dataset)
    for saves in (2, 4):
        stop_after(saves, bench.worker(), bench, monkeypatch)
        row = bench.read(disturbed)
        assert (row.state, row.attempts) == (RunState.QUEUED, 0)
        assert row.saved_digest is not None
    assert bench.worker().step()
    first, second = bench.read(undisturbed), bench.read(disturbed)
    assert first.error is second.error is None
    assert (first.stage, second.stage) == ("auditing", "auditing")
    assert first.outcome == second.outcome
    assert first.curves == second.curves
    assert len(first.curves or []) == 2
    assert second.saved_digest is None
    before, after = load(bench.store.read_bytes(bench.model.digest)), bench.weights(disturbed)
    assert {name: tensor.shape for name, tensor in before.items()} == {n: t.shape for n, t in after.items()}
    assert any(not torch.equal(before[name], after[name]) for name in before)


@pytest.mark.parametrize("how", ["as it is", "in another order, as floats, under other labels"])
def test_audited_examples_are_not_trained_on(bench: HardeningBench, how: str) -> None:
    images, labels = assets.digits()
    # What the bench audits begins at 1,000.
    audited, truth = images[1000:1040], labels[1000:1040]
    if how != "as it is":
        order = np.random.default_rng(0).permutation(40)
        # Beside 100 others, and a hundredth of a grey level off.
        audited = np.concatenate([images[:100] / 255, audited[order] / 255 + 4e-5]).clip(0, 1).astype(np.float32)
        truth = np.concatenate([labels[:100], np.zeros(40, dtype=np.int64)])
    hardening = bench.harden(bench.add_dataset(audited, truth, "leak"))
    assert bench.worker().step()
    row = bench.read(hardening)
    assert row.state == RunState.FAILED
    assert row.error is not None
    assert (row.error["code"], row.error["field"]) == ("training-overlaps-audit", "/dataset")
    assert "40 of" in row.error["detail"]


def test_a_validation_set_is_as_little_of_the_audit(bench: HardeningBench) -> None:
    validation = bench.digits(1030, 1100).id
    hardening = bench.harden(bench.digits(), validation_id=validation)
    assert bench.worker().step()
    error = bench.read(hardening).error
    assert error is not None
    assert (error["code"], error["field"]) == ("training-overlaps-audit", "/validation_dataset")


def test_a_map_of_logits_leaves_the_weights_alone(bench: HardeningBench) -> None:
    hardening = bench.harden(bench.digits(1100, 1700), "recalibrate")
    assert bench.worker().step()
    row = bench.read(hardening)
    assert row.error is None
    assert row.outcome is not None
    assert row.outcome["digest"] == bench.model.digest
    assert row.outcome["recalibration"]["temperature"] > 0


def test_a_cancelled_training_ends_at_its_next_step(bench: HardeningBench, monkeypatch: pytest.MonkeyPatch) -> None:
    hardening = bench.harden(bench.digits())
    worker = bench.worker()
    monkeypatch.setattr("workers.runtime.claims.WATCH_S", 0.01)
    report = worker.executor.harden

    def cancelling(job: Any, holder: Any) -> Any:
        with bench.db.write() as session:
            assert cancel_hardening(session, hardening)
        return report(job, holder)

    monkeypatch.setattr(worker.executor, "harden", cancelling)
    assert worker.step()
    row = bench.read(hardening)
    assert (row.state, row.outcome, row.token) == (RunState.CANCELLED, None, None)
