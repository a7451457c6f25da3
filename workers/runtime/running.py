"""Running one claimed shard and storing what came of it, once."""

import logging
import time
from collections.abc import Callable
from dataclasses import asdict
from typing import Any, NamedTuple

from sqlalchemy import func, select
from sqlalchemy.exc import OperationalError, SQLAlchemyError
from sqlalchemy.orm import Session

from seatrial.contracts.problems import StoredProblem
from seatrial.contracts.states import RunState
from seatrial.store.artifacts import ArtifactDamagedError
from seatrial.store.checkpoints import may_resume
from seatrial.store.database import Database
from seatrial.store.lifecycle import close_shard, give_back
from seatrial.store.salts import salt_of
from seatrial.store.settings import Settings
from seatrial.store.tables import AuditRow, CheckRow, DatasetRow, HardeningRow, ModelRow, ShardRow, StageRow
from workers.errors import AccidentError, WorkError, log_fault
from workers.families.stages import HELD_OUT, SAMPLE, Shard
from workers.runtime.claims import Claim
from workers.runtime.code import code_version, hardware
from workers.runtime.deferring import may_defer, put_off_s, told, trouble_of
from workers.runtime.executor import Executor
from workers.runtime.interruptions import LeaseLost, ShardCancelled, ShuttingDown
from workers.runtime.jobs import ShardJob, read_params

log = logging.getLogger(__name__)

PATIENCE_S = 600.0
"""Seconds a worker waits for a database that is away, to tell that the work it held was put off."""


Write = Callable[[Session, Claim], bool]
"""Writes how claimed work ended, if the claim still holds, and returns whether it did."""


class Ends(NamedTuple):
    """How a claimed row ends, by functions of the store.

    Attributes:
        close: Ends it in a state, with further columns.
        give_back: Queues it again, with whether the attempt ``counts``.
    """

    close: Callable[..., bool]
    give_back: Callable[..., bool]

    def ending(self, state: RunState, **values: Any) -> Write:
        """Return what ends the row."""
        return lambda session, claim: self.close(session, claim.row_id, claim.token, state, **values)

    def queued_again(self, *, counts: bool, **values: Any) -> Write:
        """Return what queues the row again."""
        return lambda session, claim: self.give_back(session, claim.row_id, claim.token, counts=counts, **values)


OF_SHARDS = Ends(close_shard, give_back)


def measured_by(executor: Executor, settings: Settings) -> dict[str, str]:
    """Return the code and the hardware that did a piece of work."""
    return {"code": code_version(), "hardware": hardware(executor.device(), settings)}


def run_shard(database: Database, executor: Executor, settings: Settings, claim: Claim) -> None:
    """Run a claimed shard to one of its ends: succeeded, failed, cancelled, or queued again."""

    def work() -> Write:
        job = read_job(database, claim.row_id)
        measured = executor.run(job, claim)
        by = measured_by(executor, settings)
        done = job.shard.stop - job.shard.start
        return OF_SHARDS.ending(RunState.SUCCEEDED, done=done, error=None, **asdict(measured), **by)

    with database.read() as session:
        row = session.get_one(ShardRow, claim.row_id)
    run_to_an_end(database, settings, claim, row, work, OF_SHARDS)


def run_to_an_end(
    database: Database,
    settings: Settings,
    claim: Claim,
    row: ShardRow | HardeningRow,
    work: Callable[[], Write],
    ends: Ends,
) -> None:
    """Do claimed work and store how it ended, once, whatever is raised.

    Args:
        database: Where the row is.
        settings: Attempts, lease.
        claim: Holds the row.
        row: As it was when it was claimed.
        work: Does it, and returns what stores its success.
        ends: How such a row ends otherwise.
    """
    try:
        end = work()
    except ShardCancelled:
        end = ends.ending(RunState.CANCELLED)
    except ShuttingDown:
        end = ends.queued_again(counts=False)
    except LeaseLost:
        log.warning("lost %s to another worker; nothing is written", claim.row_id)
        return
    except WorkError as error:
        end = ends.ending(RunState.FAILED, error=error.problem.model_dump())
    except ArtifactDamagedError as error:
        end = ends.ending(RunState.FAILED, error=damaged(error).model_dump())
    except Exception as error:
        if (trouble := trouble_of(error)) is not None and may_defer(error, row.deferrals):
            log.warning("%s is put off: %s", claim.row_id, trouble)
            again = {"error": told(trouble).model_dump(), "put_off_s": put_off_s(row.deferrals)}
            put_off(database, claim, ends.queued_again(counts=False, **again))
            return
        if trouble is not None:
            end = ends.ending(RunState.FAILED, error=told(trouble).model_dump())
        elif isinstance(error, SQLAlchemyError):
            # A mistake about the database, not the shard's: the lease runs out and the shard is begun again.
            raise
        else:
            end = _stumbled(error, row, settings, ends)
    if not store_patiently(database, lambda session: end(session, claim), patience_s=settings.lease_s):
        log.warning("%s is no longer ours; nothing is written", claim.row_id)


def _stumbled(error: Exception, row: ShardRow | HardeningRow, settings: Settings, ends: Ends) -> Write:
    log.error("%s failed at attempt %d", row.id, row.attempts, exc_info=error)
    problem = unexpected(error).model_dump()
    if row.attempts >= settings.max_attempts:
        return ends.ending(RunState.FAILED, error=problem)
    return ends.queued_again(counts=True, error=problem)


