"""What a project may use at most, and the refusals that name the limit and how much of it is used.

Audits and trainings, seconds and bytes are counted in the database, in the transaction that adds to them, so that they
hold over all API processes. Requests a second and open uploads are counted by each API process for itself.
"""

import math
import threading
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import Literal
from weakref import WeakKeyDictionary

from sqlalchemy import ColumnElement, Connection, Engine, func, select
from sqlalchemy.orm import Session

from app.web.problems import ConflictError, ProblemError
from seatrial.contracts.states import UNFINISHED
from seatrial.store.database import Database
from seatrial.store.tables import AuditRow, HardeningRow, QuotaRow, TombstoneRow
from seatrial.store.tables.base import utc_now
from seatrial.store.tables.hardenings import TRAINING
from seatrial.store.usage import disk_use

KEPT_S = 2.0
"""Seconds a process remembers a project's quotas of requests and uploads."""

_SUM_KEPT_S = 10.0
"""Seconds a process trusts the sum of a project's files, for submissions alone."""

DAY = timedelta(days=1)

Work = Literal["audit", "training"]
"""What takes workers: an audit, or the training of a hardening. Its audits are audits."""

_FEWER: dict[Work, str] = {
    "audit": "take fewer samples, steps or checks.",
    "training": "take fewer epochs, steps or examples.",
}
_RAISE = "the operator can raise it."


class QuotaError(ProblemError):
    """More than the project may use."""

    code = "quota-exceeded"
    title = "Beyond what this project may use"

    def __init__(self, status: int, name: str, detail: str, most: float, used: float, retry_after_s: int = 0) -> None:
        headers = {"Retry-After": str(retry_after_s)} if retry_after_s else {}
        super().__init__(detail, headers=headers, limit={"name": name, "most": most, "used": used})
        self.status = status


class CostUnknownError(ConflictError):
    """What an audit or a training costs is not known yet, and the project may not spend without limit."""

    code = "cost-unknown"
    title = "What it would cost is not known yet"


AGAIN_S = 10.0
"""Until what is refused for now alone is tried again by the service itself."""


def passes_by_itself(error: ProblemError) -> bool:
    """Tell whether a submission is refused for now alone: audits end, a day passes, a model gets checked."""
    return isinstance(error, CostUnknownError) or (isinstance(error, QuotaError) and "Retry-After" in error.headers)


