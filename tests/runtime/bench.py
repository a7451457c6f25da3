"""Whole audits of a small classifier by workers in the test's own process."""

import os
from pathlib import Path
from typing import Any

from sqlalchemy import select

from seatrial.contracts.registry import params_contract
from seatrial.contracts.states import ModelState
from seatrial.store.artifacts import LocalStore, digest_of_bytes
from seatrial.store.database import Database
from seatrial.store.ids import new_id
from seatrial.store.reuse import asked_digest
from seatrial.store.settings import Settings
from seatrial.store.tables import AuditRow, CheckRow, DatasetRow, ModelRow, ShardRow
from tests import assets
from tests.rows import add_project
from tests.runtime.inline import InlineWorker

CLEAN = "clean_accuracy"


class AuditBench:
    """A model and a dataset, uploaded and checked, and audits of them.

    Args:
        db: An empty database.
        settings: Of the workers.
        examples: Of the dataset.
    """

    def __init__(self, db: Database, settings: Settings, *, examples: int = 40) -> None:
        self.db, self.settings = db, settings
        self.root = settings.home / "artifacts"
        self.store = LocalStore(self.root)
        self.project = add_project(db)
        weights, data = assets.weights(), assets.npz(examples)
        facts = {"format": "npz", "examples": examples, "classes": 10, "shape": [1, 8, 8], "label_counts": {}}
        self.model = ModelRow(
            **{"id": new_id("mdl"), "project_id": self.project, "name": "m", "version": "1"},
            task="image-classification",
            manifest=assets.model_manifest(),
            digest=self.store.put_bytes(weights),
            size_bytes=len(weights),
            format="safetensors",
            state=ModelState.READY,
            facts={"parameters": 1, "classes": 10, "device": "cpu", "forward_s": 1e-5, "backward_s": 1e-5},
        )
        self.dataset = DatasetRow(
            **{"id": new_id("dat"), "project_id": self.project, "name": "d", "version": "1", "split": "test"},
            task="image-classification",
            manifest=assets.dataset_manifest(),
            digest=self.store.put_bytes(data),
            size_bytes=len(data),
            format="npz",
            facts=facts,
        )
        with db.write() as session:
            session.add_all([self.model, self.dataset])

    def submit(
        self,
        *,
        shards: int = 2,
        samples: int = 20,
        stop: str | None = None,
        params: dict[str, Any] | None = None,
        batch_size: int = 5,
        reuse: bool = False,
        deciding: Any = None,
        **audit: Any,
    ) -> str:
        """Queue an audit of one check and return its id; ``deciding`` is what its digest says of when it stops."""
        audit_id = new_id("aud")
        params = {"kind": "uncertainty_span", "steps": 2, **(params or {})}
        spec = {"batch_size": batch_size, "shards": shards, "max_error_rate": 0.05, "stop": stop, "reuse": reuse}
        asked = asked_digest(
            params_contract("uncertainty_span").model_validate(params),
            {**spec, "samples": samples, "seed": audit.get("seed", 0)},
            {"model": self.model, "dataset": self.dataset},
            deciding,
        )
        with self.db.write() as session:
            session.add(
                AuditRow(
                    **{"id": audit_id, "project_id": self.project, "model_id": self.model.id},
                    dataset_id=self.dataset.id,
                    **{"seed": 0, "samples": samples, "spec_digest": digest_of_bytes(audit_id.encode()), **audit},
                    spec=spec,
                )
            )
            session.flush()
            session.add(
                CheckRow(
                    **{"id": new_id("chk"), "audit_id": audit_id, "ordinal": 0, "kind": "uncertainty_span"},
                    **{"params": params, "asked": asked},
                )
            )
        return audit_id

    def worker(self) -> InlineWorker:
        """Return a worker that has just been started: nothing is loaded, and no file has been verified."""
        return InlineWorker(self.db, LocalStore(self.root), self.settings)

    def audit(self, audit_id: str) -> AuditRow:
        """Return an audit as it stands."""
        with self.db.read() as session:
            return session.get_one(AuditRow, audit_id)

    def check(self, audit_id: str) -> CheckRow:
        """Return its check."""
        with self.db.read() as session:
            return session.scalars(select(CheckRow).where(CheckRow.audit_id == audit_id)).one()

    def shards(self, audit_id: str) -> list[ShardRow]:
        """Return its shards in the order they were made."""
        query = select(ShardRow).join(CheckRow, CheckRow.id == ShardRow.check_id)
        with self.db.read() as session:
            return list(session.scalars(query.where(CheckRow.audit_id == audit_id).order_by(ShardRow.id)))

    def stored(self, digest: str | None) -> Path:
        """Return the path of a stored file."""
        assert digest is not None
        return self.root / digest[7:9] / digest[7:]


def flip_bits(path: Path, count: int = 1, *, keep_time: bool = True) -> None:
    """Turn bits in the last half of a file over, as a bad disk does: its time stays."""
    before = path.stat()
    data = bytearray(path.read_bytes())
    for n in range(1, count + 1):
        data[-len(data) * n // (2 * count + 2)] ^= 0x40
    path.write_bytes(bytes(data))
    if keep_time:
        os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
