"""Walks the artifact store: which files are not what their digest says, and which that rows name are gone."""

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass

from sqlalchemy import select
from sqlalchemy.orm import Session

from seatrial.store.artifacts import ArtifactDamagedError, ArtifactMissingError, ArtifactStore
from seatrial.store.database import Database
from seatrial.store.tables import CheckRow, DatasetRow, HardeningRow, ModelRow, ShardRow
from seatrial.store.tables.hardenings import OVER


@dataclass(frozen=True)
class Damage:
    """A stored file that cannot be used.

    Attributes:
        digest: What it is stored under.
        is_missing: Whether it is gone; else other bytes are in it.
        uploads: Models and datasets it is the file of, as ``model resnet 3 (mdl_...)``: uploading them again mends it.
        audits: Ids of audits whose records or figures it holds.
        weights: Models a hardening made whose weights it holds, named likewise: hardening again mends it.
        unfinished: Audits and hardenings that go on from it.
    """

    digest: str
    is_missing: bool
    uploads: list[str]
    audits: list[str]
    weights: list[str]
    unfinished: list[str]


def find_damage(database: Database, store: ArtifactStore) -> Iterator[Damage]:
    """Read every stored file through and yield what is damaged, then what rows name and the store lacks."""
    with database.read() as session:
        uploads, audits = _uploads(session), _audits(session)
        weights, unfinished = _weights(session), _unfinished(session)

    def damage(digest: str, *, is_missing: bool) -> Damage:
        named = uploads.get(digest, []), sorted(audits.get(digest, ()))
        return Damage(digest, is_missing, *named, weights.get(digest, []), unfinished.get(digest, []))

    there = set()
    for digest in store.digests():
        there.add(digest)
        try:
            store.verify(digest)
        except ArtifactDamagedError:
            yield damage(digest, is_missing=False)
        except ArtifactMissingError:
            # Deleted since it was listed: a checkpoint, or what rows name all the same.
            there.discard(digest)
    # A checkpoint is replaced while others are read, and begun without where it is gone.
    for digest in sorted((uploads.keys() | audits.keys() | weights.keys()) - there):
        yield damage(digest, is_missing=True)


def _uploads(session: Session) -> dict[str, list[str]]:
    found = defaultdict(list)
    for kind, table in (("model", ModelRow), ("dataset", DatasetRow)):
        for row in session.execute(select(table.digest, table.name, table.version, table.id)):
            found[row.digest].append(f"{kind} {row.name} {row.version} ({row.id})")
    return dict(found)


def _weights(session: Session) -> dict[str, list[str]]:
    """Return whose weights by themselves a file is: of models that a hardening made, beside what is downloaded."""
    found = defaultdict(list)
    kept = select(ModelRow.weights_digest, ModelRow.name, ModelRow.version, ModelRow.id)
    for row in session.execute(kept.where(ModelRow.weights_digest.is_not(None))):
        found[str(row.weights_digest)].append(f"weights of model {row.name} {row.version} ({row.id})")
    return dict(found)


def _unfinished(session: Session) -> dict[str, list[str]]:
    """Return what goes on from a file, or would if it were retried."""
    found = defaultdict(list)
    saved = select(ShardRow.saved_digest, CheckRow.audit_id).join(CheckRow, CheckRow.id == ShardRow.check_id)
    for digest, audit_id in session.execute(saved.where(ShardRow.saved_digest.is_not(None))):
        found[str(digest)].append(f"audit {audit_id}")
    trained = select(HardeningRow.id, HardeningRow.saved_digest, HardeningRow.outcome)
    for row in session.execute(trained.where(HardeningRow.state.not_in(OVER))):
        named = [row.saved_digest, *(row.outcome or {}).values()]
        for digest in {one for one in named if isinstance(one, str)}:
            found[digest].append(f"hardening {row.id}")
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
