"""Freeing the files of what was deleted: those that no row names any more, and that nobody is about to name.

Files are named by digest, so two audits may share one. Whoever deletes rows releases the files they named, in the same
transaction; a sweep deletes a released file unless some row names it. Two things keep a file from whoever brings its
bytes again meanwhile: an upload's row is stored, and its file put there, under the lock of its digest, which a sweep
takes too; and a worker stores records before their row names them, so a file stored within ``KEPT_S`` stays.
"""

import logging
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any

from sqlalchemy import delete, func, select, update
from sqlalchemy.orm import InstrumentedAttribute, Session

from seatrial.store.artifacts import ArtifactMissingError, ArtifactStore
from seatrial.store.database import Database, epoch_now, insert_into
from seatrial.store.tables import CheckRow, DatasetRow, DiscardRow, HardeningRow, ModelRow, ReleaseRow, ShardRow
from seatrial.store.tables.hardenings import OVER

log = logging.getLogger(__name__)

KEPT_S = 3600.0
"""Seconds a file is kept from when it was last stored: many times what a worker takes from there to the row."""

_AT_ONCE = 500

_NAMED_BY: tuple[InstrumentedAttribute[Any], ...] = (
    ModelRow.digest,
    ModelRow.weights_digest,
    DatasetRow.digest,
    ShardRow.records_digest,
    ShardRow.saved_digest,
    HardeningRow.saved_digest,
    # Deleted by a sweep of its own.
    DiscardRow.digest,
)


@dataclass(frozen=True)
class Freed:
    """What a sweep did: files deleted, their bytes, and files that are too young to go."""

    files: int = 0
    size_bytes: int = 0
    young: int = 0

    def __add__(self, other: "Freed") -> "Freed":
        """Return the sum."""
        return Freed(self.files + other.files, self.size_bytes + other.size_bytes, self.young + other.young)


def lock_digest(session: Session, digest: str) -> None:
    """Hold the lock of a digest for the rest of the transaction; on SQLite a write transaction is alone anyway."""
    if session.get_bind().dialect.name != "sqlite":
        number = int(digest.removeprefix("sha256:")[:15], 16)
        session.execute(select(func.pg_advisory_xact_lock(number)))


def release(session: Session, digests: Iterable[str]) -> None:
    """Have files deleted that rows named which this transaction deletes, unless others name them."""
    # In order: two that delete at once wait for each other, never in a circle.
    for digest in sorted(set(digests)):
        stored = insert_into(session, ReleaseRow).values(digest=digest, due_at=epoch_now())
        session.execute(stored.on_conflict_do_update(index_elements=["digest"], set_={"due_at": epoch_now()}))


def sweep_released(database: Database, store: ArtifactStore, *, kept_s: float = KEPT_S) -> Freed:
    """Delete the released files that nobody names; safe in several processes at once, and to be killed at any moment.

    A file goes before the row that releases it does: killed in between, the next sweep finds no file and ends it.
    """
    freed = Freed()
    while True:
        with database.read() as session:
            due = session.execute(
                select(ReleaseRow.digest, ReleaseRow.due_at).where(ReleaseRow.due_at <= epoch_now()).limit(_AT_ONCE)
            ).all()
            named = find_named(session, [digest for digest, _ in due])
        if not due:
            return freed
        for digest, due_at in due:
            if digest in named:
                with database.write() as session:
                    _forget(session, digest, due_at)
            else:
                freed += _delete(database, store, digest, kept_s, due_at)


def sweep_unnamed(
    database: Database, store: ArtifactStore, *, kept_s: float = KEPT_S, dry_run: bool = False
) -> Iterator[tuple[str, int]]:
    """Walk the whole store and delete every file that no row names; yield their digests and sizes as they go.

    What processes left that were killed between a file and its row, or what stood in the store before anything could be
    deleted.
    """
    digests = store.digests()
    while some := list(islice(digests, _AT_ONCE)):
        with database.read() as session:
            named = find_named(session, some)
        for digest in some:
            if digest in named:
                continue
            if dry_run:
                try:
                    size, age = store.measure(digest)
                except ArtifactMissingError:
                    continue
                if age >= kept_s:
                    yield digest, size
            elif (freed := _delete(database, store, digest, kept_s)).files:
                yield digest, freed.size_bytes


def find_named(session: Session, digests: Collection[str]) -> set[str]:
    """Return those digests that some row names."""
    if not digests:
        return set()
    wanted = set(digests)
    found: set[str] = set()
    for column in _NAMED_BY:
        found |= set(session.scalars(select(column).where(column.in_(wanted - found))))
    found |= _find_outcomes(session, wanted - found)
    return found | _find_figures(session, wanted - found)


def _find_outcomes(session: Session, digests: set[str]) -> set[str]:
    """Return those digests that trained models have whose version is not stored yet."""
    trained = select(HardeningRow.outcome).where(
        HardeningRow.outcome.is_not(None), HardeningRow.state.not_in(OVER), HardeningRow.hardened_id.is_(None)
    )
    named = {value for outcome in session.scalars(trained) for value in outcome.values() if isinstance(value, str)}
    return digests & named


def _find_figures(session: Session, digests: set[str]) -> set[str]:
    """Return those digests that checks name as figures, which are columns of JSON."""
    if not digests:
        return set()
    found: set[str] = set()
    figures = select(CheckRow.figures).where(CheckRow.figures.is_not(None)).execution_options(yield_per=1000)
    for names in session.scalars(figures):
        found |= digests & set((names or {}).values())
    return found


def _delete(database: Database, store: ArtifactStore, digest: str, kept_s: float, due_at: float | None = None) -> Freed:
    """Delete a file and its release, unless it is named by now, is too young, or the store does not answer."""
    try:
        with database.write() as session:
            lock_digest(session, digest)
            if any(session.scalar(select(table.id).where(table.digest == digest).limit(1)) for table in _UPLOADS):
                _forget(session, digest, due_at)
                return Freed()
            size = store.delete_older(digest, kept_s)
            if size is None:
                _put_off(session, digest, kept_s)
                return Freed(young=1)
            _forget(session, digest, due_at)
    except OSError as error:
        log.warning("%s is not deleted yet: %s", digest, error)
        with database.write() as session:
            _put_off(session, digest, kept_s)
        return Freed()
    return Freed(files=int(size > 0), size_bytes=size)


_UPLOADS: tuple[type[ModelRow] | type[DatasetRow], ...] = (ModelRow, DatasetRow)


def _put_off(session: Session, digest: str, seconds: float) -> None:
    later = update(ReleaseRow).where(ReleaseRow.digest == digest).values(due_at=epoch_now() + seconds)
    session.execute(later.execution_options(synchronize_session=False))


def _forget(session: Session, digest: str, due_at: float | None) -> None:
    """Take back a release, but not one made since: whoever deletes the last rows that name a file releases it again."""
    if due_at is not None:
        session.execute(delete(ReleaseRow).where(ReleaseRow.digest == digest, ReleaseRow.due_at == due_at))