def read_job(database: Database, shard_id: str) -> ShardJob:
    """Return everything the database says about a shard."""
    with database.read() as session:
        shard, check, audit, stage = session.execute(
            select(ShardRow, CheckRow, AuditRow, StageRow)
            .join(CheckRow, CheckRow.id == ShardRow.check_id)
            .join(AuditRow, AuditRow.id == CheckRow.audit_id)
            .join(StageRow, (StageRow.check_id == ShardRow.check_id) & (StageRow.name == ShardRow.stage))
            .where(ShardRow.id == shard_id)
        ).one()
        params = read_params(check)
        references = params.references()
        source = audit.dataset_id if stage.source in (SAMPLE, HELD_OUT) else references[stage.source]
        others = select(func.coalesce(func.sum(ShardRow.forward_passes), 0)).where(ShardRow.check_id == check.id)
        return ShardJob(
            shard_id=shard.id,
            check_id=check.id,
            audit_id=audit.id,
            kind=check.kind,
            params=params,
            shard=Shard(shard.stage, shard.start, shard.stop),
            seed=audit.seed,
            salt=salt_of(audit.spec),
            samples=audit.samples,
            batch_size=audit.spec["batch_size"],
            model=session.get_one(ModelRow, audit.model_id),
            source=session.get_one(DatasetRow, source),
            is_further_source=stage.source not in (SAMPLE, HELD_OUT),
            is_held_out=stage.source == HELD_OUT,
            examples=_examples(session, audit, stage),
            further_models={
                parameter: session.get_one(ModelRow, row_id)
                for parameter, row_id in references.items()
                if row_id.startswith("mdl_")
            },
            further_datasets={
                parameter: session.get_one(DatasetRow, row_id)
                for parameter, row_id in references.items()
                if row_id.startswith("dat_")
            },
            earlier=_earlier(session, check.id, stage),
            sent=int(session.scalar(others) or 0),
            checkpoint=shard.saved_digest,
            may_resume=may_resume(shard),
        )


def _examples(session: Session, audit: AuditRow, stage: StageRow) -> int:
    """Return the examples of a stage; of one that grows from look to look, those it has at the last one."""
    if audit.spec.get("stop") is None or stage.source != SAMPLE:
        return stage.examples
    return min(audit.samples, int(session.get_one(DatasetRow, audit.dataset_id).facts["examples"]))


def _earlier(session: Session, check_id: str, stage: StageRow) -> dict[str, list[str]]:
    """Return the artifacts of each earlier stage's records, in order."""
    query = (
        select(ShardRow.stage, ShardRow.records_digest)
        .join(StageRow, (StageRow.check_id == ShardRow.check_id) & (StageRow.name == ShardRow.stage))
        .where(ShardRow.check_id == check_id, StageRow.ordinal < stage.ordinal, ShardRow.records_digest.is_not(None))
        .order_by(StageRow.ordinal, ShardRow.ordinal)
    )
    digests: dict[str, list[str]] = {}
    for name, digest in session.execute(query):
        digests.setdefault(name, []).append(str(digest))
    return digests


def store_patiently(
    database: Database,
    write: Callable[[Any], bool],
    *,
    patience_s: float,
    is_stopping: Callable[[], bool] = lambda: False,
) -> bool:
    """Write in one transaction, waiting for a database that is away; return what ``write`` returns.

    Raises:
        OperationalError: The database did not come back within ``patience_s``, or before the process stops; the lease
            has run out by then, but for whoever comes first.
    """
    deadline = time.monotonic() + patience_s
    while True:
        try:
            with database.write() as session:
                return write(session)
        except OperationalError as error:
            if time.monotonic() >= deadline or is_stopping():
                raise
            log.warning("the database does not answer, the result is kept and tried again: %s", error)
            time.sleep(0.5)


def damaged(error: ArtifactDamagedError) -> StoredProblem:
    """Return that a stored file is not what it was, as a problem for the person who asked; log it for the operator."""
    log.error("damaged bytes: %s", error)
    return StoredProblem(
        code="artifact-damaged",
        title="A stored file is damaged",
        detail=f"{error}; nothing is measured with it. Uploading the model or dataset again mends its file, and a "
        "retry of the audit measures again what records have been lost",
    )


def put_off(database: Database, claim: Claim, write: Callable[[Any, Claim], bool]) -> None:
    """Let go of what waits for the machine; where that is the database, as soon as it is back.

    Nobody else takes it meanwhile: that would take a database. Told too late, the reaper counts an attempt.
    """
    store_patiently(
        database, lambda session: write(session, claim), patience_s=PATIENCE_S, is_stopping=claim.is_stopping
    )


def unexpected(error: Exception) -> StoredProblem:
    """Return an error nobody foresaw as a problem for the person who asked, and log it under the number they are told.

    Its own words are for the operator: a library's may hold what it found on the worker's disk.
    """
    detail = log_fault(error)
    if isinstance(error, AccidentError):
        detail = f"{error} ({detail.rpartition(', ')[2]})"
    return StoredProblem(
        code="unexpected-error", title="An unexpected error", detail=f"{detail}: the worker's log says more"
    )
