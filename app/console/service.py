"""What a page of an audit shows, put together from what the rooms tell."""

from dataclasses import dataclass
from datetime import datetime

from sqlalchemy.orm import Session

from app.audits.reading import read_audit
from app.audits.repository import list_audits
from app.console import repository
from app.console.pages import STATE_WORDS, duration
from app.gates import repository as gates
from app.gates.service import judgement_of
from app.policies import repository as stored
from app.policies.service import shipped_policies
from app.reports.pictures import find_pictures
from app.reports.service import compose_report
from app.web.pagination import PageRequest
from app.web.services import Services
from seatrial.contracts.audits import AuditRead, CheckRead
from seatrial.contracts.policies import Judgement
from seatrial.contracts.states import TERMINAL, RunState
from seatrial.reporting.pictures import Picture
from seatrial.reporting.schemas import ReportRead

# The newest verdicts of an audit; all of them are on /v1/audits/{id}/judgements.
SHOWN_JUDGEMENTS = 20


@dataclass(frozen=True)
class Listed:
    """An audit in the list, without what was asked in full.

    Attributes:
        id: Identifier.
        state: State.
        verdict: Verdict, where it was judged.
        created_at: When it was submitted.
        model: Name and version.
        dataset: Name and version.
        kinds: Families of its checks.
    """

    id: str
    state: str
    verdict: str | None
    created_at: datetime
    model: str
    dataset: str
    kinds: list[str]


@dataclass(frozen=True)
class Progress:
    """How far an audit is, as the page says it while it runs.

    Attributes:
        audit: The audit.
        has_ended: Whether its checks have.
        is_over: Whether nothing will change any more: it may wait for its verdict.
        said: What a screen reader is told when it changes.
        remaining: Time left, in words.
    """

    audit: AuditRead
    has_ended: bool
    is_over: bool
    said: str
    remaining: str


@dataclass(frozen=True)
class AuditPage:
    """All an audit's page shows.

    Attributes:
        progress: The audit, and how far it is.
        report: What is known so far.
        pictures: Attacked images by check, those first that matter most.
        model: Name and version.
        model_name: Name alone, over its versions.
        dataset: Name and version.
        own: Verdict of the policy it was submitted with; None without one, and until it is judged.
        judgements: What else it was judged by, newest first.
        policies: Names of policies to judge by.
        is_judged_by: Name of the policy it was submitted with; None without one.
        baselines: Audits that are baselines of its model now, by name.
    """

    progress: Progress
    report: ReportRead
    pictures: dict[str, list[Picture]]
    model: str
    model_name: str
    dataset: str
    own: Judgement | None
    judgements: list[Judgement]
    policies: list[str]
    is_judged_by: str | None
    baselines: dict[str, str]

    @property
    def is_baseline(self) -> list[str]:
        """Names of the baselines that this audit is."""
        return [name for name, audit in self.baselines.items() if audit == self.progress.audit.id]


def listed(
    session: Session, project_id: str, *, state: str | None, model: str | None, verdict: str | None, page: PageRequest
) -> list[Listed]:
    """Return a page of audits and one more, if there is one."""
    rows = list_audits(
        session, project_id, state=state, model=model, verdict=verdict, before=page.before, limit=page.fetch
    )
    return [
        Listed(
            id=row.id,
            state=row.state,
            verdict=row.verdict,
            created_at=row.created_at,
            model=f"{row.model_name} {row.model_version}",
            dataset=f"{row.dataset_name} {row.dataset_version}",
            kinds=list(dict.fromkeys(check["kind"] for check in row.spec.get("checks", ()))),
        )
        for row in rows
    ]


def progress_of(session: Session, project_id: str, audit_id: str, *, lease_s: float | None = None) -> Progress:
    """Return how far an audit is; ``lease_s`` as in :func:`read_audit`.

    Raises:
        NotFoundError: The project has none of that id.
    """
    audit = AuditRead.model_validate(read_audit(session, project_id, audit_id, lease_s=lease_s))
    has_ended = audit.state in TERMINAL
    # One that was submitted with a policy gets its verdict a moment after it has ended.
    is_over = has_ended and (audit.verdict is not None or not _has_policy(session, project_id, audit_id))
    return Progress(audit, has_ended, is_over, _said(audit), _remaining(audit))


def _has_policy(session: Session, project_id: str, audit_id: str) -> bool:
    audit = stored.find_audit(session, project_id, audit_id)
    return audit is not None and audit.policy is not None


def _said(audit: AuditRead) -> str:
    running = [f"{check.kind} {_stage(check)}" for check in audit.checks if check.state == RunState.RUNNING]
    done = sum(check.state in TERMINAL for check in audit.checks)
    parts = [f"The audit {STATE_WORDS[audit.state]}", f"{done} of {len(audit.checks)} checks have ended", *running]
    return "; ".join(parts) + "."


def _stage(check: CheckRead) -> str:
    return f"is at stage {check.progress.stage}" if check.progress.stage else "has begun"


def _remaining(audit: AuditRead) -> str:
    if audit.state in TERMINAL:
        return "none"
    low, high = audit.progress.remaining_low_s, audit.progress.remaining_high_s
    told = duration(audit.progress.remaining_s)
    return told if low is None or high is None else f"{told} ({duration(low)} to {duration(high)})"


def policy_names(session: Session, project_id: str) -> list[str]:
    """Return the names of policies to judge by: those that ship, then the project's own."""
    shipped = [policy.name for policy in shipped_policies()]
    return [*shipped, *(name for name in stored.policy_names(session, project_id) if name not in shipped)]


def audit_page(services: Services, project_id: str, audit_id: str) -> AuditPage:
    """Return what the page of an audit shows.

    Raises:
        NotFoundError: The project has none of that id.
    """
    with services.database.read() as session:
        progress = progress_of(session, project_id, audit_id, lease_s=services.settings.lease_s)
        found = stored.find_audit(session, project_id, audit_id)
        assert found is not None  # noqa: S101 - read in the same transaction as the audit
        audit = progress.audit
        names = repository.names_of(session, project_id, {audit.model, audit.dataset})
        own = judgement_of(session, audit_id)
        rows = gates.list_judgements(session, audit_id, before=None, limit=SHOWN_JUDGEMENTS)
        others = [row.judgement for row in rows if own is None or row.id != own.id]
        policies = policy_names(session, project_id)
        baselines = repository.current_baselines(session, project_id, found.model_name)
        report = compose_report(session, services.store, project_id, audit_id)
        pictures = find_pictures(session, services.store, project_id, audit_id)
    return AuditPage(
        progress=progress,
        report=report,
        pictures=pictures,
        model=names.get(audit.model, audit.model),
        model_name=found.model_name,
        dataset=names.get(audit.dataset, audit.dataset),
        own=own,
        judgements=[Judgement.model_validate(one) for one in others],
        policies=policies,
        is_judged_by=found.policy["source"]["name"] if found.policy else None,
        baselines=baselines,
    )
