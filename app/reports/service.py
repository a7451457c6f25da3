"""Composes a report from stored rows. Nothing is computed anew: a report says what the database holds."""

import platform
from importlib.metadata import PackageNotFoundError, version
from typing import Any, Literal

from pydantic import BaseModel, ValidationError
from pydantic_core import PydanticUndefined
from sqlalchemy.orm import Session

from app.gates.service import judge_audit
from app.reports import repository
from app.reports.classes import count_classes, name_classes
from app.reports.controls import state_controls
from app.reports.signatures import find_signature
from app.web.problems import ConflictError, InvalidRequestError
from app.web.services import Services
from seatrial.contracts.audits import Reused
from seatrial.contracts.endpoints import SERVED
from seatrial.contracts.estimates import Estimate, Result, split_name
from seatrial.contracts.family import Measurement, Metric
from seatrial.contracts.meters import meters_of
from seatrial.contracts.metric_ranges import is_open, limits_of
from seatrial.contracts.policies import JudgementRequest
from seatrial.contracts.problems import StoredProblem
from seatrial.contracts.registry import as_meant, find_family, flags_of, metrics_of, params_contract
from seatrial.contracts.states import TERMINAL, RunState
from seatrial.families.narratives import comparisons_of, narrative_of
from seatrial.families.shared.settling import settled
from seatrial.reporting.attacked import attacked_in_words
from seatrial.reporting.glossary import GLOSSARY
from seatrial.reporting.outcomes import Judged
from seatrial.reporting.schemas import (
    Answer,
    ReportCheck,
    ReportEstimate,
    ReportFigure,
    ReportParameter,
    ReportRead,
    ReportReproduction,
    ReportSource,
    ReportTerm,
    Standing,
)
from seatrial.reporting.table_words import in_words_of
from seatrial.reporting.words import enumerate_words
from seatrial.store.artifacts import ArtifactMissingError, ArtifactStore
from seatrial.store.salts import told_spec
from seatrial.store.tables import AuditRow, CheckRow, DatasetRow, ModelRow

_WORST_FIRST: tuple[Standing, ...] = ("not_real", "unproven", "pending", "partly", "real")


class NoVerdictError(ConflictError):
    """A verdict is to be printed and there is none."""

    code = "no-verdict"
    title = "The audit has no verdict"


def compose_report(
    session: Session, store: ArtifactStore, project_id: str, audit_id: str, *, judged: Judged | None = None
) -> ReportRead:
    """Return the report of an audit, finished or not.

    Args:
        session: Where rows are.
        store: Where figures are.
        project_id: Whose audit it is.
        audit_id: Which audit.
        judged: The verdict to print; by default that of the policy the audit was submitted with, if there is one.

    Raises:
        NotFoundError: There is no such audit in the project.
    """
    audit = repository.get_audit(session, project_id, audit_id)
    judged = judged or repository.find_own_judgement(session, audit_id)
    rows = repository.list_checks(session, audit_id)
    model = repository.find_model(session, project_id, audit.model_id)
    dataset = repository.find_dataset(session, project_id, audit.dataset_id)
    classes, labels = count_classes(model), name_classes(model, dataset)
    checks = [_check(session, store, audit, row, classes, labels) for row in rows]
    sources = [
        *([_model_source("model", model)] if model else []),
        *([_data_source("dataset", dataset)] if dataset else []),
    ]
    for row in rows:
        sources += [one for one in _referenced(session, project_id, row) if one not in sources]
    report = ReportRead(
        audit=audit.id,
        state=RunState(audit.state),
        is_final=audit.state in TERMINAL,
        question=_question(model, rows),
        verdict=judged.judgement.verdict if judged else audit.verdict,
        judgement=judged.judgement if judged else None,
        answer=_overall(checks),
        created_at=audit.created_at,
        started_at=audit.started_at,
        finished_at=audit.finished_at,
        samples=audit.samples,
        error=StoredProblem.model_validate(audit.error) if audit.error else None,
        sources=sources,
        checks=checks,
        glossary=_glossary(rows, checks),
        reproduction=ReportReproduction(
            request={**told_spec(audit.spec, audit.state), "model": audit.model_id, "dataset": audit.dataset_id},
            seed=audit.seed,
            spec_digest=audit.spec_digest,
            versions=_versions(model, repository.workers_of(session, audit_id))
            | repository.measured_by(session, audit_id),
        ),
        controls=state_controls(checks, judged.judgement if judged else None),
        signature=find_signature(session, judged),
    )
    return in_words_of(model.task if model else "", report)


