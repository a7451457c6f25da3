"""Which state follows which, and the only code that writes a state.

Every write is a compare-and-set: it names the states (and, for a worker, the token) it expects, and tells whether it
won. Nothing else in the project assigns a ``state`` column; a test looks for it.
"""

import secrets
from collections.abc import Collection, Mapping
from typing import Any, TypeVar

from sqlalchemy import ColumnElement, Select, Update, select, update
from sqlalchemy.orm import Session

from seatrial.contracts.states import TERMINAL, ModelState, RunState
from seatrial.store.database import epoch_now
from seatrial.store.tables import AuditRow, CheckRow, HardeningRow, ModelRow, PlanRow, PlanStepRow, ShardRow
from seatrial.store.tables.base import utc_now

R = RunState

MODEL_TRANSITIONS: dict[str, frozenset[str]] = {
    ModelState.CHECKING: frozenset({ModelState.READY, ModelState.REJECTED}),
    ModelState.READY: frozenset(),
    ModelState.REJECTED: frozenset(),
}

RUN_TRANSITIONS: dict[str, frozenset[str]] = {
    R.QUEUED: frozenset({R.RUNNING, R.CANCELLING, R.CANCELLED, R.FAILED}),
    # Back to queued: given back by a worker that stops, or taken from one that died.
    R.RUNNING: frozenset({R.SUCCEEDED, R.FAILED, R.CANCELLING, R.CANCELLED, R.QUEUED}),
    R.CANCELLING: frozenset({R.CANCELLED, R.FAILED}),
    R.SUCCEEDED: frozenset(),
    # A retry, and nothing else, leaves a failure.
    R.FAILED: frozenset({R.QUEUED, R.RUNNING}),
    R.CANCELLED: frozenset(),
}

SHARD_TRANSITIONS: dict[str, frozenset[str]] = {
    **RUN_TRANSITIONS,
    # A retry measures again what the store has lost.
    R.SUCCEEDED: frozenset({R.QUEUED}),
}

Row = TypeVar("Row", ModelRow, AuditRow, CheckRow, ShardRow, HardeningRow, PlanRow, PlanStepRow)
LeasedRow = TypeVar("LeasedRow", ModelRow, CheckRow, ShardRow, HardeningRow, PlanStepRow)


class TransitionError(RuntimeError):
    """A bug: code asked for a change of state the table does not allow."""


def sources_of(table: type[Any], state: str) -> frozenset[str]:
    """Return the states from which ``state`` may follow.

    >>> [str(state) for state in sources_of(ShardRow, "succeeded")]
    ['running']
    """
    transitions = {ModelRow: MODEL_TRANSITIONS, ShardRow: SHARD_TRANSITIONS}.get(table, RUN_TRANSITIONS)
    return frozenset(source for source, targets in transitions.items() if state in targets)


def _update(table: type[Any], state: str, sources: Collection[str] | None, values: dict[str, Any]) -> Update:
    allowed = sources_of(table, state)
    wanted = allowed if sources is None else frozenset(sources)
    if not wanted <= allowed:
        raise TransitionError(f"{table.__tablename__}: {sorted(wanted - allowed)} may not become {state}")
    if table is not ModelRow:
        if state in TERMINAL:
            values = {"finished_at": utc_now(), **values}
        elif state == R.RUNNING and table is not ShardRow:
            values = {"finished_at": None, **values}
    return (
        update(table)
        .where(table.state.in_(wanted))
        .values(state=str(state), **values)
        .execution_options(synchronize_session=False)
    )


def move(
    session: Session,
    table: type[Row],
    state: str,
    *where: ColumnElement[bool],
    sources: Collection[str] | None = None,
    **values: Any,
) -> int:
    """Move every matching row to ``state`` and return how many moved.

    Args:
        session: An open write transaction.
        table: What moves.
        state: Where to; the rows must be in a state that allows it.
        where: Which rows.
        sources: Only from these states; all allowed ones by default.
        values: Further columns written with the state.
    """
    return session.execute(_update(table, state, sources, values).where(*where)).rowcount  # type: ignore[attr-defined, no-any-return]


