"""Whether model, data and checks fit together, as far as rows can tell; workers look at the rest."""

from collections.abc import Sequence
from importlib.metadata import entry_points
from math import prod

from app.web.problems import InvalidRequestError
from seatrial.contracts.audits import AuditCreate
from seatrial.contracts.checks import CheckParams
from seatrial.contracts.endpoints import ENDPOINT
from seatrial.contracts.family import FamilyParams, FamilySpec, HeldOut, Situation
from seatrial.contracts.features import FeatureSpec
from seatrial.contracts.models import ARRAYS, IMAGES, MULTI_LABEL, TABLES, TAGGING
from seatrial.contracts.near_names import instead, nearest
from seatrial.contracts.registry import families, family
from seatrial.families.cost import Cost
from seatrial.ingest.class_names import are_generic, are_strangers, moved
from seatrial.installed import how_to_install, missing_packages
from seatrial.store.tables import DatasetRow, ModelRow


class TaskMismatchError(InvalidRequestError):
    """Model and data are for different things."""

    code = "task-mismatch"
    title = "Model and data do not fit together"


def check_data(model: ModelRow, dataset: DatasetRow) -> None:
    """Refuse a dataset for another task, with labels the model has not, or with images of another shape.

    Where both sides name their classes, those must be numbered alike. Labels of texts with several, and tags, must have
    a name in common.

    Raises:
        TaskMismatchError: Pointing at ``/dataset``.
    """
    if model.task != dataset.task:
        raise TaskMismatchError(f"The model does {model.task}, the dataset is for {dataset.task}.", pointer="/dataset")
    _check_labels(model, dataset, "/dataset")
    if model.task == IMAGES:
        _check_shape(model, dataset, "/dataset")
    if model.task == TABLES:
        _check_columns(model, dataset, "/dataset")
    _check_names(model, dataset, "/dataset")


class MissingPackagesError(InvalidRequestError):
    """Workers that share this installation could not run a check."""

    code = "packages-missing"
    title = "Packages are missing here"


def check_installed(check: FamilyParams, pointer: str) -> None:
    """Refuse a check whose packages or plug-ins are not installed here, where workers run what is installed here.

    An installation that could run no worker at all is an API whose workers have another.

    Raises:
        MissingPackagesError: With the command that installs them, or the names there are.
    """
    kind, extra = check.kind, family(check.kind).extra
    if missing_packages("worker"):
        return
    for place, named in check.plugins().items():
        known = [*named.shipped, *(point.name for point in entry_points(group=named.group))]
        # Another name may be one that only the workers' environment has, as when a stored request is asked again.
        if named.name not in known and nearest(named.name, known) is not None:
            raise MissingPackagesError(
                f"Nothing is registered as {named.name!r}{instead(named.name, known)}. A package brings others by an "
                f"entry point of the group {named.group}.",
                pointer=pointer + place,
            )
    if extra and (missing := missing_packages(extra)):
        raise MissingPackagesError(
            f"{kind} needs {' and '.join(missing)}, which this installation has not: {how_to_install(extra)}, and "
            "start the service again.",
            pointer=f"{pointer}/kind",
        )


def check_family(check: CheckParams, model: ModelRow, dataset: DatasetRow, samples: int, pointer: str) -> None:
    """Refuse a check whose family cannot audit the model, or that needs more examples than there are.

    Raises:
        TaskMismatchError: The family audits models of another task, or needs weights where there is an endpoint.
        InvalidRequestError: Examples set apart are not there.
    """
    spec = family(check.kind)
    if model.task not in spec.tasks:
        reason = spec.not_for.get(model.task)
        raise TaskMismatchError(
            f"{check.kind} audits models for {' or '.join(spec.tasks)}; {model.id} does {model.task}"
            f"{f': {reason}' if reason else ''}.",
            pointer=f"{pointer}/kind",
        )
    if spec.needs.gradients and model.format == ENDPOINT:
        raise TaskMismatchError(
            f"{check.kind} needs gradients, and so the model's weights; {model.id} is an endpoint. Upload the weights, "
            f"or an exported program{_others(model.task)}.",
            pointer=f"{pointer}/kind",
        )
    _check_held_out(spec, check.held_out(), dataset, samples, pointer)


def _others(task: str) -> str:
    """Return which families audit an endpoint of a task, to be named after what else may be done."""
    kinds = [kind for kind, spec in families().items() if task in spec.tasks and not spec.needs.gradients]
    return f"; of endpoints {' and '.join(kinds)} can be asked for" if kinds else ""


def query_budget(model: ModelRow) -> int | None:
    """Return how often a check may ask a model behind a URL, if its manifest limits that."""
    found: int | None = (model.manifest.get("architecture") or {}).get("query_budget")
    return found