def _glossary(rows: list[CheckRow], checks: list[ReportCheck]) -> list[ReportTerm]:
    """Return what the checks' terms mean, and their flags with what to do about them."""
    found: dict[str, str] = {}
    for row, check in zip(rows, checks, strict=True):
        spec = find_family(row.kind)
        known = {**GLOSSARY, **(spec.glossary if spec is not None else {})}
        found |= {term: known[term] for term in narrative_of(row.kind).terms(row.params) if term in known}
        raised = {flag.code for flag in check.flags}
        found |= {
            code: f"{flag.meaning} What to do: {flag.remedy}"
            for code, flag in flags_of(row.kind).items()
            if code in raised
        }
    return [ReportTerm(term=term, meaning=found[term]) for term in sorted(found, key=str.lower)]


def pick_judgement(
    services: Services, project_id: str, audit_id: str, *, policy: str | None, judgement: str | None
) -> Judged | None:
    """Return the verdict to print: a stored one, one made for this answer alone, or else the audit's own, if any.

    Raises:
        NotFoundError: There is no such audit, or it has no such judgement.
        InvalidRequestError: Both are asked for, or there is no such policy.
        ConflictError: There is nothing to judge yet.
    """
    if policy is not None and judgement is not None:
        raise InvalidRequestError("Ask for a policy or for a judgement, not both.", pointer="/policy", part="query")
    if policy is not None:
        return _judged_by(services, project_id, audit_id, policy)
    with services.database.read() as session:
        repository.get_audit(session, project_id, audit_id)
        if judgement is not None:
            return repository.get_judgement(session, audit_id, judgement)
        return repository.find_own_judgement(session, audit_id)


def _judged_by(services: Services, project_id: str, audit_id: str, policy: str) -> Judged:
    try:
        return judge_audit(services, project_id, audit_id, JudgementRequest(policy=policy), dry_run=True)
    except InvalidRequestError as error:
        # It is a query here and not a body.
        error.errors = [one.model_copy(update={"part": "query"}) for one in error.errors or ()]
        raise


def no_verdict(report: ReportRead) -> NoVerdictError:
    """Return the answer where a verdict is to be printed and there is none."""
    when = "" if report.is_final else f" It is {report.state}; a policy judges it when it has ended."
    return NoVerdictError(
        f"Audit {report.audit} has no verdict to print.{when} Ask with ?policy=standard (or one of GET /v1/policies), "
        f"name a judgement with ?judgement=, or submit audits with a policy; POST /v1/audits/{report.audit}/judge "
        "stores a verdict."
    )


def _question(model: ModelRow | None, rows: list[CheckRow]) -> str:
    subjects = dict.fromkeys(narrative_of(row.kind).subject() for row in rows) or {"confidence": None}
    name = f"{model.name} {model.version}" if model else "this model"
    return f"{'Is' if len(subjects) == 1 else 'Are'} the {enumerate_words(subjects)} of {name} real?"


def _overall(checks: list[ReportCheck]) -> Answer:
    if not checks:
        return Answer(standing="pending", headline="Nothing was asked.", findings=[])
    worst = min(checks, key=lambda check: _WORST_FIRST.index(check.answer.standing))
    unfinished = sum(check.state != RunState.SUCCEEDED for check in checks)
    findings = [f"{unfinished} of {len(checks)} checks have no numbers; this report is partial."] if unfinished else []
    return Answer(standing=worst.answer.standing, headline=worst.answer.headline, findings=findings)


