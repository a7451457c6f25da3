"""Retention: deleting what a project has kept for as long as it wanted to."""

import logging
from datetime import datetime, timedelta
from typing import Any, Literal, get_args

from sqlalchemy import ColumnElement, Select, select
from sqlalchemy.orm import Session

from seatrial.contracts.states import TERMINAL, ModelState
from seatrial.store.activity import RETENTION, Author
from seatrial.store.database import Database
from seatrial.store.deleting import InUseError, NotThereError, delete_one
from seatrial.store.tables import (
    AttestationRow,
    AuditRow,
    BaselineRow,
    DatasetRow,
    HardeningRow,
    ModelRow,
    RetentionRow,
)
from seatrial.store.tables.base import utc_now

log = logging.getLogger(__name__)

KeptKind = Literal["hardenings", "audits", "attested_audits", "models", "datasets"]
KINDS: tuple[KeptKind, ...] = get_args(KeptKind)
"""In the order they are deleted in: what hardenings and audits use is free once they are gone."""

_AT_ONCE = 200


def apply_retention(database: Database) -> int:
    """Delete what projects keep no longer, each in a transaction of its own, and return how much that was.

    An audit or a hardening counts from its end, a model or dataset from when it was stored; one that some audit uses
    stays, whatever its age. What a baseline names, or anything waits for, stays. Safe in several processes at once.
    """
    with database.read() as session:
        told = session.execute(select(RetentionRow.project_id, RetentionRow.kind, RetentionRow.keep_days)).all()
    gone = 0
    # Another version may keep kinds that this one does not know.
    for row in sorted((row for row in told if row.kind in KINDS), key=lambda row: KINDS.index(row.kind)):
        before = utc_now() - timedelta(days=row.keep_days)
        gone += _delete_old(database, row.project_id, row.kind, before)
    return gone


def _delete_old(database: Database, project_id: str, kind: KeptKind, before: datetime) -> int:
    gone, after = 0, ""
    while True:
        with database.read() as session:
            old = session.scalars(_old(kind, project_id, before, after)).all()
        for subject_id in old:
            gone += _delete(database, project_id, subject_id, cascade=kind == "attested_audits")
        if len(old) < _AT_ONCE:
            return gone
        after = old[-1]


def _delete(database: Database, project_id: str, subject_id: str, *, cascade: bool) -> bool:
    try:
        with database.write() as session:
            if cascade and _is_baseline(session, subject_id):
                return False
            delete_one(session, project_id, subject_id, Author(RETENTION), cascade=cascade)
    except (InUseError, NotThereError):
        # Somebody has begun to use it, or deleted it, since it was looked up.
        return False
    return True


def _is_baseline(session: Session, audit_id: str) -> bool:
    return session.scalar(select(BaselineRow.id).where(BaselineRow.audit_id == audit_id).limit(1)) is not None


def _old(kind: KeptKind, project_id: str, before: datetime, after: str) -> Select[Any]:
    tables = {"models": ModelRow, "datasets": DatasetRow, "hardenings": HardeningRow}
    table: Any = tables.get(kind, AuditRow)
    query = select(table.id).where(table.project_id == project_id, table.id > after)
    if table is AuditRow:
        query = query.where(AuditRow.state.in_(TERMINAL), AuditRow.finished_at < before)
        is_baseline = select(BaselineRow.id).where(BaselineRow.audit_id == AuditRow.id).exists()
        attested = AttestationRow.judgement_id.is_not(None)
        is_attested = select(AttestationRow.id).where(AttestationRow.audit_id == AuditRow.id, attested).exists()
        query = query.where(~is_baseline, is_attested if kind == "attested_audits" else ~is_attested)
    elif table is HardeningRow:
        query = query.where(HardeningRow.state.in_(TERMINAL), HardeningRow.finished_at < before)
    else:
        query = query.where(table.created_at < before, ~_is_measured(table))
        if table is ModelRow:
            query = query.where(ModelRow.state != ModelState.CHECKING)
    return query.order_by(table.id).limit(_AT_ONCE)


def _is_measured(table: Any) -> ColumnElement[bool]:
    own = AuditRow.model_id if table is ModelRow else AuditRow.dataset_id
    return select(AuditRow.id).where(own == table.id).exists()
