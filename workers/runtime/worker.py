"""A worker: claims what can be claimed, one thing at a time, until nothing is left."""

import logging
import os
import socket
import time
from collections.abc import Callable
from typing import Any

import sqlalchemy as sa
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.orm import Session

from seatrial import tracing
from seatrial.logs import about
from seatrial.store.artifacts import ArtifactStore
from seatrial.store.checkpoints import sweep_discards
from seatrial.store.claiming import LeasedTable, charge, claim_work, ids_of, trace_of
from seatrial.store.code_pins import restart_orphans
from seatrial.store.database import Database, insert_into
from seatrial.store.ids import new_id
from seatrial.store.lifecycle import count_workers
from seatrial.store.reaping import reap
from seatrial.store.retention import sweep_workers
from seatrial.store.settings import Settings
from seatrial.store.sizes import Sizes
from seatrial.store.staging import sweep_staging
from seatrial.store.tables import CheckRow, HardeningRow, ModelRow, ShardRow, WorkerRow
from seatrial.store.tables.base import utc_now
from workers.runtime.advancing import advance
from workers.runtime.checking import check_model
from workers.runtime.claims import Claim
from workers.runtime.code import code_of_audits, code_version
from workers.runtime.executor import Executor
from workers.runtime.presence import Presence
from workers.runtime.reuse import reuse
from workers.runtime.running import run_shard
from workers.runtime.sandboxed import SandboxedExecutor
from workers.runtime.training import run_training
from workers.runtime.usage import measure

ORPHANED_S = 300.0
"""Seconds without a sign of any worker of its code after which an audit begins anew: a restart takes less."""

log = logging.getLogger(__name__)


