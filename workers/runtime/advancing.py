"""Advancing a check: to its next stage while there is one, then to its result and figures."""

import logging
import math
from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import select
from sqlalchemy.exc import SQLAlchemyError

from seatrial.contracts.problems import StoredProblem
from seatrial.contracts.registry import families
from seatrial.contracts.states import ModelState, RunState
from seatrial.families.cost import cost_of, gives_gradients
from seatrial.store.artifacts import ArtifactDamagedError
from seatrial.store.baselines import has_baseline
from seatrial.store.database import Database
from seatrial.store.lifecycle import close_check, leave_open, open_stage
from seatrial.store.settings import Settings
from seatrial.store.tables import AuditRow, CheckRow, DatasetRow, ModelRow, ShardRow, StageRow
from seatrial.store.transitions import release
from workers.errors import AccidentError, WorkError
from workers.families.stages import SAMPLE, Stage
from workers.runtime.claims import Claim
from workers.runtime.code import code_of_audits
from workers.runtime.deferring import may_defer, put_off_s, told, trouble_of
from workers.runtime.executor import Executor
from workers.runtime.interruptions import Interrupted
from workers.runtime.jobs import Advanced, CheckJob, read_params
from workers.runtime.looks import planned_looks, reach
from workers.runtime.measuring import measured_with
from workers.runtime.running import damaged, put_off, store_patiently, unexpected
from workers.runtime.stages import PREFLIGHT, cut, make_shards

log = logging.getLogger(__name__)

POSTPONED_S = 1.0
"""Seconds before a check that cannot be advanced yet is looked at again."""

MOST_SHARDS = 500
"""Shards a stage is cut into by itself: enough for many workers, few enough to read back in seconds."""


def advance(database: Database, executor: Executor, settings: Settings, claim: Claim) -> int:
    """Advance a claimed check by one stage, or end it; return how many shards were opened."""
    with database.read() as session:
        row = session.get_one(CheckRow, claim.row_id)
    try:
        job = read_check(database, claim.row_id)
        states = {model.state for model in job.models()}
        if ModelState.CHECKING in states and ModelState.REJECTED not in states:
            # A further model is still being checked.
            _let_go(database, claim, put_off_s=POSTPONED_S, attempts=0)
            return 0
        if (problem := _reason_to_fail(job)) is not None:
            advanced = Advanced(error=problem.model_dump())
        else:
            advanced = executor.advance(job, claim)
        if advanced.stage is not None:
            return _open(database, settings, claim, job, advanced.stage, executor.device(), advanced.open_looks)
        if advanced.open_looks:
            _leave_open(database, settings, claim, job, advanced.open_looks)
            return 0
        if advanced.error is not None:
            end, outcome = RunState.FAILED, {"error": advanced.error}
        else:
            end, outcome = RunState.SUCCEEDED, dict(advanced.values)
        claim.check_cancelled()
    except Interrupted:
        _let_go(database, claim, attempts=row.attempts - 1)
        return 0
    except WorkError as error:
        end, outcome = RunState.FAILED, {"error": _located(error.problem, job).model_dump()}
    except ArtifactDamagedError as error:
        end, outcome = RunState.FAILED, {"error": damaged(error).model_dump()}
    except Exception as error:
        if (trouble := trouble_of(error)) is not None:
            if may_defer(error, row.deferrals):
                _put_off(database, claim, row, trouble)
                return 0
            end, outcome = RunState.FAILED, {"error": told(trouble).model_dump()}
        elif isinstance(error, SQLAlchemyError):
            # A mistake about the database, not the check's: the lease runs out and the check is taken up again.
            raise
        elif row.attempts < settings.max_attempts:
            log.exception("advancing check %s failed at attempt %d", claim.row_id, row.attempts)
            _let_go(database, claim, put_off_s=POSTPONED_S)
            return 0
        else:
            end, outcome = RunState.FAILED, {"error": unexpected(error).model_dump()}
    store_patiently(
        database,
        lambda session: close_check(session, claim.row_id, claim.token, end, **outcome),
        patience_s=settings.lease_s,
    )
    return 0


def _leave_open(
    database: Database, settings: Settings, claim: Claim, job: CheckJob, looks: Sequence[Mapping[str, Any]]
) -> None:
    store_patiently(
        database,
        lambda session: leave_open(session, claim.row_id, claim.token, job.looks_with(looks)),
        patience_s=settings.lease_s,
    )


def _let_go(database: Database, claim: Claim, *, put_off_s: float = 0.0, **values: Any) -> None:
    with database.write() as session:
        release(session, CheckRow, claim.row_id, claim.token, put_off_s=put_off_s, **values)


def _put_off(database: Database, claim: Claim, row: CheckRow, trouble: str) -> None:
    log.warning("%s is put off: %s", claim.row_id, trouble)
    values = {"attempts": row.attempts - 1, "deferrals": row.deferrals + 1}
    seconds = put_off_s(row.deferrals)
    put_off(
        database,
        claim,
        lambda session, held: release(session, CheckRow, held.row_id, held.token, put_off_s=seconds, **values),
    )


