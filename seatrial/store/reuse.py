"""Results of an identical check, taken from the store instead of measured again (``reuse`` of an audit).

What two checks have to share is in two digests: ``asked``, written at submission, is of all their records follow from
but who measured them; ``measured_with``, written by the worker that begins a check, is of its code and machine. Taken
over are records, each verified by its digest; the numbers are computed from them again. Only from audits of the same
project that succeeded and are there, and never from a check that took its own over: a chain ends where something was
measured.
"""

import hashlib
import json
from collections.abc import Collection, Mapping
from datetime import datetime
from typing import Any

from sqlalchemy import Select, select
from sqlalchemy.orm import Session

from seatrial.contracts.audits import Reused
from seatrial.contracts.endpoints import ENDPOINT
from seatrial.contracts.family import FamilyParams
from seatrial.contracts.states import RunState
from seatrial.store.events import record_event
from seatrial.store.ids import new_id
from seatrial.store.tables import AuditRow, CheckRow, DatasetRow, ModelRow, ShardRow, StageRow
from seatrial.store.tables.base import utc_now
from seatrial.store.transitions import holds, lock, move

MOST_OFFERED = 5
"""Earlier checks looked at: the next where the records of one are gone or damaged."""

_OF_SAMPLE = ("seed", "samples", "batch_size", "max_error_rate")


def asked_digest(
    check: FamilyParams, spec: Mapping[str, Any], rows: Mapping[str, ModelRow | DatasetRow], deciding: Any
) -> str | None:
    """Return a digest of all that the records of a check follow from but code and machine; None where that is unknown.

    Args:
        check: Its parameters.
        spec: The request.
        rows: The model (``model``), the dataset (``dataset``), and what the check names besides, by parameter.
        deciding: What decides how many examples are measured, as JSON; None where all are.
    """
    # What a model behind a URL answers tomorrow follows from nothing that is stored.
    if any(isinstance(row, ModelRow) and row.format == ENDPOINT for row in rows.values()):
        return None
    named = {
        # Ids say nothing: the same bytes may have been uploaded twice.
        "params": {**check.model_dump(mode="json"), **dict.fromkeys(check.references())},
        "sample": {name: spec[name] for name in _OF_SAMPLE},
        "deciding": deciding,
        "rows": {name: _contents(row) for name, row in rows.items()},
    }
    return _digest(named)


def _contents(row: ModelRow | DatasetRow) -> list[Any]:
    # What was found in a dataset says how it is read; of a model it holds timings.
    facts = row.facts if isinstance(row, DatasetRow) else None
    return [type(row).__tablename__, row.task, row.format, row.digest, row.manifest, facts]