def check_budget(model: ModelRow, costs: Sequence[Cost]) -> None:
    """Refuse a check of an image endpoint that may ask more than the manifest's budget of queries.

    Raises:
        InvalidRequestError: What is asked beyond it would be errored, and the check fail when all is spent.
    """
    budget = query_budget(model)
    if model.task != IMAGES or model.format != ENDPOINT or budget is None:
        return
    for position, cost in enumerate(costs):
        if cost.queries > budget:
            raise InvalidRequestError(
                f"{cost.kind} asks {model.id} up to {cost.queries:,} times; the query_budget of its manifest is "
                f"{budget:,} for one check. Ask for fewer samples, draws, steps or queries, or add the model with a "
                "larger budget.",
                pointer=f"/checks/{position}",
            )


def _check_held_out(spec: FamilySpec, wanted: int, dataset: DatasetRow, samples: int, pointer: str) -> None:
    examples = int(dataset.facts["examples"])
    if samples + wanted <= examples:
        return
    most = examples - wanted
    remedy = f"ask for at most {most:,} samples, " if most >= 2 else ""
    remedy += f"bring at least {samples + wanted:,} examples, "
    left = (
        f"Dataset {dataset.name} {dataset.version} has {examples:,} examples: with {samples:,} of them attacked, "
        f"{examples - samples:,} are left"
    )
    match spec.needs.held_out:
        case HeldOut(number, other):
            raise InvalidRequestError(
                f"{left} for the {wanted:,} {number}, which are never attacked. Lower {number}, {remedy}or name a "
                f"{other}.",
                pointer=f"{pointer}/{number}",
            )
    raise InvalidRequestError(
        f"{left} for the {wanted:,} that {spec.kind} sets apart: {remedy}or name a larger dataset.", pointer=pointer
    )


def check_misfits(check: CheckParams, situation: Situation, pointer: str) -> None:
    """Refuse what the check's family says cannot be run.

    Raises:
        TaskMismatchError: Model and check are for different things.
        InvalidRequestError: The parameters ask for what cannot be done in this situation.
    """
    for misfit in family(check.kind).misfits(check, situation):
        refused = TaskMismatchError if misfit.is_mismatch else InvalidRequestError
        raise refused(misfit.detail, pointer=f"{pointer}/{misfit.parameter}".removesuffix("/"))


def check_further_data(
    model: ModelRow, dataset: DatasetRow, further: DatasetRow, pointer: str, *, is_learnt_from: bool
) -> None:
    """Refuse a further dataset that is for another task, or is the audited one.

    Images of outliers may have another shape, which workers bring to the model's; what a defence learns from may not:
    it would learn from other pictures than it answers.

    Args:
        model: The audited one.
        dataset: The audited one.
        further: The other dataset.
        pointer: To the parameter that names it.
        is_learnt_from: Whether something learns from it.

    Raises:
        TaskMismatchError: It does not fit the model.
        InvalidRequestError: It is the audited dataset.
    """
    if further.task != model.task:
        raise TaskMismatchError(f"The model does {model.task}, {further.id} is for {further.task}.", pointer=pointer)
    if model.task == TABLES:
        _check_columns(model, further, pointer)
    if model.task in ARRAYS and not is_learnt_from:
        return
    _check_labels(model, further, pointer)
    if is_learnt_from:
        _check_shape(model, further, pointer)
    if further.digest == dataset.digest:
        remedy = (
            "a defence that has learnt from its test points shows nothing; name examples of another split."
            if is_learnt_from
            else "leave this out to have validation examples set apart from it."
        )
        raise InvalidRequestError(f"{further.id} is the dataset that is attacked: {remedy}", pointer=pointer)


def check_memory(request: AuditCreate, dataset: DatasetRow, samples: int, most_bytes: int) -> None:
    """Refuse batches of images that a worker has no memory for.

    Raises:
        InvalidRequestError: Pointing at ``/batch_size``.
    """
    shape = dataset.facts.get("shape")
    if shape is None:
        return
    of_image = prod(shape) * 4
    if min(request.batch_size, samples) * of_image > most_bytes:
        raise InvalidRequestError(
            f"{request.batch_size:,} images of shape {shape} (channels, height, width) take "
            f"{request.batch_size * of_image:,} bytes, a worker holds at most {most_bytes:,} at once "
            f"(SEATRIAL_MAX_BATCH_BYTES): {_at_most(most_bytes // of_image, 'batch_size')}.",
            pointer="/batch_size",
        )


def check_training_memory(further: DatasetRow, most_bytes: int, pointer: str) -> None:
    """Refuse examples to learn from that a worker cannot hold together.

    Raises:
        InvalidRequestError: Pointing at the dataset.
    """
    shape = further.facts.get("shape")
    examples = int(further.facts["examples"])
    if shape is not None and examples * prod(shape) * 4 > most_bytes:
        raise InvalidRequestError(
            f"{further.id} has {examples:,} images of shape {shape} (channels, height, width), which take "
            f"{examples * prod(shape) * 4:,} bytes together; a worker holds at most {most_bytes:,} "
            "(SEATRIAL_MAX_BATCH_BYTES): name fewer examples.",
            pointer=pointer,
        )


