"""What stays of what was deleted: enough to tell what it was, and everything that was signed about it.

A tombstone of an audit holds what was asked, of which bytes, how it ended, its verdicts and its attestations, the
pre-registration among them, as they were given out. That of a hardening holds what was asked, of which bytes, and what
it was worth. So a failing audit that is deleted and asked again is still counted
among the tries, and whoever holds an attestation finds the same bytes here.
"""

import hashlib
import json
from collections.abc import Iterable
from datetime import datetime
from typing import Any

from sqlalchemy import select
from sqlalchemy.orm import Session

from seatrial.store.ids import new_id
from seatrial.store.tables import (
    AttestationRow,
    AuditRow,
    BaselineRow,
    CheckRow,
    DatasetRow,
    HardeningRow,
    JudgementRow,
    ModelRow,
    TombstoneRow,
)


def tombstone_of(
    session: Session, row: AuditRow | ModelRow | DatasetRow | HardeningRow, actor: str, along: str | None
) -> TombstoneRow:
    """Return the tombstone of what is about to be deleted, not yet stored."""
    if isinstance(row, AuditRow):
        kind, details = "audit", _audit_details(session, row)
        name = _name_of(details["model"])
    elif isinstance(row, HardeningRow):
        kind, details = "hardening", _hardening_details(session, row)
        name = _name_of(details["model"])
    else:
        kind = "model" if isinstance(row, ModelRow) else "dataset"
        name, details = f"{row.name} {row.version}", _upload_details(row)
    return TombstoneRow(
        id=new_id("tmb"),
        subject=row.id,
        project_id=row.project_id,
        kind=kind,
        name=name,
        details=details,
        actor=actor,
        cascade_of=along,
        created_at=row.created_at,
    )


def _upload_details(row: ModelRow | DatasetRow) -> dict[str, Any]:
    details: dict[str, Any] = {
        "name": row.name,
        "version": row.version,
        "task": row.task,
        "digest": row.digest,
        "size_bytes": row.size_bytes,
        "format": row.format,
    }
    if isinstance(row, ModelRow):
        details |= {"state": row.state, "problem": row.problem}
    return details


def _hardening_details(session: Session, row: HardeningRow) -> dict[str, Any]:
    columns = ("method", "params", "seed", "spec", "state", "stage", "verdict", "result", "error", "estimated_s")
    hardened = None if row.hardened_id is None else session.get_one(ModelRow, row.hardened_id)
    datasets = {"dataset": row.dataset_id, "validation": row.validation_id, "audited": row.audited_id}
    return {
        "model": _named(session.get_one(ModelRow, row.model_id)),
        "hardened": None if hardened is None else _named(hardened),
        **{name: one and _named(session.get_one(DatasetRow, one)) for name, one in datasets.items()},
        **{name: getattr(row, name) for name in columns},
        "outcome": row.outcome,
        "seconds": row.seconds,
        "audit_before": row.audit_before,
        "audit_after": row.audit_after,
        "finished_at": _told(row.finished_at),
    }


def _audit_details(session: Session, audit: AuditRow) -> dict[str, Any]:
    checks = session.execute(select(CheckRow.kind, CheckRow.state).where(CheckRow.audit_id == audit.id)).all()
    judgements = session.scalars(
        select(JudgementRow).where(JudgementRow.audit_id == audit.id).order_by(JudgementRow.id)
    ).all()
    signed = session.scalars(
        select(AttestationRow).where(AttestationRow.audit_id == audit.id).order_by(AttestationRow.id)
    ).all()
    baselines = session.scalars(
        select(BaselineRow).where(BaselineRow.audit_id == audit.id).order_by(BaselineRow.id)
    ).all()
    return {
        "model": _named(session.get_one(ModelRow, audit.model_id)),
        "dataset": _named(session.get_one(DatasetRow, audit.dataset_id)),
        "state": audit.state,
        "verdict": audit.verdict,
        "error": audit.error,
        "seed": audit.seed,
        "samples": audit.samples,
        "spec": audit.spec,
        "spec_digest": audit.spec_digest,
        "asks": asks(session, audit.project_id, audit.spec),
        "estimated_s": audit.estimated_s,
        "finished_at": _told(audit.finished_at),
        "checks": [{"kind": kind, "state": state} for kind, state in checks],
        "judgements": [
            {"id": one.id, "is_own": one.is_own, "verdict": one.verdict, "judgement": one.judgement}
            for one in judgements
        ],
        "attestations": [
            {
                "id": one.id,
                "judgement": one.judgement_id,
                "key_id": one.key_id,
                "digest": one.digest,
                "content": one.content,
                "created_at": _told(one.created_at),
            }
            for one in signed
        ],
        "baselines": [
            {
                "id": one.id,
                "name": one.name,
                "model": one.model_name,
                "note": one.note,
                "created_at": _told(one.created_at),
            }
            for one in baselines
        ],
    }


def _name_of(model: dict[str, Any]) -> str:
    return f"{model['name']} {model['version']}"


def _named(row: ModelRow | DatasetRow) -> dict[str, Any]:
    return {"id": row.id, "name": row.name, "version": row.version, "digest": row.digest}


def _told(moment: datetime | None) -> str | None:
    return None if moment is None else moment.isoformat()


def asks(session: Session, project_id: str, spec: dict[str, Any]) -> str:
    """Return a digest of the checks and the samples of a specification, ids in it replaced by the bytes they name.

    Two audits of the same bytes with the same digest differ by their seeds at most, whatever was deleted and uploaded
    again between them.
    """
    asked = {name: spec[name] for name in ("checks", "samples") if name in spec}
    ids = sorted({text for text in _texts(asked) if text.startswith(("mdl_", "dat_"))})
    digests: dict[str, str] = {}
    for table in (ModelRow, DatasetRow):
        query = select(table.id, table.digest).where(table.id.in_(ids), table.project_id == project_id)
        digests |= {row.id: row.digest for row in session.execute(query)} if ids else {}
    text = json.dumps(asked, sort_keys=True)
    for row_id, digest in digests.items():
        text = text.replace(json.dumps(row_id), json.dumps(digest))
    return "sha256:" + hashlib.sha256(text.encode()).hexdigest()


def _texts(value: Any) -> Iterable[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for one in value.values():
            yield from _texts(one)
    elif isinstance(value, list):
        for one in value:
            yield from _texts(one)
