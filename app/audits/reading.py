"""From rows to what is told: plain dictionaries, since an audit is read far more often than anything else.

The shape is that of :class:`seatrial.contracts.audits.AuditRead`, which documents it and which a test holds it to.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from pydantic import ValidationError
from sqlalchemy.orm import Session

from app.audits import repository
from app.audits.repository import AuditParts, RunningShard, StageWork
from app.audits.timing import spread_stored
from app.deletions.service import missing
from app.policies.repository import find_own_judgement
from seatrial.contracts.costs import StageShares
from seatrial.contracts.meters import meters_of
from seatrial.contracts.registry import find_family
from seatrial.contracts.states import PREFLIGHT, TERMINAL
from seatrial.families.shared.settling import settled_document
from seatrial.families.timing import range_left
from seatrial.statistics.looks import planned_sizes
from seatrial.store.database import AnyRow


@dataclass(frozen=True)
class Reached:
    """Which shares of all examples the stages of a check have reached.

    Attributes:
        now: Those of stages before the present one: the examples of the look that is measured for.
        before: Those of stages after it: the examples of the look before.
        stage: That of the present one's examples as they are cut so far.
    """

    now: float = 1.0
    before: float = 0.0
    stage: float = 1.0


WHOLE = Reached()


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
    audit, checks = parts.audit, [_check(check, parts, now, lease_s) for check in parts.checks]
    left = [check["progress"]["remaining_s"] for check in checks]
    ranges = [
        None if seconds is None else _range_left(check, seconds, parts.work.get(check.id, StageWork()), now, lease_s)
        for check, seconds in zip(parts.checks, left, strict=True)
    ]
    spent = sum(_spent_s(parts.work.get(check.id, StageWork()), now, lease_s) for check in parts.checks)
    return {
        **render_summary(audit),
        "progress": {**overall(spent, left), **_ends("remaining", ranges)},
        "checks": checks,
        "judgement": judgement,
        "spec": audit.spec,
        "spec_digest": audit.spec_digest,
        "estimated_s": audit.estimated_s,
        **_ends("estimated", [_range_estimated(check) for check in parts.checks]),
        "error": audit.error,
        "notes": [],
    }


def _check(check: AnyRow, parts: AuditParts, now: datetime, lease_s: float | None) -> dict[str, Any]:
    work = parts.work.get(check.id, StageWork())
    spec = find_family(check.kind)
    shares = None
    if spec and spec.stage_shares and check.stage:
        shares = spec.stage_shares(check.params, check.stage, parts.audit.samples)
    sizes = _look_sizes(check, parts)
    taken = len(check.looks or ())
    look, reached = None, WHOLE
    if len(sizes) > 1 and taken < len(sizes):
        look = {"number": 1 + taken, "of": len(sizes), "examples": sizes[taken], "most": sizes[-1]}
        reached = Reached(
            now=sizes[taken] / sizes[-1],
            before=sizes[taken - 1] / sizes[-1] if taken else 0.0,
            # What is fitted, say, is fitted once and on all there is.
            stage=work.total / sizes[-1] if work.total in sizes else 1.0,
        )
    return {
        "id": check.id,
        "kind": check.kind,
        "params": check.params,
        "state": check.state,
        "progress": {
            "stage": check.stage,
            "done": work.done,
            "total": work.total,
            "remaining_s": remaining_s(
                check.state, check.stage, check.estimated_s, work, shares, reached, now=now, lease_s=lease_s
            ),
            **({} if look is None else {"look": look}),
        },
        "meters": None if (meters := meters_of(parts.asked.get(check.id))) is None else meters.model_dump(),
        "stages": parts.stages.get(check.id, []),
        "result": settled_document(check.kind, check.params, check.result),
        "figures": sorted(check.figures or ()),
        "error": check.error,
        "reused": check.reused,
    }


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


def overall(spent_s: float, left: Sequence[float | None]) -> dict[str, float | None]:
    """Return how far checks are together: their time so far beside their time in all.

    Args:
        spent_s: Seconds workers have spent on them.
        left: Seconds each will still take; 0 when it has ended, None when nothing is known.

    >>> overall(30.0, [0.0, 10.0]), overall(0.0, [0.0]), overall(5.0, [None])
    ({'share': 0.75, 'remaining_s': 10.0}, {'share': 1.0, 'remaining_s': 0.0}, {'share': None, 'remaining_s': None})
    """
    known = [one for one in left if one is not None]
    if len(known) < len(left):
        return {"share": None, "remaining_s": None}
    remaining = sum(known)
    share = 1.0 if remaining == 0 else round(spent_s / (spent_s + remaining), 4)
    return {"share": share, "remaining_s": round(remaining, 1)}


def _range_left(
    check: AnyRow, left_s: float, work: StageWork, now: datetime, lease_s: float | None
) -> tuple[float, float]:
    if left_s == 0.0 or check.stage in (None, PREFLIGHT) or not work.worked:
        return range_left(left_s, spread_stored(check), None)
    spent = work.seconds + sum(_worked_s(shard, now, lease_s) for shard in work.running)
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


def _spent_s(work: StageWork, now: datetime, lease_s: float | None) -> float:
    running = sum(_worked_s(shard, now, lease_s) for shard in work.running)
    return work.earlier_s + work.seconds + running / max(len(work.running), 1)


def remaining_s(
    state: str,
    stage: str | None,
    estimated_s: float | None,
    work: StageWork,
    shares: StageShares | None = None,
    reached: Reached = WHOLE,
    *,
    now: datetime,
    lease_s: float | None = None,
) -> float | None:
    """Return the seconds a check will still take; 0 when it has ended, None when nothing is known.

    What was estimated at submission, less what earlier stages took, counts for the share of the stage that is not done,
    the speed seen so far for the share that is. The preflight says nothing about the speed of the attack. Where the
    family knows how the work is shared among its stages, the speed of all so far counts for all that are left. Examples
    done are known as of a worker's last sign of life, and so is the time they took: a worker that was killed does not
    slow the pace. Where looks are taken, all of them are counted, as if none decided it: what is left is a most, and
    does not grow when one has not.
    """
    if state in TERMINAL:
        return 0.0
    if estimated_s is not None:
        estimated_s = max(estimated_s - work.earlier_s, 0.0)
    at_once = max(len(work.running), 1)
    spent = work.seconds + sum(_worked_s(shard, now, lease_s) for shard in work.running)
    total = work.total / reached.stage
    others = 0.0 if shares is None else shares.before * reached.now + shares.after * reached.before
    if shares is not None and total and (passed := others + shares.here * work.worked / total):
        left = shares.before + shares.here * (1 - work.done / total) + shares.after - others
        return round(left * (work.earlier_s + spent) / passed / at_once, 1)
    if stage in (None, PREFLIGHT) or not work.worked or spent <= 0:
        return estimated_s
    by_speed = (total - work.done) * spent / work.worked / at_once
    if estimated_s is None:
        return round(by_speed, 1)
    by_estimate = max(estimated_s - spent, 0.0)
    share = work.done / total
    return round(share * by_speed + (1 - share) * by_estimate, 1)


def _worked_s(shard: RunningShard, now: datetime, lease_s: float | None) -> float:
    seen_at = now.timestamp()
    if lease_s is not None and shard.lease_until is not None:
        seen_at = min(seen_at, shard.lease_until - lease_s)
    return max(seen_at - shard.began.timestamp(), 0.0)


def moment(value: datetime | None) -> str | None:
    """Return a moment as JSON has it.

    >>> moment(datetime(2026, 11, 21, 8, 0, tzinfo=UTC))
    '2026-11-21T08:00:00Z'
    """
    return None if value is None else value.isoformat().replace("+00:00", "Z")
