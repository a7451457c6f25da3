"""Walks the artifact store: which files are not what their digest says, and which that rows name are gone."""

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass

from sqlalchemy import select
from sqlalchemy.orm import Session

from seatrial.store.artifacts import ArtifactDamagedError, ArtifactMissingError, ArtifactStore
from seatrial.store.database import Database
from seatrial.store.tables import CheckRow, DatasetRow, ModelRow, ShardRow


@dataclass(frozen=True)
class Damage:
    """A stored file that cannot be used.

    Attributes:
        digest: What it is stored under.
        is_missing: Whether it is gone; else other bytes are in it.
        uploads: Models and datasets it is the file of, as ``model resnet 3 (mdl_...)``: uploading them again mends it.
        audits: Ids of audits whose records or figures it holds.
    """

    digest: str
    is_missing: bool
    uploads: list[str]
    audits: list[str]


def find_damage(database: Database, store: ArtifactStore) -> Iterator[Damage]:
    """Read every stored file through and yield what is damaged, then what rows name and the store lacks."""
    with database.read() as session:
        uploads, audits = _uploads(session), _audits(session)
    there = set()
    for digest in store.digests():
        there.add(digest)
        try:
            store.verify(digest)
        except ArtifactDamagedError:
            yield Damage(digest, False, uploads.get(digest, []), sorted(audits.get(digest, ())))
        except ArtifactMissingError:
            # Deleted since it was listed: a checkpoint, or what rows name all the same.
            there.discard(digest)
    for digest in sorted((uploads.keys() | audits.keys()) - there):
        yield Damage(digest, True, uploads.get(digest, []), sorted(audits.get(digest, ())))


def _uploads(session: Session) -> dict[str, list[str]]:
    found = defaultdict(list)
    for kind, table in (("model", ModelRow), ("dataset", DatasetRow)):
        for row in session.execute(select(table.digest, table.name, table.version, table.id)):
            found[row.digest].append(f"{kind} {row.name} {row.version} ({row.id})")
    return dict(found)


def _audits(session: Session) -> dict[str, set[str]]:
    found = defaultdict(set)
    records = (
        select(ShardRow.records_digest, CheckRow.audit_id)
        .join(CheckRow, CheckRow.id == ShardRow.check_id)
        .where(ShardRow.records_digest.is_not(None))
    )
    for digest, audit_id in session.execute(records):
        found[str(digest)].add(audit_id)
    for figures, audit_id in session.execute(
        select(CheckRow.figures, CheckRow.audit_id).where(CheckRow.figures.is_not(None))
    ):
        for digest in (figures or {}).values():
            found[str(digest)].add(audit_id)
    return dict(found)