class Worker:
    """One process's worth of work.

    Args:
        database: The truth.
        store: Where bytes are.
        settings: Leases, device, attempts.
        is_stopping: Told by the process: finish or give back what is held, claim nothing more.
        executor: Runs what is claimed; in child processes by default.
        notify: Wakes so many other workers, when a stage has shards for them; they poll where there is no broker.
    """

    def __init__(
        self,
        database: Database,
        store: ArtifactStore,
        settings: Settings,
        *,
        executor: Executor | None = None,
        is_stopping: Callable[[], bool] = lambda: False,
        notify: Callable[[int], None] = lambda times: None,
    ) -> None:
        self._database = database
        self._settings = settings
        self._is_stopping = is_stopping
        self._notify = notify
        self._swept_at = float("-inf")
        # Before anybody can replace the sources under this process.
        self._own_code = code_version()
        self._code = code_of_audits(settings)
        self._sizes = Sizes(settings.least_model_bytes, settings.most_model_bytes)
        self._store = store
        self._executor = executor or SandboxedExecutor(store, settings)
        self.device = self._executor.device()
        self.id = new_id("wrk")
        self.name = f"{socket.gethostname()}:{os.getpid()}"
        self._presence = Presence(self._report, every_s=settings.reap_s, home=settings.home)

    def drain(self) -> int:
        """Work until nothing can be claimed or the process is stopping; return how much was done."""
        done = 0
        while not self._is_stopping():
            self.sweep()
            if not self.step():
                break
            done += 1
        return done

    def step(self) -> bool:
        """Claim one thing and work on it; return whether there was one."""
        with self._database.write() as session:
            claimed = claim_work(
                session, lease_s=self._settings.lease_s, worker=self.name, code=self._code, sizes=self._sizes
            )
            # Only lines that are read by machines name them, and spans.
            is_named = claimed is not None and (self._settings.log_json or tracing.is_on())
            ids = ids_of(session, claimed[0], claimed[1]) if claimed is not None and is_named else {}
            parent = trace_of(session, ids) if claimed is not None and tracing.is_on() else None
        if claimed is None:
            return False
        with about(**ids), tracing.span(f"work on {claimed[0].__tablename__}", parent, **ids) as told:
            self._work_on(*claimed)
            if tracing.is_on():
                told |= self._outcome(claimed[0], claimed[1])
        sweep_discards(self._database, self._store)
        return True

    def _work_on(self, table: LeasedTable, row_id: str, token: str) -> None:
        work = {ModelRow: check_model, CheckRow: self._advance, ShardRow: run_shard, HardeningRow: run_training}[table]
        began_at = time.monotonic()
        try:
            with Claim(
                self._database,
                self._settings,
                table,
                row_id,
                token,
                is_stopping=self._is_stopping,
                on_beat=self._tell_alive,
            ) as claim:
                work(self._database, self._executor, self._settings, claim)
        finally:
            seconds = time.monotonic() - began_at
            self._charge(table, row_id, seconds)
        log.info("worked on %s for %.2f s", row_id, seconds, extra={"seconds": round(seconds, 3)})

    def _outcome(self, table: LeasedTable, row_id: str) -> dict[str, str | float]:
        """Return what became of a row, for its span; the work is done, whatever the database says now."""
        try:
            with self._database.read() as session:
                row: Any = session.get(table, row_id)
                if row is None:
                    return {}
                stage = getattr(row, "stage", None)
                return {"state": row.state} | ({"stage": stage} if stage is not None else {})
        except SQLAlchemyError:
            return {}

    def _charge(self, table: LeasedTable, row_id: str, seconds: float) -> None:
        try:
            with self._database.write() as session:
                charge(session, table, row_id, seconds)
        except SQLAlchemyError as error:
            # Work goes on without: projects take turns all the same.
            log.warning("%.0f s are not charged to the project of %s: %s", seconds, row_id, error)

    def _advance(self, database: Database, executor: Executor, settings: Settings, claim: Claim) -> None:
        if reuse(database, self._store, settings, self.device, claim):
            return
        opened = advance(database, executor, settings, claim)
        if opened > 1:
            with database.read() as session:
                others = count_workers(session) - 1
            self._notify(min(opened - 1, others))

    def sweep(self) -> None:
        """Take back expired leases, delete what is discarded, tell that this worker is alive.

        At most every ``reap_s`` seconds.
        """
        if time.monotonic() - self._swept_at < self._settings.reap_s:
            return
        self._swept_at = time.monotonic()
        with self._database.write() as session:
            self._tell_alive(session)
        taken = reap(self._database, max_attempts=self._settings.max_attempts)
        if self._code is not None:
            alive_s = max(ORPHANED_S, 3 * self._settings.reap_s, 3 * self._settings.heartbeat_s)
            if begun := restart_orphans(self._database, self._code, alive_s=alive_s):
                log.warning("%d audits begin anew: no worker runs the code that measured them", begun)
        sweep_workers(self._database)
        sweep_discards(self._database, self._store)
        # Of a cache on this machine nobody else knows.
        sweep_staging(self._store, self._settings.staging_kept_s)
        if taken:
            log.warning("took back %d expired leases", taken)

    def begin(self) -> None:
        """Tell every few seconds that this worker lives, and take back what dead ones held, until it leaves."""
        self._presence.start()

    def leave(self) -> None:
        """Tell that this worker is gone, and end what runs models."""
        self._presence.stop()
        self._executor.close()
        try:
            with self._database.write() as session:
                session.execute(sa.delete(WorkerRow).where(WorkerRow.id == self.id))
        except SQLAlchemyError as error:
            log.warning("cannot tell that this worker is gone; it is forgotten within seconds: %s", error)

    def _report(self) -> None:
        with self._database.write() as session:
            self._tell_alive(session)
        # No scheduler is needed for that, nor a worker that is idle.
        if taken := reap(self._database, max_attempts=self._settings.max_attempts):
            log.warning("took back %d expired leases", taken)
            self._notify(taken)

    def _tell_alive(self, session: Session) -> None:
        told = {"last_seen_at": utc_now(), "usage": measure(self.name, self._settings.home, self.device).model_dump()}
        alive = session.execute(sa.update(WorkerRow).where(WorkerRow.id == self.id).values(**told))
        if not alive.rowcount:  # type: ignore[attr-defined]
            # The first sign of life may come from two threads at once: from the beat, and from what is done first.
            first = insert_into(session, WorkerRow).values(
                id=self.id, device=self.device, pid=os.getpid(), code=self._own_code, **told
            )
            session.execute(first.on_conflict_do_nothing(index_elements=["id"]))


def work_until(
    worker: Worker,
    is_stopping: Callable[[], bool],
    wait: Callable[[], object],
    *,
    until_idle_s: float | None = None,
) -> None:
    """Drain, wait, and drain again until the process stops. Survives a database that is away for a while.

    Args:
        worker: Whose work it is.
        is_stopping: Whether the process is to end.
        wait: Waits a little.
        until_idle_s: Seconds without anything to claim after which it returns; None: never.
    """
    worked_at = time.monotonic()
    while not is_stopping():
        try:
            if worker.drain():
                worked_at = time.monotonic()
            elif until_idle_s is not None and time.monotonic() - worked_at >= until_idle_s:
                log.info("nothing to do for %g s", until_idle_s)
                return
        except SQLAlchemyError as error:
            log.warning("the database does not answer, trying again: %s", error)
            time.sleep(1)
        except Exception:
            # A bug of ours must not end the process: the claim it happened in runs out, and its attempts with it.
            log.exception("a claim ended in an error nobody foresaw")
            time.sleep(1)
        if not is_stopping():
            wait()
