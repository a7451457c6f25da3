"""Deleting audits, models, datasets and hardenings: whole, at once, and nothing that runs or somebody waits for.

All of it is one transaction: the rows go, with what belongs to them, their files are released
(:mod:`seatrial.store.releasing`) and a tombstone is left. Killed at any moment, all of it has happened or nothing.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from sqlalchemy import ColumnElement, String, and_, cast, delete, false, or_, select
from sqlalchemy.orm import Session

from seatrial.contracts.states import TERMINAL, ModelState
from seatrial.store.activity import Author, record_activity
from seatrial.store.checkpoints import discard
from seatrial.store.releasing import release
from seatrial.store.tables import (
    AttestationRow,
    AuditRow,
    BaselineRow,
    CheckRow,
    DatasetRow,
    HardeningRow,
    ModelRow,
    PlanRow,
    PlanStepRow,
    ShardRow,
    TagRow,
    TombstoneRow,
)
from seatrial.store.tombstones import tombstone_of

MOST_ALONG = 500
"""Audits one deletion takes along at most: it is one transaction, and on SQLite nobody else writes meanwhile."""

UseKind = Literal["audit", "baseline", "attestation", "plan", "hardening", "worker"]

Deletable = AuditRow | ModelRow | DatasetRow | HardeningRow
_TABLES: dict[str, type[Deletable]] = {"aud": AuditRow, "mdl": ModelRow, "dat": DatasetRow, "hrd": HardeningRow}


@dataclass(frozen=True)
class Use:
    """Why something is not deleted.

    Attributes:
        kind: What uses it.
        id: Which.
        detail: What it uses it for, as a sentence without its end.
        must_end: Whether that must end first; else a cascade takes it along.
    """

    kind: UseKind
    id: str
    detail: str
    must_end: bool = False


class NotThereError(LookupError):
    """The project has nothing of that id."""


class InUseError(Exception):
    """Something uses it, see ``uses``; nothing is deleted."""

    def __init__(self, uses: Sequence[Use]) -> None:
        super().__init__("; ".join(f"{use.id} {use.detail}" for use in uses))
        self.uses = list(uses)


def delete_one(
    session: Session, project_id: str, subject_id: str, author: Author, *, cascade: bool = False
) -> list[TombstoneRow]:
    """Delete an audit, a model, a dataset or a hardening and return the tombstones, its own first.

    Args:
        session: An open write transaction.
        project_id: Whose it must be.
        subject_id: What is deleted.
        author: Who wants it.
        cascade: Whether what uses it, and has ended, goes along: of a model and a dataset their audits, of an audit
            its baselines, of all three the hardenings that name them. Attestations go from the table into the
            tombstone either way.

    Raises:
        NotThereError: The project has none of that id.
        InUseError: Something uses it that does not go along.
    """
    row = _lock(session, project_id, subject_id)
    if row is None:
        raise NotThereError(subject_id)
    along: list[AuditRow | HardeningRow] = []
    uses = list(_uses(session, row))
    if isinstance(row, ModelRow | DatasetRow):
        # In order: two that delete at once wait for each other, never in a circle.
        for audit_id in _audits_with(session, row)[: MOST_ALONG + 1]:
            audit = _lock(session, project_id, audit_id)
            if isinstance(audit, AuditRow):
                along.append(audit)
                uses += [Use("audit", audit.id, "measures it"), *_uses(session, audit)]
        if len(along) > MOST_ALONG:
            more = f"and more than {MOST_ALONG} others measure it: delete audits first"
            raise InUseError([Use("audit", along[0].id, more, must_end=True)])
    if refused := [use for use in uses if use.must_end or not cascade]:
        raise InUseError(refused)
    # They go first: they name the others.
    along = [*_hardenings_of(session, row, *along), *along]
    tombstones = [tombstone_of(session, row, author.actor, None)]
    tombstones += [tombstone_of(session, one, author.actor, row.id) for one in along]
    for gone in (*along, row):
        _delete_rows(session, gone)
    session.add_all(tombstones)
    session.flush()
    kind = tombstones[0].kind
    record_activity(
        session, project_id, author, f"{kind}.deleted", row.id, name=tombstones[0].name, along=[one.id for one in along]
    )
    return tombstones


def _lock(session: Session, project_id: str, subject_id: str) -> Deletable | None:
    table = _TABLES.get(subject_id.partition("_")[0])
    if table is None:
        return None
    query = select(table).where(table.id == subject_id, table.project_id == project_id)
    found: Any = session.scalar(query.with_for_update(of=table), execution_options={"populate_existing": True})
    return found  # type: ignore[no-any-return]


def _uses(session: Session, row: Deletable) -> Iterable[Use]:
    """Yield what uses a row, but for the audits of a model or a dataset."""
    if isinstance(row, ModelRow) and row.state == ModelState.CHECKING:
        yield Use("worker", row.id, "is being checked: cancel its check first", must_end=True)
    yield from _plans(session, row)
    if isinstance(row, AuditRow | HardeningRow) and row.state not in TERMINAL:
        yield Use("worker", row.id, f"is {row.state}: cancel it, or wait for its end", must_end=True)
    if isinstance(row, HardeningRow):
        return
    yield from _hardenings(session, row)
    if not isinstance(row, AuditRow):
        return
    if row.state in TERMINAL and row.policy is not None and row.verdict is None:
        yield Use("worker", row.id, "is being judged: wait for its verdict", must_end=True)
    waiting = select(AuditRow.id).where(
        AuditRow.project_id == row.project_id,
        AuditRow.baseline == row.id,
        or_(AuditRow.state.not_in(TERMINAL), AuditRow.verdict.is_(None)),
    )
    for audit_id in session.scalars(waiting.order_by(AuditRow.id)):
        yield Use("audit", audit_id, "is going to be compared with it", must_end=True)
    for baseline in session.scalars(select(BaselineRow).where(BaselineRow.audit_id == row.id)):
        yield Use("baseline", baseline.id, f"is the baseline {baseline.name} of {baseline.model_name}")
    attested = select(AttestationRow.id).where(
        AttestationRow.audit_id == row.id, AttestationRow.judgement_id.is_not(None)
    )
    for attestation_id in session.scalars(attested):
        yield Use("attestation", attestation_id, "attests its verdict")


def _hardenings(session: Session, row: Deletable) -> Iterable[Use]:
    """Yield the hardenings that name a row: those that have not ended must, others go along."""
    for one in _hardenings_of(session, row):
        must_end = one.state not in TERMINAL
        yield Use("hardening", one.id, "names it and has not ended" if must_end else "is about it", must_end)


def _hardenings_of(session: Session, *rows: Deletable) -> Sequence[HardeningRow]:
    """Return the hardenings that name any of some rows, held: none is retried before they are gone."""
    named = [
        and_(HardeningRow.project_id == row.project_id, _names(row))
        for row in rows
        if not isinstance(row, HardeningRow)
    ]
    query = select(HardeningRow).where(or_(false(), *named)).order_by(HardeningRow.id).with_for_update()
    return session.scalars(query, execution_options={"populate_existing": True}).all()


def _names(row: Deletable) -> ColumnElement[bool]:
    """Return whether a hardening names a row."""
    match row:
        case ModelRow():
            columns = [HardeningRow.model_id, HardeningRow.hardened_id]
        case DatasetRow():
            columns = [HardeningRow.dataset_id, HardeningRow.validation_id, HardeningRow.audited_id]
        case AuditRow():
            columns = [HardeningRow.audit_before, HardeningRow.audit_after]
        case HardeningRow():
            columns = [HardeningRow.id]
    return or_(*(column == row.id for column in columns))


def _plans(session: Session, row: Deletable) -> Iterable[Use]:
    """Yield the unfinished plans that name a row, wait for it, or go on from the hardening it belongs to."""
    hardenings = select(HardeningRow.id).where(_names(row))
    steps = (
        select(PlanStepRow.plan_id)
        .join(PlanRow, PlanRow.id == PlanStepRow.plan_id)
        .where(
            PlanRow.project_id == row.project_id,
            PlanRow.state.not_in(TERMINAL),
            or_(
                PlanStepRow.job == row.id,
                PlanStepRow.job.in_(hardenings),
                cast(PlanStepRow.params, String).contains(row.id, autoescape=True),
            ),
        )
    )
    for plan_id in session.scalars(steps.distinct()):
        yield Use("plan", plan_id, "names it and has not ended", must_end=True)


def _audits_with(session: Session, row: ModelRow | DatasetRow) -> Sequence[str]:
    """Return the audits of a model or a dataset, and those that name it in a check, in the order of their ids."""
    own = AuditRow.model_id if isinstance(row, ModelRow) else AuditRow.dataset_id
    ours = AuditRow.project_id == row.project_id
    # Searching through text is dear: the project's alone.
    named = (
        select(CheckRow.audit_id)
        .join(AuditRow, AuditRow.id == CheckRow.audit_id)
        .where(ours, cast(CheckRow.params, String).contains(row.id, autoescape=True))
    )
    query = select(AuditRow.id).where(ours, or_(own == row.id, AuditRow.id.in_(named)))
    return session.scalars(query.order_by(AuditRow.id)).all()


_TRAINED = ("digest", "weights_digest")
"""Files of a hardening's outcome."""


