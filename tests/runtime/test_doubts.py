"""What is doubted of a whole audit before its numbers, whichever family they are of."""

import io
from pathlib import Path

import numpy as np
import pytest
from sqlalchemy import update

from seatrial.store.database import Database
from seatrial.store.settings import Settings
from seatrial.store.tables import DatasetRow
from tests import assets
from tests.runtime.bench import AuditBench

QUICK = {"effort": "quick"}


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(home=tmp_path, lease_s=5, heartbeat_s=0.5, device="cpu", torch_threads=1)


def doubts(bench: AuditBench, labels: list[int], **params: int) -> set[str]:
    """Return the codes that an audit of digits of these classes is flagged with."""
    buffer = io.BytesIO()
    whole, known = assets.digits()
    images = np.stack([whole[known == label][at % 150] for at, label in enumerate(labels)])
    # No two are the same.
    images[:, 0, 0, 0] = np.linspace(0, 0.2, len(labels))
    np.savez(buffer, images=images, labels=np.array(labels))
    with bench.db.write() as session:
        session.execute(update(DatasetRow).values(digest=bench.store.put_bytes(buffer.getvalue())))
    audit_id = bench.submit(samples=len(labels), shards=1, batch_size=400, params=QUICK | params)
    bench.worker().drain()
    result = bench.check(audit_id).result
    assert result is not None, bench.check(audit_id).error
    return {flag["code"] for flag in result["flags"]}


def test_one_class_and_few_bins_are_doubted(db: Database, settings: Settings) -> None:
    bench = AuditBench(db, settings)
    assert {"one_class", "few_bins"} <= doubts(bench, [3] * 36 + [1] * 4, bins=9)
    assert not {"one_class", "few_bins"} & doubts(bench, [3] * 35 + [1] * 5, bins=10)


def test_a_rare_class_is_counted_in_the_whole_sample_and_not_in_what_is_looked_at(
    db: Database, settings: Settings
) -> None:
    """Before a large audit the first 512 of its examples are looked at, of which here less than a tenth are others."""
    assert "one_class" not in doubts(AuditBench(db, settings, examples=1200), [3] * 1080 + [1] * 120)
