"""What a shard, or a training, saves between its steps: one file, which its row names and which goes when it ends.

A file is written down as one to delete before it is stored, and crossed out when a shard's row takes it over. So a
process killed at any moment leaves no file behind that nobody knows of: either a row names it or a sweep deletes it.
Every checkpoint is a file of its own (:mod:`workers.runtime.checkpointing` puts a random number into each), so deleting
one never takes another shard's, however alike their states.
"""

import logging
from typing import Any, Protocol

from sqlalchemy import ColumnElement, delete, select, update
from sqlalchemy.orm import Session

from seatrial.contracts.states import TERMINAL, RunState
from seatrial.store.artifacts import ArtifactStore
from seatrial.store.database import Database, epoch_now
from seatrial.store.tables import DiscardRow, HardeningRow, ShardRow
from seatrial.store.transitions import holds

log = logging.getLogger(__name__)


class Deletes(Protocol):
    """What of a store deletes files."""

    def delete(self, digest: str) -> None:
        """Remove the bytes, if they are there."""
        ...


STORED_WITHIN_S = 3600.0
"""Seconds a checkpoint may take from its announcement to the shard's row: many times what the largest upload takes."""

MARGIN_S = 60.0
"""Seconds between the last moment a file may be taken over and the first at which it is deleted: more than a
transaction lasts, so that none takes over what a sweep deletes."""


def announce_checkpoint(session: Session, digest: str) -> None:
    """Write down that a file is about to be stored; it is deleted in an hour unless a shard takes it over."""
    session.add(DiscardRow(digest=digest, due_at=epoch_now() + STORED_WITHIN_S + MARGIN_S))


def point_at_checkpoint(
    session: Session,
    row_id: str,
    token: str,
    digest: str,
    size_bytes: int,
    *,
    table: type[ShardRow | HardeningRow] = ShardRow,
) -> bool:
    """Make an announced and stored file of so many bytes the row's checkpoint; the one before it is to be deleted.

    False, and nothing is written, when the row is no longer the caller's or the announcement is too old.
    """
    own = (*holds(table, row_id, token), table.state == RunState.RUNNING)
    row = session.execute(select(table.saved_digest).where(*own).with_for_update()).one_or_none()
    if row is None:
        return False
    announced = delete(DiscardRow).where(DiscardRow.digest == digest, DiscardRow.due_at > epoch_now() + MARGIN_S)
    if not session.execute(announced).rowcount:  # type: ignore[attr-defined]
        return False
    session.execute(
        update(table)
        .where(*own)
        .values(saved_digest=digest, saved_bytes=size_bytes, saved_attempt=table.attempts)
        .execution_options(synchronize_session=False)
    )
    if row.saved_digest is not None:
        discard(session, row.saved_digest)
    return True


def may_resume(shard: ShardRow | HardeningRow) -> bool:
    """Return whether the present attempt begins from the shard's checkpoint, or anew.

    An attempt that failed, or lost its worker, is followed by one that begins where it had saved. When that one ends
    the same way without having saved again, the checkpoint itself may be what kills it, and the next attempt begins
    anew. A worker that is asked to stop costs no attempt, so such stops never count.
    """
    return shard.saved_attempt is not None and shard.attempts <= shard.saved_attempt + 1


def drop_checkpoints(
    session: Session, *where: ColumnElement[bool], table: type[ShardRow | HardeningRow] = ShardRow
) -> None:
    """Forget the checkpoints of those matching rows that have ended; their files are to be deleted.

    Called after the rows were moved to their end in the same transaction, which therefore holds them.
    """
    _drop(session, (*where, table.state.in_(TERMINAL), table.saved_digest.is_not(None)), table)


def drop_checkpoint(session: Session, hardening_id: str) -> None:
    """Forget the checkpoint of a training that is over, though its hardening goes on."""
    _drop(session, (HardeningRow.id == hardening_id, HardeningRow.saved_digest.is_not(None)), HardeningRow)


def _drop(session: Session, kept: tuple[ColumnElement[bool], ...], table: type[ShardRow | HardeningRow]) -> None:
    digests = session.scalars(select(table.saved_digest).where(*kept)).all()
    if not digests:
        return
    session.execute(
        update(table)
        .where(*kept)
        .values(saved_digest=None, saved_bytes=None, saved_attempt=None)
        .execution_options(synchronize_session=False)
    )
    for digest in digests:
        discard(session, digest)


def discard(session: Session, digest: Any) -> None:
    """Have a file deleted that no shard names any more."""
    session.add(DiscardRow(digest=digest, due_at=epoch_now()))


def has_due_discards(session: Session) -> bool:
    """Return whether there is a file to delete now."""
    return session.scalar(select(DiscardRow.digest).where(DiscardRow.due_at <= epoch_now()).limit(1)) is not None


def sweep_discards(database: Database, store: ArtifactStore) -> int:
    """Delete the files whose time has come and return how many; safe in several processes at once."""
    with database.read() as session:
        due = session.scalars(select(DiscardRow.digest).where(DiscardRow.due_at <= epoch_now())).all()
    return sum(delete_file(database, store, digest) for digest in due)


def delete_file(database: Database, store: Deletes, digest: str) -> bool:
    """Delete a file that no shard names, then the row that says so; False when one of the two is for a later sweep."""
    try:
        store.delete(digest)
        with database.write() as session:
            session.execute(delete(DiscardRow).where(DiscardRow.digest == digest))
    except Exception as error:
        # Every kind of store has errors of its own. The row stays until both are done.
        log.warning("%s is not deleted yet: %s", digest, error)
        return False
    return True