def _digest(named: Any) -> str:
    return "sha256:" + hashlib.sha256(json.dumps(named, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def measured_digest(code: str, hardware: str, further: Any) -> str:
    """Return a digest of who measures: the code, the hardware, and what else of a worker enters records."""
    return _digest([code, hardware, further])


def offered(
    session: Session,
    project_id: str,
    asked: str | None,
    *,
    measured_with: str | None = None,
    codes: Collection[str] | None = None,
) -> list[Reused]:
    """Return the earlier checks whose records a check may take, the oldest first: nobody chooses among runs.

    Args:
        session: A transaction.
        project_id: Whose.
        asked: Digest of what is asked; None: nothing is offered.
        measured_with: Only what this measured.
        codes: Only what one of these codes measured.
    """
    if asked is None:
        return []
    query = _earlier(project_id, asked)
    if measured_with is not None:
        query = query.where(CheckRow.measured_with == measured_with)
    if codes is not None:
        query = query.where(AuditRow.code.in_(codes))
    rows = session.execute(query.limit(MOST_OFFERED))
    return [Reused(audit=row.audit_id, check=row.id, measured_at=row.finished_at) for row in rows if row.finished_at]


def _earlier(project_id: str, asked: str) -> Select[str, str, datetime | None]:
    return (
        select(CheckRow.id, CheckRow.audit_id, CheckRow.finished_at)
        .join(AuditRow, AuditRow.id == CheckRow.audit_id)
        .where(
            CheckRow.asked == asked,
            CheckRow.state == RunState.SUCCEEDED,
            CheckRow.reused.is_(None),
            CheckRow.measured_with.is_not(None),
            AuditRow.project_id == project_id,
            AuditRow.state == RunState.SUCCEEDED,
        )
        .order_by(AuditRow.id, CheckRow.ordinal)
    )


def records_of(session: Session, check_id: str, *, code: str, hardware: str) -> list[str] | None:
    """Return the files of a check's records, in order; None where not all were measured by this code on this hardware.

    Args:
        session: A transaction.
        check_id: Which check.
        code: Digest of the code.
        hardware: Type of the processor.
    """
    shards = session.execute(
        select(ShardRow.records_digest, ShardRow.code, ShardRow.hardware, ShardRow.state)
        .where(ShardRow.check_id == check_id)
        .order_by(ShardRow.id)
    ).all()
    if not shards or any(
        (one.state, one.code, one.hardware) != (RunState.SUCCEEDED, code, hardware) or one.records_digest is None
        for one in shards
    ):
        return None
    return [str(one.records_digest) for one in shards]


def take_over(
    session: Session, check_id: str, token: str, earlier: Reused, *, verified: Collection[str], code: str | None
) -> bool:
    """Give a check that has not begun the stages and records of an earlier one; False where that cannot be any more.

    Its result is then computed from them like that of any check whose last stage is over.

    Args:
        session: An open write transaction.
        check_id: Which check; the caller holds it.
        token: The claim.
        earlier: Whose records.
        verified: Files that were read and have their digests.
        code: What is to measure the audit alone; None where codes may mix.
    """
    check = session.get(CheckRow, check_id)
    if check is None or (audit := lock(session, AuditRow, check.audit_id)) is None:
        return False
    if code is not None and audit.code not in (None, code):
        return False
    # Held against its deletion until this check names the files too.
    source = lock(session, AuditRow, earlier.audit)
    if source is None or (source.state, source.project_id) != (RunState.SUCCEEDED, audit.project_id):
        return False
    donor = session.get(CheckRow, earlier.check)
    if donor is None or donor.state != RunState.SUCCEEDED or donor.asked != check.asked:
        return False
    stages = session.scalars(select(StageRow).where(StageRow.check_id == donor.id).order_by(StageRow.ordinal)).all()
    shards = session.scalars(select(ShardRow).where(ShardRow.check_id == donor.id).order_by(ShardRow.id)).all()
    if not stages or any(shard.records_digest not in verified for shard in shards):
        return False
    audit.code = code
    session.flush()
    taken = move(
        session,
        CheckRow,
        RunState.RUNNING,
        *holds(CheckRow, check_id, token),
        CheckRow.stage.is_(None),
        sources={RunState.QUEUED},
        started_at=utc_now(),
        stage=stages[-1].name,
        looks=donor.looks,
        measured_with=donor.measured_with,
        reused=earlier.model_dump(mode="json"),
        estimated_s=0.0,
        **{"token": None, "lease_until": None, "attempts": 0, "deferrals": 0},
    )
    if not taken:
        return False
    session.add_all(
        StageRow(check_id=check_id, **{name: getattr(stage, name) for name in _OF_STAGES}) for stage in stages
    )
    session.add_all(
        # No time and no queries: this audit spends none.
        ShardRow(id=new_id("shd"), check_id=check_id, **{name: getattr(shard, name) for name in _OF_SHARDS})
        for shard in shards
    )
    if move(
        session, AuditRow, RunState.RUNNING, AuditRow.id == audit.id, sources={RunState.QUEUED}, started_at=utc_now()
    ):
        record_event(session, audit.id, "audit", {"state": RunState.RUNNING})
    record_event(session, audit.id, "check", {"check": check_id, "state": RunState.RUNNING})
    done = stages[-1].examples
    record_event(
        session, audit.id, "progress", {"check": check_id, "stage": stages[-1].name, "done": done, "total": done}
    )
    return True


_OF_STAGES = ("name", "ordinal", "source", "examples", "shards")
_OF_SHARDS = (
    *("stage", "ordinal", "start", "stop", "state", "done", "records_digest", "records_bytes", "code", "hardware"),
    *("flags", "worker", "attempts", "started_at", "finished_at"),
)
