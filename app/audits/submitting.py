"""From a request to rows: everything named must be there and fit together before anything is queued."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from sqlalchemy import select
from sqlalchemy.orm import Session

from app.audits.compatibility import (
    check_budget,
    check_data,
    check_family,
    check_further_data,
    check_installed,
    check_memory,
    check_misfits,
    check_same_input,
    check_training_memory,
    query_budget,
)
from app.audits.specifications import stored_spec
from app.audits.timing import range_of, spreads
from app.datasets import repository as datasets
from app.models import repository as models
from app.policies.baselines import check_baseline, not_promoted
from app.policies.judged import not_about
from app.policies.service import Chosen, choose_policy, parsed
from app.web.identifiers import no_such
from app.web.origins import origin
from app.web.problems import ConflictError, InvalidRequestError, StoredProblemError
from app.web.quotas import check_submission, why_refused
from seatrial.contracts.audits import MOST_SAMPLES, AuditCreate, AuditEstimate, Reused
from seatrial.contracts.endpoints import ENDPOINT
from seatrial.contracts.family import FamilyParams, Situation
from seatrial.contracts.passes import passes_in
from seatrial.contracts.problems import StoredProblem
from seatrial.contracts.registry import family
from seatrial.contracts.states import ModelState
from seatrial.families.cost import Cost, cost_of, gives_gradients, total_seconds
from seatrial.families.timing import Spread
from seatrial.statistics.looks import planned_sizes
from seatrial.store.claiming import join_queue
from seatrial.store.code_pins import living_codes
from seatrial.store.events import record_event
from seatrial.store.ids import new_id
from seatrial.store.reuse import asked_digest, offered
from seatrial.store.settings import Settings
from seatrial.store.tables import AuditRow, CheckRow, DatasetRow, ModelRow

SAMPLES = 500
"""Examples drawn where nobody says how many, if the dataset holds as many."""


class UnknownReferenceError(InvalidRequestError):
    """The request names something this project does not have."""

    code = "unknown-reference"
    title = "The request names something that does not exist"


@dataclass(frozen=True)
class Plan:
    """A request whose names have been looked up.

    Attributes:
        request: What was asked, with the number of examples where nobody gave one.
        samples: That number.
        model: The model audited.
        dataset: The dataset it is audited on.
        further: What else the checks name, by JSON pointer.
        costs: What each check costs.
        policy: What it will be judged by.
        least: What each check costs where its first look ends it; that of all examples where it is not looked at.
        asked: What the records of each check follow from; see :mod:`seatrial.store.reuse`.
        reused: The check whose records each may take over; None where it is to be measured.
        spreads: Between which multiples of its estimate a check of each family should end.
        notes: What to know before it is queued.
    """

    request: AuditCreate
    samples: int
    model: ModelRow
    dataset: DatasetRow
    further: dict[str, ModelRow | DatasetRow]
    costs: list[Cost]
    policy: Chosen | None
    least: list[Cost]
    asked: list[str | None]
    reused: list[Reused | None]
    spreads: dict[str, Spread]
    notes: list[str]

    @property
    def examples(self) -> int:
        """Examples that will be audited."""
        return min(self.samples, int(self.dataset.facts["examples"]))


def plan(session: Session, project_id: str, request: AuditCreate, limits: Settings) -> Plan:
    """Look up what a request names, and whether a worker has memory for it.

    Raises:
        InvalidRequestError: Something is not there or does not fit; ``errors`` points at it.
        StoredProblemError: A model was rejected.
    """
    model = _model(session, project_id, request.model, "/model")
    dataset = _dataset(session, project_id, request.dataset, "/dataset")
    check_data(model, dataset)
    if request.salt is not None and model.format != ENDPOINT:
        raise InvalidRequestError(
            f"Only audits of models behind a URL have one; {model.id} is here, and everything follows from the seed.",
            pointer="/salt",
        )
    policy = _policy(session, project_id, request, model.task)
    further: dict[str, ModelRow | DatasetRow] = {}
    costs: list[Cost] = []
    least: list[Cost] = []
    there = int(dataset.facts["examples"])
    asked_for = request.samples
    drawn = asked_for or samples_for(request.checks, there)
    request = request.model_copy(update={"samples": drawn})
    samples = min(drawn, there)
    check_memory(request, dataset, samples, limits.max_batch_bytes)
    for position, check in enumerate(request.checks):
        check_family(check, model, dataset, samples, f"/checks/{position}")
        if not limits.is_distributed:
            check_installed(check, f"/checks/{position}")
        sizes = {}
        for parameter in check.references():
            pointer = f"/checks/{position}/{parameter}"
            row = _referred(session, project_id, check, parameter, (model, dataset), limits.max_batch_bytes, pointer)
            if isinstance(row, DatasetRow):
                sizes[parameter] = int(row.facts["examples"])
            further[pointer] = row
        situation = Situation(
            *(model.id, model.task, dataset.facts.get("shape"), samples, sizes),
            most_bytes=limits.max_batch_bytes,
            has_gradients=model.format != ENDPOINT,
            passes=passes_in(model.manifest.get("architecture") or {}),
        )
        check_misfits(check, situation, f"/checks/{position}")
        lengths = {name: dataset.facts.get(name) for name in ("mean_words", "word_means")}
        by_gradients = gives_gradients(model.format, model.task)
        for of, examples in ((costs, samples), (least, looks_of(check, request, samples)[0])):
            of.append(
                cost_of(
                    check,
                    examples,
                    sizes,
                    model.facts,
                    has_gradients=by_gradients,
                    batch_size=request.batch_size,
                    **lengths,
                )
            )
    check_budget(model, costs)
    asked = [_asked(request, position, model, dataset, further, policy) for position in range(len(request.checks))]
    reused: list[Reused | None] = [None] * len(asked)
    if request.reuse:
        codes = living_codes(session)
        found = [offered(session, project_id, one, codes=codes) for one in asked]
        reused = [one[0] if one else None for one in found]
    of_kinds = spreads(session, project_id, [check.kind for check in request.checks])
    notes = not_promoted(session, project_id, request.baseline, model.name)
    notes += [] if policy is None else not_about(parsed(policy), request.checks)
    if asked_for is not None and there < asked_for < MOST_SAMPLES:
        notes.append(f"{dataset.name} has {there:,} examples: all are audited, where {asked_for:,} were asked for.")
    return Plan(
        request=request,
        samples=drawn,
        model=model,
        dataset=dataset,
        further=further,
        costs=costs,
        policy=policy,
        least=least,
        asked=asked,
        reused=reused,
        spreads=of_kinds,
        notes=notes,
    )


def _referred(
    session: Session,
    project_id: str,
    check: FamilyParams,
    parameter: str,
    audited: tuple[ModelRow, DatasetRow],
    most_bytes: int,
    pointer: str,
) -> ModelRow | DatasetRow:
    """Return the model or the dataset that a parameter of a check names, if it fits those that are audited."""
    (model, dataset), named = audited, check.references()[parameter]
    if named.startswith("mdl_"):
        if named == model.id:
            raise InvalidRequestError(
                f"{parameter} must name another model than the one audited, {model.id}.", pointer=pointer
            )
        other = _model(session, project_id, named, pointer)
        check_same_input(model, other, pointer)
        return other
    row = _dataset(session, project_id, named, pointer)
    is_learnt_from = parameter in family(check.kind).needs.training
    check_further_data(model, dataset, row, pointer, is_learnt_from=is_learnt_from)
    if is_learnt_from:
        check_training_memory(row, most_bytes, pointer)
    return row


def _asked(
    request: AuditCreate,
    position: int,
    model: ModelRow,
    dataset: DatasetRow,
    further: dict[str, ModelRow | DatasetRow],
    policy: Chosen | None,
) -> str | None:
    """Return a digest of what the records of a check follow from."""
    check = request.checks[position]
    named = {parameter: further[f"/checks/{position}/{parameter}"] for parameter in check.references()}
    deciding = None
    if request.stop is not None and policy is not None:
        kinds = [one.kind for one in request.checks]
        deciding = [request.stop, policy.source.digest, request.baseline, position, kinds]
    return asked_digest(check, request.model_dump(), {"model": model, "dataset": dataset, **named}, deciding)


def samples_for(checks: Iterable[FamilyParams], examples: int) -> int:
    """Return how many examples are drawn where nobody says, beside those of the dataset that checks set apart.

    >>> samples_for([], 10_000)
    500
    """
    left = examples - max((check.held_out() for check in checks), default=0)
    # Where too few are left, what is refused is the number to be set apart, not one that nobody asked for.
    return min(SAMPLES, left) if left >= 2 else SAMPLES


def looks_of(check: FamilyParams, request: AuditCreate, samples: int) -> list[int]:
    """Return the examples at each look of a check; all of them alone where it is measured as a whole."""
    if request.stop is None:
        return [samples]
    return planned_sizes(family(check.kind).stopping, check, samples, request.batch_size)


def _model(session: Session, project_id: str, model_id: str, pointer: str) -> ModelRow:
    row = models.find(session, project_id, model_id) if "\0" not in model_id else None
    if row is None:
        raise UnknownReferenceError(no_such("model", model_id), pointer=pointer)
    if row.state == ModelState.REJECTED and row.problem is not None:
        problem = StoredProblem.model_validate(row.problem)
        raise StoredProblemError(
            problem.model_copy(update={"detail": f"Model {model_id} was rejected: {problem.detail}"}), pointer=pointer
        )
    return row


def _dataset(session: Session, project_id: str, dataset_id: str, pointer: str) -> DatasetRow:
    row = datasets.find(session, project_id, dataset_id) if "\0" not in dataset_id else None
    if row is None:
        raise UnknownReferenceError(no_such("dataset", dataset_id), pointer=pointer)
    return row


def _policy(session: Session, project_id: str, request: AuditCreate, task: str) -> Chosen | None:
    if request.policy is None:
        if request.baseline is not None:
            raise InvalidRequestError(
                "Without a policy nothing is compared with a baseline: name a policy as well.", pointer="/baseline"
            )
        return None
    chosen = choose_policy(session, project_id, request.policy)
    parsed(chosen)
    if request.baseline is not None:
        check_baseline(session, project_id, request.baseline, task)
    return chosen


def why_not(session: Session, project_id: str, planned: Plan) -> str | None:
    """Return why an audit would be refused if it were added now; None where it would not."""
    return why_refused(session, project_id, total_seconds(planned.costs))


def estimate(planned: Plan, *, refused: str | None = None) -> AuditEstimate:
    """Return what an audit would cost; ``refused``: what :func:`why_not` says of it."""
    costs, least = _unmeasured(planned.costs, planned), _unmeasured(planned.least, planned)
    # Where it stops when it is decided, it may do so at its first look.
    low, high = (range_of(of, planned.spreads) for of in (costs if planned.request.stop is None else least, costs))
    return AuditEstimate(
        examples=planned.examples,
        forward_passes=sum(cost.forward for cost in costs),
        backward_passes=sum(cost.backward for cost in costs),
        queries=sum(cost.queries for cost in costs),
        seconds=total_seconds(costs),
        refused=refused,
        seconds_low=None if low is None else round(low[0], 1),
        seconds_high=None if high is None else round(high[1], 1),
        least_seconds=None if planned.request.stop is None else total_seconds(least),
        checks=[
            {
                "kind": cost.kind,
                "forward_passes": cost.forward,
                "backward_passes": cost.backward,
                "queries": cost.queries,
                "seconds": cost.seconds,
                "memory_bytes": cost.memory_bytes,
                **_stops(check, planned),
                **({"reused": reused and reused.model_dump(mode="json")} if planned.request.reuse else {}),
            }
            for check, cost, reused in zip(planned.request.checks, costs, planned.reused, strict=True)
        ],
        memory_bytes=_most([cost.memory_bytes for cost in costs]),
        query_budget=query_budget(planned.model),
        notes=planned.notes,
    )


def _most(numbers: list[int | None]) -> int | None:
    """Return the largest; None where one is not known."""
    known = [number for number in numbers if number is not None]
    return max(known) if len(known) == len(numbers) else None


def _unmeasured(costs: list[Cost], planned: Plan) -> list[Cost]:
    """Return costs without the passes of checks whose records are there."""
    return [
        cost if one is None else Cost(cost.kind, forward=0, backward=0, queries=0, seconds=0.0, memory_bytes=0)
        for cost, one in zip(costs, planned.reused, strict=True)
    ]


def _stops(check: FamilyParams, planned: Plan) -> dict[str, Any]:
    """Return when a check may stop, or why it does not; nothing where the audit does not ask."""
    if planned.request.stop is None:
        return {}
    whole = family(check.kind).stopping.whole(check)
    return {"whole": whole} if whole else {"looks": looks_of(check, planned.request, planned.examples)}


def add_audit(session: Session, project_id: str, planned: Plan) -> str:
    """Store the audit, its checks and its first event; return its id.

    Raises:
        ConflictError: Something it names was deleted meanwhile.
        QuotaError: It is more than the project may use.
    """
    _hold(session, planned)
    # What may have to be measured after all: a file may turn out damaged.
    check_submission(session, project_id, total_seconds(planned.costs))
    request, costs = planned.request, _unmeasured(planned.costs, planned)
    spec, digest = stored_spec(planned)
    audit = AuditRow(
        id=new_id("aud"),
        project_id=project_id,
        model_id=planned.model.id,
        dataset_id=planned.dataset.id,
        seed=request.seed,
        samples=planned.samples,
        priority=request.priority,
        spec=spec,
        spec_digest=digest,
        policy=planned.policy.stored() if planned.policy is not None else None,
        baseline=request.baseline,
        estimated_s=total_seconds(costs),
        **origin(),
    )
    join_queue(session, project_id)
    session.add(audit)
    session.flush()
    for ordinal, (check, cost, asked) in enumerate(zip(request.checks, costs, planned.asked, strict=True)):
        session.add(
            CheckRow(
                id=new_id("chk"),
                audit_id=audit.id,
                ordinal=ordinal,
                kind=check.kind,
                params=check.model_dump(mode="json"),
                estimated_s=cost.seconds,
                asked=asked,
                spread_low=planned.spreads[check.kind].low,
                spread_high=planned.spreads[check.kind].high,
            )
        )
    session.flush()
    record_event(session, audit.id, "audit", {"state": "queued"})
    return audit.id


def _hold(session: Session, planned: Plan) -> None:
    """Hold what the audit names against its deletion, until the audit is there to be found."""
    for row in (planned.model, planned.dataset, *planned.further.values()):
        table = type(row)
        held = select(table.id).where(table.id == row.id).with_for_update(read=True, key_share=True, of=table)
        if session.scalar(held) is None:
            raise ConflictError(f"{row.id} was deleted meanwhile.")
