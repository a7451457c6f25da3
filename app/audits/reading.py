"""From rows to what is told: plain dictionaries, since an audit is read far more often than anything else.

The shape is that of :class:`seatrial.contracts.audits.AuditRead`, which documents it and which a test holds it to.
"""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from pydantic import ValidationError
from sqlalchemy.orm import Session

from app.audits import repository
from app.audits.progress import (
    WHOLE,
    Course,
    Reached,
    Standing,
    course_of,
    overall,
    remaining_s,
    share_of,
    spent_s,
    worked_s,
)
from app.audits.repository import AuditParts, StageWork
from app.audits.timing import spread_stored
from app.deletions.service import missing
from app.policies.repository import find_own_judgement
from seatrial.contracts.meters import meters_of
from seatrial.contracts.registry import find_family
from seatrial.contracts.states import PREFLIGHT, TERMINAL
from seatrial.families.shared.settling import settled_document
from seatrial.families.timing import range_left
from seatrial.statistics.looks import planned_sizes
from seatrial.store.database import AnyRow
from seatrial.store.salts import told_spec


def read_audit(session: Session, project_id: str, audit_id: str, *, lease_s: float | None = None) -> dict[str, Any]:
    """Return an audit as JSON.

    Args:
        session: An open transaction.
        project_id: Whose it is.
        audit_id: Which.
        lease_s: Seconds a worker holds a shard after each sign of life, so that the time since the last one is left
            out of the speed; None: it counts.

    Raises:
        NotFoundError: The project has none of that id.
    """
    parts = repository.find_parts(session, project_id, audit_id)
    if parts is None:
        raise missing(session, project_id, audit_id, "audit")
    # Only a gate writes a verdict, and with it the judgement.
    own = find_own_judgement(session, audit_id) if parts.audit.verdict is not None else None
    return render_audit(parts, None if own is None else own.judgement, now=datetime.now(UTC), lease_s=lease_s)


def render_summary(audit: AnyRow) -> dict[str, Any]:
    """Return an audit without its checks."""
    return {
        "id": audit.id,
        "state": audit.state,
        "verdict": audit.verdict,
        "model": audit.model_id,
        "model_name": audit.model_name,
        "model_version": audit.model_version,
        "dataset": audit.dataset_id,
        "dataset_name": audit.dataset_name,
        "dataset_version": audit.dataset_version,
        "seed": audit.seed,
        "samples": audit.samples,
        "kinds": [check["kind"] for check in audit.spec.get("checks", ())],
        "priority": audit.priority,
        "created_at": moment(audit.created_at),
        "started_at": moment(audit.started_at),
        "finished_at": moment(audit.finished_at),
    }


def render_audit(
    parts: AuditParts, judgement: dict[str, Any] | None, *, now: datetime, lease_s: float | None = None
) -> dict[str, Any]:
    """Return an audit with its checks, and what its own policy makes of it."""
    audit, standings = parts.audit, [_standing(check, parts) for check in parts.checks]
    left = [remaining_s(one, now=now, lease_s=lease_s) for one in standings]
    shares = [share_of(one, spent_s=spent_s(one.work, now, lease_s)) for one in standings]
    ranges = [
        None if seconds is None else _range_left(check, seconds, one.work, now, lease_s)
        for check, one, seconds in zip(parts.checks, standings, left, strict=True)
    ]
    return {
        **render_summary(audit),
        "progress": {
            "share": overall(shares, [check.estimated_s for check in parts.checks]),
            "remaining_s": _sum(left),
            **_ends("remaining", ranges),
        },
        "checks": [
            _check(check, parts, one, seconds)
            for check, one, seconds in zip(parts.checks, standings, left, strict=True)
        ],
        "judgement": judgement,
        "spec": told_spec(audit.spec, audit.state),
        "spec_digest": audit.spec_digest,
        "estimated_s": audit.estimated_s,
        **_ends("estimated", [_range_estimated(check) for check in parts.checks]),
        "error": audit.error,
        "notes": [],
    }


def _sum(left: Sequence[float | None]) -> float | None:
    known = [one for one in left if one is not None]
    return round(sum(known), 1) if len(known) == len(left) else None


