"""Holding a claim while working on it: heartbeats, cancellation, progress."""

import logging
import threading
import time
from collections.abc import Callable
from contextvars import copy_context
from types import TracebackType
from typing import Any, Self

from sqlalchemy import select
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.orm import Session

from seatrial.contracts.states import RunState
from seatrial.store.checkpoints import announce_checkpoint, delete_file, point_at_checkpoint
from seatrial.store.database import Database
from seatrial.store.hardening import report_training
from seatrial.store.lifecycle import report_progress
from seatrial.store.settings import Settings
from seatrial.store.tables import CheckRow, HardeningRow, ModelRow, ShardRow
from seatrial.store.transitions import heartbeat, holds
from workers.runtime.executor import Files
from workers.runtime.interruptions import LeaseLost, ShardCancelled, ShuttingDown

log = logging.getLogger(__name__)

WATCH_S = 1.0
"""Seconds between looks at the cancel flag while a batch computes."""

PROGRESS_S = 1.0
"""Seconds between progress events of one shard."""


class Claim:
    """A row this worker holds, kept alive by a thread until the ``with`` block ends.

    The thread only prolongs the lease and raises flags; it is the working thread that stops, at
    :meth:`poll_cancelled` or :meth:`check_cancelled`. A process that was frozen beyond its lease finds the flag raised,
    and if it does not look in time, the token in every write keeps it from storing anything.
    """

    def __init__(
        self,
        database: Database,
        settings: Settings,
        table: type[ModelRow | CheckRow | ShardRow | HardeningRow],
        row_id: str,
        token: str,
        *,
        is_stopping: Callable[[], bool],
        on_beat: Callable[[Session], None] = lambda session: None,
    ) -> None:
        self.row_id = row_id
        self.token = token
        self.database = database
        self._settings = settings
        self._table = table
        self.is_stopping = is_stopping
        self._on_beat = on_beat
        self._ended = threading.Event()
        self._lost = False
        self._cancelled = False
        self._reported_at, self._epochs = 0.0, 0
        self._thread = threading.Thread(
            target=copy_context().run, args=(self._keep,), name=f"keep-{row_id}", daemon=True
        )

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ended.set()
        self._thread.join()

    def check_cancelled(self) -> None:
        """Stop here if the thread saw a reason to. Costs nothing: call it at every gradient step.

        Raises:
            Interrupted: The shard was cancelled, its lease lost, or the process is stopping.
        """
        self._insist()
        if self.is_stopping():
            raise ShuttingDown(self.row_id)

    def poll_cancelled(self) -> None:
        """Ask the database whether to go on, then :meth:`check_cancelled`. One small query: call it at every batch."""
        self._watch()
        self.check_cancelled()

    def confirm(self) -> None:
        """Ask the database whether to go on; unlike :meth:`poll_cancelled` it lets a process that is stopping store.

        Raises:
            Interrupted: The shard was cancelled or its lease lost.
        """
        self._watch()
        self._insist()

    def _insist(self) -> None:
        if self._lost:
            raise LeaseLost(self.row_id)
        if self._cancelled:
            raise ShardCancelled(self.row_id)

    def progress(self, done: int) -> None:
        """Tell how many of the shard's examples are done; stored at most every second."""
        if time.monotonic() - self._reported_at < PROGRESS_S:
            return
        self._reported_at = time.monotonic()
        try:
            with self.database.write() as session:
                if not report_progress(session, self.row_id, self.token, done, lease_s=self._settings.lease_s):
                    self._lost = True
        except SQLAlchemyError as error:
            log.warning("progress of %s is not stored: %s", self.row_id, error)

    def report(self, progress: dict[str, Any], curves: list[dict[str, float]]) -> None:
        """Tell how far a training is; stored at most every second, and at the end of every epoch."""
        if len(curves) == self._epochs and time.monotonic() - self._reported_at < PROGRESS_S:
            return
        point = {"point": curves[-1]} if len(curves) > self._epochs else {}
        self._reported_at, self._epochs = time.monotonic(), len(curves)
        lease = {"lease_s": self._settings.lease_s}
        try:
            with self.database.write() as session:
                if not report_training(session, self.row_id, self.token, {**progress, **point}, curves, **lease):
                    self._lost = True
        except SQLAlchemyError as error:
            log.warning("progress of %s is not stored: %s", self.row_id, error)

    def announce_checkpoint(self, digest: str) -> None:
        """Write down that a checkpoint is about to be stored."""
        with self.database.write() as session:
            announce_checkpoint(session, digest)

    def point_at_checkpoint(self, digest: str, size_bytes: int) -> bool:
        """Make an announced and stored file the shard's checkpoint; False when the shard is no longer ours."""
        with self.database.write() as session:
            table = HardeningRow if self._table is HardeningRow else ShardRow
            return point_at_checkpoint(session, self.row_id, self.token, digest, size_bytes, table=table)

    def delete_checkpoint(self, store: Files, digest: str) -> None:
        """Delete a checkpoint that no row names."""
        delete_file(self.database, store, digest)

    def _keep(self) -> None:
        beat_at = time.monotonic() + self._settings.heartbeat_s
        while not self._ended.wait(min(WATCH_S, self._settings.heartbeat_s)):
            self._watch()
            if time.monotonic() >= beat_at:
                beat_at = time.monotonic() + self._settings.heartbeat_s
                self._beat()

    def _beat(self) -> None:
        try:
            with self.database.write() as session:
                if not heartbeat(session, self._table, self.row_id, self.token, lease_s=self._settings.lease_s):
                    self._lost = True
                self._on_beat(session)
        except SQLAlchemyError as error:
            # The database may be back before the lease is over; the token decides in the end.
            log.warning("no heartbeat for %s: %s", self.row_id, error)

    def _watch(self) -> None:
        # A model whose check is cancelled is taken away from who checks it; an audit says that it is being cancelled.
        table = CheckRow if self._table is ShardRow else self._table
        column = table.state
        query = select(column).where(*holds(self._table, self.row_id, self.token))
        if self._table is ShardRow:
            query = query.join(ShardRow, ShardRow.check_id == CheckRow.id)
        try:
            with self.database.read() as session:
                state = session.scalar(query)
        except SQLAlchemyError as error:
            log.warning("cannot look after %s: %s", self.row_id, error)
            return
        if state is None:
            self._lost = True
        elif state == RunState.CANCELLING:
            self._cancelled = True