def _delete_rows(session: Session, row: Deletable) -> None:
    """Delete a row with all that belongs to it, and release its files."""
    digests: set[str] = {row.digest} if isinstance(row, ModelRow | DatasetRow) else set()
    if isinstance(row, ModelRow) and row.weights_digest is not None:
        digests.add(row.weights_digest)
    if isinstance(row, AuditRow):
        own = select(CheckRow.id).where(CheckRow.audit_id == row.id)
        shards = session.execute(
            select(ShardRow.records_digest, ShardRow.saved_digest).where(ShardRow.check_id.in_(own))
        ).all()
        digests |= {shard.records_digest for shard in shards if shard.records_digest}
        for shard in shards:
            if shard.saved_digest:
                discard(session, shard.saved_digest)
        for figures in session.scalars(select(CheckRow.figures).where(CheckRow.audit_id == row.id)):
            digests |= set((figures or {}).values())
    if isinstance(row, HardeningRow):
        if row.saved_digest is not None:
            discard(session, row.saved_digest)
        # What was trained, where no version of the model was made of it.
        digests |= {str(value) for name, value in (row.outcome or {}).items() if name in _TRAINED and value}
    session.execute(delete(TagRow).where(TagRow.subject_id == row.id))
    # Checks, stages, shards, events, judgements, attestations and baselines go by their foreign keys.
    table: Any = type(row)
    session.execute(delete(table).where(table.id == row.id).execution_options(synchronize_session=False))
    session.expunge(row)
    release(session, digests)