def _check(check: AnyRow, parts: AuditParts, standing: Standing, left_s: float | None) -> dict[str, Any]:
    sizes, taken = _look_sizes(check, parts), len(check.looks or ())
    look = None
    if len(sizes) > 1 and taken < len(sizes):
        look = {"number": 1 + taken, "of": len(sizes), "examples": sizes[taken], "most": sizes[-1]}
    return {
        "id": check.id,
        "kind": check.kind,
        "params": check.params,
        "state": check.state,
        "progress": {
            "stage": check.stage,
            "done": standing.work.done,
            "total": standing.work.total,
            "remaining_s": left_s,
            **({} if look is None else {"look": look}),
        },
        "meters": None if (meters := meters_of(parts.asked.get(check.id))) is None else meters.model_dump(),
        "stages": list(parts.stages.get(check.id, ())),
        "result": settled_document(check.kind, check.params, check.result),
        "figures": sorted(check.figures or ()),
        "error": check.error,
        "reused": check.reused,
    }


def _standing(check: AnyRow, parts: AuditParts) -> Standing:
    work, reached = parts.work.get(check.id, StageWork()), _reached(check, parts)
    return Standing(check.state, check.stage, check.estimated_s, work, _course(check, parts, reached), reached)


def _course(check: AnyRow, parts: AuditParts, reached: Reached) -> Course | None:
    spec = find_family(check.kind)
    if spec is None or spec.stage_costs is None or check.state in TERMINAL or check.stage in (None, PREFLIGHT):
        return None
    try:
        costs = spec.stage_costs(check.params, parts.audit.samples)
    except ValidationError:
        # Stored by another version; the worker will say so.
        return None
    return course_of(costs, check.stage, list(parts.stages.get(check.id, ())), reached)


def _reached(check: AnyRow, parts: AuditParts) -> Reached:
    sizes, taken = _look_sizes(check, parts), len(check.looks or ())
    if len(sizes) < 2 or taken >= len(sizes):
        return WHOLE

    def share(examples: int) -> float:
        # What is fitted, say, is fitted once and on all there is.
        return examples / sizes[-1] if examples in sizes else 1.0

    return Reached(
        now=sizes[taken] / sizes[-1],
        before=sizes[taken - 1] / sizes[-1] if taken else 0.0,
        here=share(parts.work.get(check.id, StageWork()).total),
        stages={name: share(examples) for name, examples in parts.stages.get(check.id, {}).items()},
    )


def _look_sizes(check: AnyRow, parts: AuditParts) -> list[int]:
    """Return the examples at each look of a check that is measured; nothing where that is not known."""
    spec = find_family(check.kind)
    if parts.examples is None or spec is None or check.state in TERMINAL or check.stage in (None, PREFLIGHT):
        return []
    try:
        params = spec.params.model_validate(check.params)
    except ValidationError:
        # Stored by another version; the worker will say so.
        return []
    examples = min(parts.audit.samples, parts.examples)
    return planned_sizes(spec.stopping, params, examples, parts.audit.spec["batch_size"])


def _range_left(
    check: AnyRow, left_s: float, work: StageWork, now: datetime, lease_s: float | None
) -> tuple[float, float]:
    if left_s == 0.0 or check.stage in (None, PREFLIGHT) or not work.worked:
        return range_left(left_s, spread_stored(check), None)
    spent = work.seconds + sum(worked_s(shard, now, lease_s) for shard in work.running)
    here_s = (work.total - work.done) * spent / work.worked / max(len(work.running), 1)
    # Later stages may be left out, or be all that the estimate still has for them.
    least, most = min(left_s, here_s), max(left_s, here_s, (check.estimated_s or 0.0) - work.earlier_s - spent)
    done = work.done / work.total
    return range_left(least, spread_stored(check), done)[0], range_left(most, spread_stored(check), done)[1]


def _range_estimated(check: AnyRow) -> tuple[float, float] | None:
    return None if check.estimated_s is None else range_left(check.estimated_s, spread_stored(check), None)


def _ends(name: str, ranges: Sequence[tuple[float, float] | None]) -> dict[str, float | None]:
    """Return the ends of the sum of ranges; of none where one is not known."""
    known = [one for one in ranges if one is not None]
    low, high = (round(sum(ends), 1) for ends in zip(*known, strict=True)) if known else (None, None)
    if len(known) < len(ranges):
        low = high = None
    return {f"{name}_low_s": low, f"{name}_high_s": high}


def moment(value: datetime | None) -> str | None:
    """Return a moment as JSON has it.

    >>> moment(datetime(2026, 11, 21, 8, 0, tzinfo=UTC))
    '2026-11-21T08:00:00Z'
    """
    return None if value is None else value.isoformat().replace("+00:00", "Z")