def _check(
    session: Session,
    store: ArtifactStore,
    audit: AuditRow,
    row: CheckRow,
    classes: int | None,
    labels: list[str] | None,
) -> ReportCheck:
    narrative = narrative_of(row.kind)
    result = settled(row.kind, row.params, Result.model_validate(row.result)) if row.result else None
    error = StoredProblem.model_validate(row.error) if row.error else None
    seconds = (row.finished_at - row.started_at).total_seconds() if row.started_at and row.finished_at else None
    return ReportCheck(
        id=row.id,
        kind=row.kind,
        title=narrative.title(row.kind),
        question=narrative.question(row.params),
        state=RunState(row.state),
        progress=_progress(session, row),
        answer=narrative.answer(result, row.params, classes) if result else _no_answer(row, error),
        scale=narrative.scale(result, classes) if result else None,
        attacked=attacked_in_words(row.kind, row.params, result, samples=audit.samples, seed=audit.seed),
        params=_params(row),
        flags=sorted(result.flags, key=lambda flag: ("error", "warning", "info").index(flag.severity))
        if result
        else [],
        estimates=_estimates(row, result) if result else [],
        counts=result.counts if result else {},
        series=result.series if result else {},
        figures=[_figure(store, row.kind, name, digest) for name, digest in (row.figures or {}).items()],
        comparisons=comparisons_of(row.kind, result, labels) if result else [],
        error=error,
        seconds=seconds,
        meters=meters_of(repository.asked_of(session, row.id)),
        looks=result.looks if result else None,
        reused=Reused.model_validate(row.reused) if row.reused else None,
    )


def _progress(session: Session, row: CheckRow) -> str:
    if row.state in TERMINAL or row.stage is None:
        return str(row.state)
    done, total = repository.stage_progress(session, row)
    return f"{row.state}: stage {row.stage}, {done:,} of {total:,} examples"


def _no_answer(row: CheckRow, error: StoredProblem | None) -> Answer:
    if row.state == RunState.FAILED:
        reason = f" {error.title}: {error.detail}" if error else ""
        return Answer(standing="unproven", headline=f"Not shown: this check failed.{reason}", findings=[])
    if row.state == RunState.CANCELLED:
        return Answer(standing="unproven", headline="Not shown: this check was cancelled.", findings=[])
    return Answer(standing="pending", headline="Not known yet: this check has not ended.", findings=[])


def _params(row: CheckRow) -> list[ReportParameter]:
    """Return the parameters a check ran with, defaults worked out; as stored for a family this version lacks."""
    try:
        contract, given = params_contract(row.kind), as_meant(row.kind, row.params)
        fields, values = contract.model_fields, contract.model_validate(given).model_dump(mode="json")
    except (KeyError, ValidationError):
        contract, fields, values = None, {}, row.params
    return [
        ReportParameter(
            name=name,
            value=value,
            is_default=contract is not None and _left_out(contract, values, name) == value,
            description=(fields[name].description or "") if name in fields else "",
        )
        for name, value in values.items()
        if name != "kind"
    ]


def _left_out(contract: type[BaseModel], values: dict[str, Any], name: str) -> Any:
    """Return what a parameter would be had it not been given: a default may depend on the others."""
    try:
        params = contract.model_validate({key: value for key, value in values.items() if key != name})
    except ValidationError:
        return PydanticUndefined
    return params.model_dump(mode="json")[name]


def _estimates(row: CheckRow, result: Result) -> list[ReportEstimate]:
    estimates = []
    for name, estimate in result.estimates.items():
        metric = find_metric(row.kind, name)
        estimates.append(
            ReportEstimate(
                **estimate.model_dump(),
                name=f"{row.kind}.{name}",
                unit=metric.unit if metric else "",
                better=metric.better if metric else "neither",
                description=metric.description if metric else "",
                open_end=None if metric is None else _open_end(row, result, metric, name, estimate),
            )
        )
    return estimates


def _open_end(
    row: CheckRow, result: Result, metric: Metric, name: str, estimate: Estimate
) -> Literal["low", "high"] | None:
    reach = limits_of(metric, Measurement(split_name(name)[1], row.params, result))
    bad: dict[str, Literal["low", "high"]] = {"lower": "high", "higher": "low"}
    end = bad.get(metric.better)
    return end if end is not None and is_open(estimate, reach, end) else None


