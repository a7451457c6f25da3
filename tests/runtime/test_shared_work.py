"""What shards share: made once, of one check or audit, within its room, and never when making it failed."""

from typing import Any

import pytest
import torch
from sqlalchemy import select
from torch import Tensor

from seatrial.contracts.states import RunState
from seatrial.store.database import Database
from seatrial.store.ids import new_id
from seatrial.store.settings import Settings
from seatrial.store.tables import CheckRow, ShardRow
from tests.runtime.bench import AuditBench
from workers.models.image_classifier import ImageClassifier
from workers.runtime import preflight as looking
from workers.runtime.shared_work import SharedWork, Tensors

MIB = 2**20


def test_what_is_kept_is_made_once_and_forgotten_with_its_check() -> None:
    made: list[str] = []

    def of(name: str, mib: int = 1) -> Tensors:
        made.append(name)
        return {"values": torch.full((mib * MIB // 4,), float(len(made)))}

    work = SharedWork(2 * MIB)
    first = work.get("chk_1", "a", lambda: of("a"))
    assert work.get("chk_1", "a", lambda: of("a")) is first
    # No room beside the first, and none is taken from it.
    assert len(work.get("chk_1", "b", lambda: of("b", 2))["values"]) == MIB // 2
    work.get("chk_1", "b", lambda: of("b", 2))
    assert work.get("chk_1", "a", lambda: of("a")) is first
    work.get("chk_2", "b", lambda: of("b", 2))
    work.get("chk_2", "b", lambda: of("b", 2))
    work.get("chk_1", "a", lambda: of("a"))
    assert made == ["a", "b", "b", "b", "a"]


def test_what_failed_is_tried_again() -> None:
    work = SharedWork(MIB)

    def fails() -> Tensors:
        raise RuntimeError("cancelled")

    with pytest.raises(RuntimeError, match="cancelled"):
        work.get("chk_1", "a", fails)
    assert torch.equal(work.get("chk_1", "a", lambda: {"one": torch.ones(1)})["one"], torch.ones(1))


@pytest.fixture
def passes(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return the forward passes of each preflight that is run."""
    counted: list[int] = []
    preflight, logits, is_looking = looking.preflight, ImageClassifier.logits, False

    def looked(*args: Any, **options: Any) -> Any:
        nonlocal is_looking
        counted.append(0)
        is_looking = True
        try:
            return preflight(*args, **options)
        finally:
            is_looking = False

    def asked(self: ImageClassifier, images: Tensor) -> Tensor:
        if is_looking:
            counted[-1] += 1
        return logits(self, images)

    monkeypatch.setattr(looking, "preflight", looked)
    monkeypatch.setattr(ImageClassifier, "logits", asked)
    return counted


def test_checks_of_an_audit_share_the_logits_of_clean_images(
    db: Database, settings: Settings, passes: list[int]
) -> None:
    bench = AuditBench(db, settings)
    first, second = (bench.submit(samples=20, batch_size=5, params={"effort": "quick"}) for _ in range(2))
    with db.write() as session:
        (check,) = session.scalars(select(CheckRow).where(CheckRow.audit_id == first))
        further = {**check.params, "steps": 3}
        session.add(CheckRow(id=new_id("chk"), audit_id=first, ordinal=1, kind=check.kind, params=further))
    worker = bench.worker()
    while worker.step():
        pass
    with db.read() as session:
        assert {check.state for check in session.scalars(select(CheckRow))} == {RunState.SUCCEEDED}
        records = session.scalars(select(ShardRow.records_digest).where(ShardRow.stage == "preflight")).all()
    # Four batches, the first of them again, and images of it by themselves and in twos; the other check of the audit
    # repeats the last three alone. Another audit of the same asks for itself.
    assert sorted(passes) == [3, 7, 7]
    assert len(records) == 3
    assert len(set(records)) == 1
    assert second != first