class Quotas:
    """Requests and open uploads of this process, by project.

    Args:
        database: Where the quotas are.
        clock: Seconds that never go back.
    """

    def __init__(self, database: Database, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._database = database
        self._clock = clock
        self._known: dict[str, tuple[float, QuotaRow | None]] = {}
        self._tokens: dict[str, tuple[float, float]] = {}
        self._uploads: Counter[str] = Counter()
        self._lock = threading.Lock()

    def is_known(self, project_id: str) -> bool:
        """Return whether counting asks no database."""
        known = self._known.get(project_id)
        return known is not None and known[0] > self._clock()

    def take_request(self, project_id: str) -> None:
        """Count a request; a second's worth may come at once.

        Raises:
            QuotaError: The project has had its share.
        """
        quota = self.read(project_id)
        if quota is None or quota.requests_per_s is None:
            return
        rate = quota.requests_per_s
        with self._lock:
            now, burst = self._clock(), max(rate, 1.0)
            left, at = self._tokens.get(project_id, (burst, now))
            left = min(burst, left + (now - at) * rate)
            self._tokens[project_id] = (left - 1 if left >= 1 else left, now)
        if left < 1:
            wait_s = max(1, round((1 - left) / rate))
            detail = (
                f"This project may ask each API process {rate:g} times a second (requests_per_s): ask again in "
                f"{wait_s:,} s."
            )
            raise QuotaError(429, "requests_per_s", detail, rate, rate, retry_after_s=wait_s)

    @contextmanager
    def upload(self, project_id: str) -> Iterator[None]:
        """Count an upload for as long as it is open.

        Raises:
            QuotaError: As many are open as may be.
        """
        quota = self.read(project_id)
        most = None if quota is None else quota.open_uploads
        with self._lock:
            used = self._uploads[project_id]
            if most == 0:
                raise QuotaError(
                    429, "open_uploads", f"This project may upload nothing (open_uploads is 0): {_RAISE}", 0, 0
                )
            if most is not None and used >= most:
                detail = (
                    f"This project may have {_counted(most, 'upload')} open at a time (open_uploads); {used:,} "
                    f"{'is' if used == 1 else 'are'}: wait for one to end."
                )
                raise QuotaError(429, "open_uploads", detail, most, used, retry_after_s=5)
            self._uploads[project_id] += 1
        try:
            yield
        finally:
            with self._lock:
                self._uploads[project_id] -= 1
                if not self._uploads[project_id]:
                    del self._uploads[project_id]

    def forget(self, project_id: str) -> None:
        """Drop a project's quotas from memory: they have been changed."""
        self._known.pop(project_id, None)

    def read(self, project_id: str) -> QuotaRow | None:
        """Return a project's quotas, as they were a moment ago."""
        known = self._known.get(project_id)
        if known is not None and known[0] > self._clock():
            return known[1]
        with self._database.read() as session:
            quota = session.get(QuotaRow, project_id)
        self._known[project_id] = (self._clock() + KEPT_S, quota)
        return quota


@dataclass(frozen=True)
class Unfinished:
    """What a project has queued or running.

    Attributes:
        audits: Audits.
        trainings: Trainings of hardenings; one that has trained is counted by its audits.
    """

    audits: int
    trainings: int

    @property
    def total(self) -> int:
        """Both."""
        return self.audits + self.trainings


def count_unfinished(session: Session, project_ids: Collection[str]) -> dict[str, Unfinished]:
    """Count what each of some projects has queued or running."""

    def count(table: type[AuditRow] | type[HardeningRow], *more: ColumnElement[bool]) -> dict[str, int]:
        own = (table.project_id.in_(project_ids), table.state.in_(UNFINISHED), *more)
        query = select(table.project_id, func.count()).where(*own).group_by(table.project_id)
        return {row[0]: row[1] for row in session.execute(query)}

    audits, trainings = count(AuditRow), count(HardeningRow, HardeningRow.stage == TRAINING)
    return {one: Unfinished(audits.get(one, 0), trainings.get(one, 0)) for one in project_ids}


def check_submission(
    session: Session,
    project_id: str,
    seconds: float | None,
    *,
    work: Work = "audit",
    audit_s: float | None = None,
    adds: bool = True,
) -> None:
    """Refuse an audit or a training that the project may not add; of two at once, one waits for the other.

    Args:
        session: The write transaction that adds it, or any where it is only asked whether one could.
        project_id: Whose it is.
        seconds: What it would cost, at most; None where that is not known.
        work: What it is.
        audit_s: Seconds of each of the audits a training is followed by: refused now where no waiting would let it.
        adds: Whether it is added.

    Raises:
        QuotaError: It is more than the project may use.
        CostUnknownError: Its model has not been checked, and costs are limited.
    """
    query = select(QuotaRow).where(QuotaRow.project_id == project_id)
    quota = session.scalar(query.with_for_update() if adds else query)
    if quota is None:
        return
    if quota.unfinished_audits is not None:
        unfinished = count_unfinished(session, [project_id])[project_id]
        if unfinished.total >= quota.unfinished_audits:
            raise _too_many_unfinished(work, quota.unfinished_audits, unfinished)
    if seconds is None and (quota.audit_s is not None or quota.daily_s is not None):
        raise CostUnknownError(
            f"What this {work} would cost is not known before its model has been checked, and this project's costs are "
            "limited (audit_s, daily_s): submit it when the model is ready, Prefer: wait=30 waits for that."
        )
    spent = 0.0 if quota.daily_s is None else spent_daily_s(session, project_id)
    _check_alone(quota, work, seconds, spent)
    if work == "training":
        _check_alone(quota, "audit", audit_s, spent)
    if quota.daily_s is not None and seconds is not None and spent + seconds > quota.daily_s:
        raise _day_is_spent(work, seconds, spent, quota.daily_s)
    if not _had_room(session, quota):
        _check_bytes(session, quota, 0)


def why_refused(
    session: Session, project_id: str, seconds: float | None, *, work: Work = "audit", audit_s: float | None = None
) -> str | None:
    """Return why an audit or a training could not be added now, None where it could; see :func:`check_submission`."""
    try:
        check_submission(session, project_id, seconds, work=work, audit_s=audit_s, adds=False)
    except (QuotaError, CostUnknownError) as error:
        return error.detail
    return None


def _check_alone(quota: QuotaRow, work: Work, seconds: float | None, spent: float) -> None:
    """Refuse what would be too much although nothing else were done."""
    if seconds is None:
        return
    if quota.audit_s is not None and seconds > quota.audit_s:
        asked, most = _apart(seconds, quota.audit_s)
        one = "one of this project" if work == "audit" else "an audit or a training of this project"
        detail = f"This {work} may take {asked} s; {one} may take {most} s (audit_s): {_FEWER[work]}"
        raise QuotaError(413, "audit_s", detail, quota.audit_s, seconds)
    if quota.daily_s is not None and seconds > quota.daily_s:
        raise _day_is_spent(work, seconds, spent, quota.daily_s)


def check_storage(session: Session, project_id: str, size_bytes: int) -> None:
    """Refuse an upload that the project has no room for; of two at once, one waits for the other.

    Raises:
        QuotaError: It is more than the project may store.
    """
    quota = session.scalar(select(QuotaRow).where(QuotaRow.project_id == project_id).with_for_update())
    if quota is not None:
        _check_bytes(session, quota, size_bytes)


_SUMS: WeakKeyDictionary[Engine | Connection, dict[str, tuple[float, int]]] = WeakKeyDictionary()
"""When a project's files were last added up by this process, and what they came to, by database and project."""


def _had_room(session: Session, quota: QuotaRow) -> bool:
    """Tell whether a project had room a moment ago: a submission stores nothing itself, so that an old sum does.

    Adding up takes 0.2 s of 100,000 audits. Whatever is refused is refused by a new sum.
    """
    if quota.stored_bytes is None:
        return True
    at, used = _SUMS.get(session.get_bind(), {}).get(quota.project_id, (-math.inf, 0))
    return time.monotonic() - at < _SUM_KEPT_S and used < quota.stored_bytes


def _check_bytes(session: Session, quota: QuotaRow, added: int) -> None:
    if quota.stored_bytes is None:
        return
    used, most = disk_use(session, quota.project_id).total, quota.stored_bytes
    _SUMS.setdefault(session.get_bind(), {})[quota.project_id] = time.monotonic(), used + added
    if used + added <= most and used < most:
        return
    if most == 0:
        detail = f"This project may store nothing (stored_bytes is 0): {_RAISE}"
    elif added > most:
        # Whatever is deleted, there would be no room.
        detail = f"This has {added:,} bytes, and this project may store {most:,} in all (stored_bytes): {_RAISE}"
    else:
        this = f", and this has {added:,}" if added else ""
        detail = (
            f"This project stores {_counted(used, 'byte')} and may store {most:,} (stored_bytes){this}: delete audits, "
            "models or datasets."
        )
    raise QuotaError(413, "stored_bytes", detail, most, used)


def _too_many_unfinished(work: Work, most: int, used: Unfinished) -> QuotaError:
    if most == 0:
        detail = f"This project may submit no {work} (unfinished_audits is 0): {_RAISE}"
        return QuotaError(429, "unfinished_audits", detail, most, used.total)
    among = f", {used.trainings:,} of them trainings" if used.trainings else ""
    detail = (
        f"This project may have {_counted(most, 'unfinished audit')} (unfinished_audits); it has {used.total:,}"
        f"{among}: wait for one to end, or cancel one."
    )
    return QuotaError(429, "unfinished_audits", detail, most, used.total, retry_after_s=30)


def _day_is_spent(work: Work, seconds: float, spent: float, most: float) -> QuotaError:
    if seconds > most:
        asked, a_day = _apart(seconds, most)
        detail = f"This {work} may take {asked} s; all of a day together may take {a_day} s (daily_s): {_FEWER[work]}"
        return QuotaError(429, "daily_s", detail, most, spent)
    asked, left = _apart(seconds, max(most - spent, 0.0))
    detail = (
        f"This {work} may take {asked} s; of this project's {_seconds(most)} s a day (daily_s) {left} s are left, "
        f"what was deleted counted: submit it when that of the last 24 hours is a day old, or {_FEWER[work]}"
    )
    return QuotaError(429, "daily_s", detail, most, spent, retry_after_s=3600)


def _counted(count: int, thing: str) -> str:
    return f"{count:,} {thing}{'' if count == 1 else 's'}"


def _seconds(seconds: float, digits: int = 0) -> str:
    return f"{seconds:,.{digits}f}"


def _apart(first: float, second: float) -> tuple[str, str]:
    """Return two different numbers of seconds with as few digits as tell them apart.

    >>> _apart(3600.4, 3600.0), _apart(90.2, 60.0), _apart(0.04, 0.02)
    (('3,600.4', '3,600.0'), ('90', '60'), ('0.04', '0.02'))
    """
    for digits in range(6):
        told = _seconds(first, digits), _seconds(second, digits)
        if told[0] != told[1]:
            break
    return told


def spent_daily_s(session: Session, project_id: str) -> float:
    """Return the seconds that the audits and trainings of the last 24 hours may take, deleted ones among them."""
    since = utc_now() - DAY
    spent = 0.0
    for table in (AuditRow, HardeningRow):
        own = (table.project_id == project_id, table.created_at > since)
        spent += float(session.scalar(select(func.coalesce(func.sum(table.estimated_s), 0.0)).where(*own)) or 0.0)
    deleted = select(TombstoneRow.details).where(
        TombstoneRow.project_id == project_id,
        TombstoneRow.kind.in_(("audit", "hardening")),
        TombstoneRow.created_at > since,
    )
    return spent + sum(details["estimated_s"] or 0.0 for details in session.scalars(deleted))
