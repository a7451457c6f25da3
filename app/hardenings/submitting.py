"""From a request to a row: everything named must be there, fit together, and be trainable before anything is queued."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from sqlalchemy import select
from sqlalchemy.orm import Session

from app.audits.compatibility import TaskMismatchError, check_data
from app.audits.submitting import Plan, UnknownReferenceError
from app.audits.submitting import plan as plan_audit
from app.datasets import repository as datasets
from app.hardenings import repository
from app.hardenings.costs import price
from app.policies.service import check_name
from app.web.bodies import parse_json
from app.web.identifiers import no_such
from app.web.origins import origin
from app.web.problems import ConflictError, InvalidRequestError, ProblemError
from app.web.quotas import check_submission, why_refused
from seatrial.contracts.hardenings import HardeningCreate, HardeningEstimate
from seatrial.contracts.near_names import instead
from seatrial.contracts.training import MethodParams, MethodSpec, broken_methods, held_out_of, methods
from seatrial.families.cost import total_seconds
from seatrial.hardening.params import TrainingParams
from seatrial.store.claiming import join_queue
from seatrial.store.hardening import record_hardening
from seatrial.store.ids import new_id
from seatrial.store.settings import Settings
from seatrial.store.tables import DatasetRow, HardeningRow, ModelRow

LONGEST_VERSION = 50


class NotTrainableError(InvalidRequestError):
    """The model has no weights that can be trained and written back."""

    code = "not-trainable"
    title = "The model cannot be trained"


class TrainingOverlapsAuditError(InvalidRequestError):
    """What is trained on is what is audited."""

    code = "training-overlaps-audit"
    title = "The training data hold examples of the audit"


@dataclass(frozen=True)
class Wanted:
    """A request whose names have been looked up.

    Attributes:
        request: What was asked.
        spec: Its method.
        params: Parameters of that.
        audit: The audit of the model as it is.
        dataset: Trained on.
        validation: Judged on; None for a part of ``dataset``.
        version: Of the model that will be made.
    """

    request: HardeningCreate
    spec: MethodSpec
    params: MethodParams
    audit: Plan
    dataset: DatasetRow
    validation: DatasetRow | None
    version: str

    @property
    def model(self) -> ModelRow:
        """What is hardened."""
        return self.audit.model

    @property
    def sizes(self) -> tuple[int, int]:
        """Examples trained on, and judged on."""
        examples = int(self.dataset.facts["examples"])
        if self.validation is not None:
            return (examples if self.spec.trains else 0), int(self.validation.facts["examples"])
        if not self.spec.trains:
            return 0, examples
        held = held_out_of(examples)
        return examples - held, held


def look_up(session: Session, project_id: str, request: HardeningCreate, limits: Settings) -> Wanted:
    """Look up what a request names, and whether it can be done.

    Raises:
        InvalidRequestError: Something is not there or does not fit; ``errors`` points at it.
        ConflictError: The version is another model's already.
        StoredProblemError: The model was rejected.
    """
    spec = methods().get(request.method)
    if spec is None:
        why = broken_methods().get(request.method)
        told = f": {why}; there are {', '.join(methods())}" if why else instead(request.method, methods())
        raise InvalidRequestError(f"There is no method {request.method!r}{told}.", pointer="/method")
    named = {**request.params, "method": request.method}
    params = parse_json(json.dumps(named), spec.params, root="/params")
    with _inside("/audit"):
        audited = plan_audit(session, project_id, request.audit.of(request.model, request.seed), limits)
    model = audited.model
    _check_trainable(spec, params, model)
    dataset = _data(session, project_id, model, request.dataset, "/dataset")
    validation = None
    if request.validation_dataset is not None:
        validation = _data(session, project_id, model, request.validation_dataset, "/validation_dataset")
    for row, pointer in ((dataset, "/dataset"), (validation, "/validation_dataset")):
        if row is not None and row.digest == audited.dataset.digest:
            raise TrainingOverlapsAuditError(
                f"{row.id} is what the audit draws from ({audited.dataset.id} has the same bytes): name a split the "
                "audit does not draw from.",
                pointer=pointer,
            )
    if request.promote is not None:
        check_name(request.promote, "aud", pointer="/promote")
        if request.audit.policy is None:
            raise InvalidRequestError(
                "Without a policy nothing passes, and nothing is promoted: name one.", pointer="/audit/policy"
            )
    version = _version(session, project_id, model, request)
    wanted = Wanted(request, spec, params, audited, dataset, validation, version)
    if spec.trains and wanted.sizes[0] < 1:
        raise InvalidRequestError("One example cannot be both trained and judged on.", pointer="/dataset")
    return wanted


def _check_trainable(spec: MethodSpec, params: MethodParams, model: ModelRow) -> None:
    kind = str((model.manifest.get("architecture") or {}).get("kind"))
    if model.task not in spec.tasks:
        raise TaskMismatchError(
            f"{spec.slug} hardens models for {' or '.join(spec.tasks)}; {model.id} does {model.task}.",
            pointer="/method",
        )
    if not spec.takes(model.format):
        raise NotTrainableError(
            f"{model.id} is of architecture {kind}, whose weights "
            + ("are not here" if kind != "onnx" else "cannot be written back into its file")
            + ": upload safetensors, a Hugging Face folder or an exported program (.pt2), or recalibrate an onnx file.",
            pointer="/model",
        )
    if (
        isinstance(params, TrainingParams)
        and params.precision == "bfloat16"
        and (model.facts or {}).get("device") == "cpu"
    ):
        raise InvalidRequestError(
            "bfloat16 is for GPUs, the workers have none: use float32.", pointer="/params/precision"
        )


def _data(session: Session, project_id: str, model: ModelRow, dataset_id: str, pointer: str) -> DatasetRow:
    row = datasets.find(session, project_id, dataset_id) if "\0" not in dataset_id else None
    if row is None:
        raise UnknownReferenceError(no_such("dataset", dataset_id), pointer=pointer)
    with _at(pointer):
        check_data(model, row)
    return row


def _version(session: Session, project_id: str, model: ModelRow, request: HardeningCreate) -> str:
    taken = repository.taken_versions(session, project_id, model.name)
    # Two that make the same version would both be trained, and the second be told so afterwards.
    promised = repository.promised_versions(session, project_id, model.name)
    if request.version is not None:
        if request.version in taken | promised:
            what = "is another model already" if request.version in taken else "is being made by another hardening"
            raise ConflictError(
                f"{model.name} version {request.version} {what}: give this one another version.", pointer="/version"
            )
        return request.version
    number = 1
    while (version := _numbered(model.version, request.method, number)) in taken | promised:
        number += 1
    return version


def _numbered(version: str, method: str, number: int) -> str:
    """Return a version that tells what it came from.

    >>> _numbered("3", "pgd_k", 2), len(_numbered("3" * 50, "pgd_k", 1))
    ('3+pgd_k.2', 50)
    """
    end = f"+{method[:30]}.{number}"
    return version[: LONGEST_VERSION - len(end)] + end


def why_not(session: Session, project_id: str, wanted: Wanted) -> str | None:
    """Return why a hardening would be refused if it were added now; None where it would not."""
    audit_s = total_seconds(wanted.audit.costs)
    return why_refused(session, project_id, estimate(wanted).seconds, work="training", audit_s=audit_s)


def estimate(wanted: Wanted, *, refused: str | None = None) -> HardeningEstimate:
    """Return what a hardening would cost; ``refused``: what :func:`why_not` says of it."""
    one = total_seconds(wanted.audit.costs)
    audit_seconds = None if one is None else 2 * one
    told = price(wanted.params, wanted.model, *wanted.sizes, wanted.dataset.facts, audit_seconds=audit_seconds)
    return told.model_copy(update={"refused": refused})


def add_hardening(session: Session, project_id: str, wanted: Wanted) -> str:
    """Store a hardening and its first event; return its id.

    Raises:
        ConflictError: Another hardening has taken its version, or its model was deleted, since it was looked up.
        QuotaError: It is more than the project may use.
        CostUnknownError: Its model has not been checked, and costs are limited.
    """
    request, model = wanted.request, wanted.model
    held = select(ModelRow.id).where(ModelRow.id == model.id).with_for_update(key_share=True, of=ModelRow)
    if session.scalar(held) is None:
        raise ConflictError(f"{model.id} was deleted meanwhile.", pointer="/model")
    seconds = estimate(wanted).seconds
    check_submission(session, project_id, seconds, work="training", audit_s=total_seconds(wanted.audit.costs))
    spec = request.model_dump(mode="json")
    version = _version(session, project_id, model, request)
    spec |= {"version": version, "params": wanted.params.model_dump(mode="json", exclude={"method"})}
    policy = wanted.audit.policy
    # Whoever adds a version of a policy before the audits end changes nothing about them.
    if policy is not None and policy.source.id is not None:
        spec["audit"]["policy"] = policy.source.id
    row = HardeningRow(
        id=new_id("hrd"),
        project_id=project_id,
        model_id=wanted.model.id,
        dataset_id=wanted.dataset.id,
        validation_id=None if wanted.validation is None else wanted.validation.id,
        audited_id=wanted.audit.dataset.id,
        method=request.method,
        params=wanted.params.model_dump(mode="json"),
        seed=request.seed,
        spec=spec,
        estimated_s=seconds,
        **origin(),
    )
    join_queue(session, project_id)
    session.add(row)
    session.flush()
    record_hardening(session, row.id, "hardening", {"state": "queued"})
    return row.id


@contextmanager
def _inside(place: str) -> Iterator[None]:
    """Let what is wrong with the audit point into the request: its model is that of the hardening."""
    try:
        yield
    except ProblemError as error:
        error.errors = [
            one if one.pointer == "/model" else one.model_copy(update={"pointer": f"{place}{one.pointer}"})
            for one in error.errors or ()
        ] or None
        raise


@contextmanager
def _at(pointer: str) -> Iterator[None]:
    try:
        yield
    except ProblemError as error:
        error.errors = [one.model_copy(update={"pointer": pointer}) for one in error.errors or ()] or None
        raise