def read_check(database: Database, check_id: str) -> CheckJob:
    """Return everything the database says about a check."""
    with database.read() as session:
        check = session.get_one(CheckRow, check_id)
        if check.kind not in families():
            raise AccidentError(f"this worker knows no check of kind {check.kind}: the API runs a newer version")
        audit = session.get_one(AuditRow, check.audit_id)
        params = read_params(check)
        references = params.references()
        models = {"model": audit.model_id} | {k: v for k, v in references.items() if v.startswith("mdl_")}
        kinds = session.scalars(select(CheckRow.kind).where(CheckRow.audit_id == audit.id).order_by(CheckRow.ordinal))
        datasets = {SAMPLE: audit.dataset_id} | {k: v for k, v in references.items() if v.startswith("dat_")}
        return CheckJob(
            check=check,
            params=params,
            audit=audit,
            kinds=tuple(kinds),
            has_baseline=audit.spec.get("stop") is not None and has_baseline(session, audit),
            by_name={name: session.get_one(ModelRow, row_id) for name, row_id in models.items()},
            datasets={name: session.get_one(DatasetRow, row_id) for name, row_id in datasets.items()},
            stages=list(
                session.scalars(select(StageRow).where(StageRow.check_id == check_id).order_by(StageRow.ordinal))
            ),
            shards=list(
                session.scalars(select(ShardRow).where(ShardRow.check_id == check_id).order_by(ShardRow.ordinal))
            ),
        )


def _reason_to_fail(job: CheckJob) -> StoredProblem | None:
    for name, model in job.by_name.items():
        if model.state == ModelState.REJECTED:
            reason = StoredProblem.model_validate(model.problem)
            return reason.model_copy(update={"title": f"The {name.replace('_', ' ')} was rejected: {reason.title}"})
    failed = [shard for shard in job.shards if shard.state == RunState.FAILED]
    if not failed:
        return None
    first = _located(StoredProblem.model_validate(failed[0].error), job)
    if len(job.shards) == 1 or failed[0].stage == PREFLIGHT:
        return first
    counted = f"{len(failed)} of {len(job.shards)} shards failed; the first, in stage {failed[0].stage}: {first.detail}"
    return first.model_copy(update={"detail": counted})


def _located(problem: StoredProblem, job: CheckJob) -> StoredProblem:
    """Return a problem whose field points into the request; families know neither their place in it nor the request.

    A family names one of its parameters, as in ``recipes/1``, or ``model``, which is the audit's.
    """
    if problem.field is None or problem.field.startswith("/"):
        return problem
    is_parameter = problem.field.partition("/")[0] in type(job.params).model_fields
    place = f"/checks/{job.check.ordinal}" if is_parameter else ""
    return problem.model_copy(update={"field": f"{place}/{problem.field}"})


def _open(
    database: Database,
    settings: Settings,
    claim: Claim,
    job: CheckJob,
    stage: Stage,
    device: str,
    open_looks: Sequence[Mapping[str, Any]],
) -> int:
    looks = job.looks_with(open_looks) if open_looks else None
    examples = reach(job, stage, planned_looks(job, looks))
    begun = next((one for one in job.stages if one.name == stage.name), None)
    start, number = (begun.examples, begun.shards) if begun is not None else (0, 0)
    spec = job.audit.spec
    # Submitted before its model was measured, a check had no estimate; now it can have one.
    estimated_s = job.check.estimated_s or _estimate(job)
    # The estimate is the whole check's, so a stage's shards take at most ``shard_s``.
    wanted = spec.get("shards") or min(MOST_SHARDS, math.ceil((estimated_s or 0.0) / settings.shard_s))
    # The preflight judges the sample as a whole, so it is one shard.
    pieces = cut(examples - start, stage.grain or spec["batch_size"], 1 if stage.name == PREFLIGHT else wanted)
    shards = make_shards(claim.row_id, stage.name, pieces, start=start, number=number)
    opened = store_patiently(
        database,
        lambda session: open_stage(
            session,
            claim.row_id,
            claim.token,
            name=stage.name,
            source=stage.source,
            examples=examples,
            shards=shards,
            estimated_s=estimated_s,
            looks=looks,
            code=code_of_audits(settings),
            measured_with=measured_with(job, device, settings) if not job.stages else None,
        ),
        patience_s=settings.lease_s,
    )
    if not opened:
        # Another code has begun to measure the audit; where the claim was lost, nothing is let go.
        _let_go(database, claim)
    return len(shards) if opened else 0


def _estimate(job: CheckJob) -> float | None:
    sizes = {name: int(row.facts["examples"]) for name, row in job.datasets.items() if name != SAMPLE}
    facts = job.datasets[SAMPLE].facts
    samples = min(job.audit.samples, int(facts["examples"]))
    model = job.by_name["model"]
    by_gradients = gives_gradients(model.format, model.task)
    cost = cost_of(
        *(job.params, samples, sizes, model.facts),
        mean_words=facts.get("mean_words"),
        word_means=facts.get("word_means"),
        has_gradients=by_gradients,
    )
    return cost.seconds