def claim(
    session: Session,
    table: type[LeasedRow],
    candidates: Select[Any],
    values: Mapping[str, Any] | None = None,
    *,
    lease_s: float,
    worker: str,
) -> tuple[str, str] | None:
    """Take the first candidate that nobody else takes, with a new token; return its id and the token.

    A shard and a hardening become ``running``; models and checks keep their state while they are held. The attempt is
    counted here, before any work, so that what kills its worker is counted too.

    Args:
        session: An open write transaction.
        table: What is claimed.
        candidates: Ids in the order wanted; locked with SKIP LOCKED where the database can.
        values: What is bound in ``candidates``.
        lease_s: Seconds the claim holds without a heartbeat.
        worker: Who takes it, for people.
    """
    # SQLite needs no lock: its write transaction excludes every other (and it ignores FOR UPDATE).
    chosen: str | None = session.scalar(candidates.limit(1).with_for_update(skip_locked=True, of=table), values)
    if chosen is None:
        return None
    token = secrets.token_hex(16)
    lease = {"token": token, "lease_until": epoch_now() + lease_s, "worker": worker, "attempts": table.attempts + 1}
    if table is ShardRow:
        statement = _update(table, R.RUNNING, {R.QUEUED}, {**lease, "started_at": utc_now(), "done": 0})
    elif table is HardeningRow:
        statement = _update(table, R.RUNNING, {R.QUEUED}, {**lease, "started_at": utc_now()})
    else:
        statement = update(table).values(**lease).execution_options(synchronize_session=False)
    won = session.execute(statement.where(table.id == chosen)).rowcount  # type: ignore[attr-defined]
    return (chosen, token) if won else None


def heartbeat(
    session: Session,
    table: type[ModelRow | CheckRow | ShardRow | HardeningRow],
    row_id: str,
    token: str,
    *,
    lease_s: float,
    **values: Any,
) -> bool:
    """Prolong a claim and return whether it is still ours."""
    statement = (
        update(table)
        .where(table.id == row_id, table.token == token)
        .values(lease_until=epoch_now() + lease_s, **values)
    )
    return bool(session.execute(statement.execution_options(synchronize_session=False)).rowcount)  # type: ignore[attr-defined]


def release(
    session: Session,
    table: type[ModelRow | CheckRow],
    row_id: str,
    token: str,
    *,
    put_off_s: float = 0.0,
    **values: Any,
) -> bool:
    """Let go of a model or a check that keeps its state; return whether it was still ours.

    Args:
        session: An open write transaction.
        table: What is let go of.
        row_id: Which.
        token: The claim.
        put_off_s: Seconds during which nobody may claim it.
        values: Further columns.
    """
    again = epoch_now() + put_off_s if put_off_s else None
    statement = update(table).where(*holds(table, row_id, token)).values(token=None, lease_until=again, **values)
    return bool(session.execute(statement.execution_options(synchronize_session=False)).rowcount)  # type: ignore[attr-defined]


def is_free(table: type[LeasedRow]) -> ColumnElement[bool]:
    """Return the condition that nobody holds a row and that it is not put off.

    A lease that has run out is not free: the reaper frees it, or ends what was tried too often. Were it claimable at
    once, a row that kills its worker would be claimed for ever by workers that look more often than the reaper does.
    """
    not_put_off = (table.lease_until.is_(None)) | (table.lease_until < epoch_now())
    return table.token.is_(None) & not_put_off


def holds(
    table: type[ModelRow | CheckRow | ShardRow | HardeningRow | PlanStepRow], row_id: str, token: str
) -> tuple[ColumnElement[bool], ColumnElement[bool]]:
    """Return the condition that a claim is still ours: the compare of every worker's compare-and-set."""
    return table.id == row_id, table.token == token


def lock(session: Session, table: type[Row], row_id: str) -> Row | None:
    """Read a row and hold it for the rest of the transaction."""
    return session.scalar(
        select(table).where(table.id == row_id).with_for_update(), execution_options={"populate_existing": True}
    )