def find_metric(kind: str, name: str) -> Metric | None:
    """Return what a published number is, by its name and the keys of its qualifiers; None for one not listed."""
    base, qualifiers = split_name(name)
    keys = list(qualifiers)
    candidates = [metric for metric in metrics_of(kind) if metric.name == base]
    exact = [metric for metric in candidates if metric.qualifiers == tuple(keys)]
    # A number may carry a further qualifier than the table knows: the closest entry still says what it is.
    if exact or not candidates:
        return exact[0] if exact else None
    return max(candidates, key=lambda metric: len(set(metric.qualifiers) & set(keys)))


def _figure(store: ArtifactStore, kind: str, name: str, digest: Any) -> ReportFigure:
    try:
        svg = store.read_bytes(str(digest)).decode()
    except (ArtifactMissingError, ValueError):
        svg = None
    return ReportFigure(name=name, alt=narrative_of(kind).describe_figure(name), digest=str(digest), svg=svg)


def _referenced(session: Session, project_id: str, row: CheckRow) -> list[ReportSource]:
    try:
        params = params_contract(row.kind).model_validate(row.params)
    except (KeyError, ValidationError):
        return []
    sources = []
    for role, identifier in params.references().items():
        if identifier.startswith("mdl_"):
            model = repository.find_model(session, project_id, identifier)
            sources += [_model_source(role, model)] if model else []
        else:
            dataset = repository.find_dataset(session, project_id, identifier)
            sources += [_data_source(role, dataset)] if dataset else []
    return sources


def _model_source(role: str, row: ModelRow) -> ReportSource:
    architecture = row.manifest.get("architecture", {})
    facts = {"task": row.task, "architecture": str(architecture.get("kind", "unknown")), "size": _size(row.size_bytes)}
    if architecture.get("kind") in SERVED:
        read = architecture.get("outputs") or architecture.get("read", "")
        facts |= {"address": str(architecture.get("url", "unknown")), "outputs": str(read)}
        del facts["size"]
    if row.facts:
        if row.facts.get("parameters"):
            facts["parameters"] = f"{row.facts['parameters']:,}"
        facts["classes"] = str(row.facts.get("classes", ""))
    claimed = row.manifest.get("clean_accuracy")
    if claimed is not None:
        facts["accuracy its owner measured"] = f"{claimed:.4g}"
    return ReportSource(role=role, id=row.id, name=f"{row.name} {row.version}", digest=row.digest, facts=facts)


def _data_source(role: str, row: DatasetRow) -> ReportSource:
    facts = {
        "task": row.task,
        "split": row.split,
        "format": row.format,
        "examples": f"{row.facts.get('examples', 0):,}",
        "classes": str(row.facts.get("classes", "")),
        "size": _size(row.size_bytes),
    }
    if row.facts.get("mean_words"):
        facts["words in a text, on average"] = f"{row.facts['mean_words']:.1f}"
    return ReportSource(role=role, id=row.id, name=f"{row.name} {row.version}", digest=row.digest, facts=facts)


def _size(size_bytes: int) -> str:
    """Return a size for people.

    >>> _size(999), _size(2_500_000)
    ('999 bytes', '2.5 MB')
    """
    if size_bytes < 1000:
        return f"{size_bytes} bytes"
    for unit, power in (("GB", 9), ("MB", 6), ("kB", 3)):
        if size_bytes >= 10**power:
            return f"{size_bytes / 10**power:.1f} {unit}"
    raise AssertionError("unreachable: every size of 1000 bytes or more has a unit")


def _versions(model: ModelRow | None, workers: list[str]) -> dict[str, str]:
    try:
        own = version("seatrial")
    except PackageNotFoundError:
        own = "a checkout"
    versions = {"seatrial": own, "python of the API": platform.python_version()}
    if model is not None and model.facts:
        versions["device that checked the model"] = str(model.facts.get("device", "unknown"))
    if workers:
        versions["workers"] = ", ".join(workers)
    return versions