def _at_most(count: int, parameter: str) -> str:
    return f"ask for {parameter} of at most {count:,}" if count else "bring the images to a smaller size"


def check_same_input(model: ModelRow, other: ModelRow, pointer: str) -> None:
    """Refuse a further model for another task, other images or other classes.

    Raises:
        TaskMismatchError: It does not fit the audited model.
    """
    if other.task != model.task:
        raise TaskMismatchError(f"The model does {model.task}, {other.id} is for {other.task}.", pointer=pointer)
    ours, theirs = ((one.manifest.get("features") or {}) for one in (model, other))
    if any(ours.get(name) != theirs.get(name) for name in ("columns", "mean", "std")):
        raise TaskMismatchError(
            f"{other.id} takes other columns than {model.id}, or standardises them otherwise: what is a standard "
            "deviation to one is none to the other.",
            pointer=pointer,
        )
    first, second = _input_shape(model), _input_shape(other)
    if first and second and first != second:
        raise TaskMismatchError(
            f"{model.id} takes images of shape {first} (channels, height, width), {other.id} takes {second}.",
            pointer=pointer,
        )
    classes, others = _classes(model), _classes(other)
    if classes and others and classes != others:
        raise TaskMismatchError(f"{model.id} has {classes} classes, {other.id} has {others}.", pointer=pointer)


def _classes(model: ModelRow) -> int | None:
    labels = model.manifest.get("labels")
    return len(labels) if labels else (model.facts or {}).get("classes")


def _check_labels(model: ModelRow, dataset: DatasetRow, pointer: str) -> None:
    classes = _classes(model)
    counts = dataset.facts.get("label_counts") or {}
    largest = max((int(label) for label in counts), default=0)
    if classes and largest >= classes:
        raise TaskMismatchError(
            f"The dataset has label {largest}, the model has {classes} classes: labels count from 0.",
            pointer=pointer,
        )


def _check_names(model: ModelRow, dataset: DatasetRow, pointer: str) -> None:
    labels = model.manifest.get("labels") or (model.facts or {}).get("labels") or []
    names = dataset.facts.get("labels") or []
    if (
        model.task in (MULTI_LABEL, TAGGING)
        and are_strangers(names, labels)
        and not are_generic(labels)
        and not are_generic(names)
    ):
        raise TaskMismatchError(
            f"No label of the dataset ({_some(names)}) is one of the model's ({_some(labels)}): every score would be "
            "held against another label. Name a dataset with the model's labels; or, where they are other names of "
            "the same, upload the model with `labels` of its manifest as the dataset has them, in the order of its "
            "scores.",
            pointer=pointer,
        )
    for number, name, other in moved(names, labels):
        raise TaskMismatchError(
            f"Label {number} is {name!r} in the dataset, but in the model {name!r} is {other}: every score would be "
            "wrong. Give `labels` of the dataset's manifest in the model's order.",
            pointer=pointer,
        )


def _some(names: Sequence[str]) -> str:
    return ", ".join(map(repr, names[:3])) + (f" and {len(names) - 3:,} more" if len(names) > 3 else "")


def _check_shape(model: ModelRow, dataset: DatasetRow, pointer: str) -> None:
    wanted = _input_shape(model)
    shape = dataset.facts.get("shape")
    if wanted and shape is None:
        raise TaskMismatchError(
            f"The model takes images of shape {wanted} (channels, height, width), the images of {dataset.id} differ in "
            "size from each other: bring them to that size before uploading.",
            pointer=pointer,
        )
    if wanted and wanted != shape:
        raise TaskMismatchError(
            f"The model takes images of shape {wanted} (channels, height, width), {dataset.id} has {shape}.",
            pointer=pointer,
        )


def _check_columns(model: ModelRow, dataset: DatasetRow, pointer: str) -> None:
    """Refuse a table without the model's columns, or with values outside of the model's ranges."""
    features, facts = FeatureSpec.model_validate(model.manifest["features"]), dataset.facts
    wanted, names = features.columns, facts.get("features")
    has = len(facts["smallest"])
    if names is None and has != len(wanted):
        raise TaskMismatchError(
            f"The model takes {len(wanted):,} columns, {dataset.id} has {has:,} and names none.", pointer=pointer
        )
    if missing := [name for name in wanted if names is not None and name not in names]:
        raise TaskMismatchError(
            f"The model takes the column {missing[0]!r}, which {dataset.id} has not; it has: {_some(names or [])}.",
            pointer=pointer,
        )
    places = range(has) if names is None else [names.index(name) for name in wanted]
    ends = ([float(facts[end][at]) for at in places] for end in ("smallest", "largest"))
    if outside := features.outside(*ends):
        raise TaskMismatchError(f"In {dataset.id} {outside}.", pointer=pointer)


def _input_shape(model: ModelRow) -> list[int] | None:
    # A Hugging Face folder may say it in place of the manifest; a worker has found out.
    return (model.manifest.get("input") or {}).get("shape") or (model.facts or {}).get("input_shape")
