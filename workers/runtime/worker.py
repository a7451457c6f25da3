"""A worker: claims what can be claimed, one thing at a time, until nothing is left."""

import logging
import os
import socket
import time
from collections.abc import Callable

import sqlalchemy as sa
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.orm import Session

from app.contracts.states import ModelState
from app.contracts.targets import ModelManifest
from app.core.database import Database
from app.core.ids import new_id
from app.core.lifecycle import claim_check, claim_model, claim_shard, reap
from app.core.retention import sweep_old
from app.core.settings import Settings
from app.core.storage import ArtifactStore
from app.core.tables import CheckRow, ModelRow, ShardRow, WorkerRow
from app.core.tables.base import utc_now
from app.core.transitions import holds, move, release
from workers.errors import WorkError
from workers.runtime import advancing, running
from workers.runtime.claims import Claim
from workers.runtime.device import describe, prepare
from workers.runtime.resources import Resources, parse_manifest
from workers.targets.checks import check_target

log = logging.getLogger(__name__)

Claimer = Callable[..., tuple[str, str] | None]


class Worker:
    """One process's worth of work.

    Args:
        database: The truth.
        store: Where bytes are.
        settings: Leases, device, attempts.
        is_stopping: Told by the process: finish or give back what is held, claim nothing more.
    """

    def __init__(
        self,
        database: Database,
        store: ArtifactStore,
        settings: Settings,
        *,
        is_stopping: Callable[[], bool] = lambda: False,
    ) -> None:
        self._database = database
        self._settings = settings
        self._is_stopping = is_stopping
        self._swept_at = float("-inf")
        self.device = prepare(settings)
        self.resources = Resources(store, self.device)
        self.id = new_id("wrk")
        self.name = f"{socket.gethostname()}:{os.getpid()}"

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
        """Claim one thing and work on it; return whether there was one.

        Models first, since audits wait for them; then checks, since a result is worth more than another shard.
        """
        for table, claimer, work in (
            (ModelRow, claim_model, self._check_model),
            (CheckRow, claim_check, self._advance_check),
            (ShardRow, claim_shard, self._run_shard),
        ):
            claimed = self._claim(claimer)
            if claimed is None:
                continue
            row_id, token = claimed
            with Claim(self._database, self._settings, table, row_id, token, is_stopping=self._is_stopping) as claim:
                work(claim)
            return True
        return False

    def sweep(self) -> None:
        """Take back expired leases and tell that this worker is alive; at most every ``reap_s`` seconds."""
        if time.monotonic() - self._swept_at < self._settings.reap_s:
            return
        self._swept_at = time.monotonic()
        with self._database.write() as session:
            self._tell_alive(session)
        with self._database.write() as session:
            taken = reap(session, max_attempts=self._settings.max_attempts)
        sweep_old(self._database, self._settings)
        if taken:
            log.warning("took back %d expired leases", taken)

    def leave(self) -> None:
        """Tell that this worker is gone."""
        with self._database.write() as session:
            session.execute(sa.delete(WorkerRow).where(WorkerRow.id == self.id))

    def _tell_alive(self, session: Session) -> None:
        alive = session.execute(sa.update(WorkerRow).where(WorkerRow.id == self.id).values(last_seen_at=utc_now()))
        if not alive.rowcount:  # type: ignore[attr-defined]
            session.add(WorkerRow(id=self.id, device=describe(self.device), pid=os.getpid()))

    def _claim(self, claimer: Claimer) -> tuple[str, str] | None:
        with self._database.write() as session:
            return claimer(session, lease_s=self._settings.lease_s, worker=self.name)

    def _check_model(self, claim: Claim) -> None:
        """Load a model once, measure it, and say whether it can be audited."""
        with self._database.read() as session:
            row = session.get_one(ModelRow, claim.row_id)
        try:
            classifier = self.resources.classifier(row)
            report = check_target(classifier, parse_manifest(ModelManifest, row.manifest))
            facts = report.facts.model_copy(update={"flags": report.flags})
            state, values = ModelState.READY, {"facts": facts.model_dump(mode="json"), "problem": None}
        except WorkError as error:
            state, values = ModelState.REJECTED, {"problem": error.problem.model_dump()}
        except Exception as error:
            log.exception("checking model %s failed", claim.row_id)
            if row.attempts < self._settings.max_attempts:
                with self._database.write() as session:
                    release(session, ModelRow, claim.row_id, claim.token)
                return
            state, values = ModelState.REJECTED, {"problem": running.unexpected(error).model_dump()}
        with self._database.write() as session:
            move(
                session,
                ModelRow,
                state,
                *holds(ModelRow, claim.row_id, claim.token),
                token=None,
                lease_until=None,
                **values,
            )

    def _advance_check(self, claim: Claim) -> None:
        advancing.advance(self._database, self.resources, self._settings, claim)

    def _run_shard(self, claim: Claim) -> None:
        running.run_shard(self._database, self.resources, self._settings, claim)


def work_until(worker: Worker, is_stopping: Callable[[], bool], wait: Callable[[], object]) -> None:
    """Drain, wait, and drain again until the process stops. Survives a database that is away for a while."""
    while not is_stopping():
        try:
            worker.drain()
        except SQLAlchemyError as error:
            log.warning("the database does not answer, trying again: %s", error)
            time.sleep(1)
        if not is_stopping():
            wait()
