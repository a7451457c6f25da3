"""Whether model, data and checks fit together, as far as rows can tell; workers look at the rest."""

from collections.abc import Sequence
from math import prod

from app.web.problems import InvalidRequestError
from seatrial.contracts.audits import AuditCreate
from seatrial.contracts.models import IMAGES, MULTI_LABEL, TAGGING
from seatrial.families import GRADIENT_FAMILIES, TASKS, CheckParams
from seatrial.families.low_level_attack.params import NOT_OF_TOKENS, LowLevelAttackParams
from seatrial.families.shared.defence_costs import is_module
from seatrial.families.shared.defence_params import Rmc, ShippedDefence
from seatrial.families.transductive_attack.params import TransductiveAttackParams
from seatrial.ingest.class_names import are_generic, are_strangers, moved
from seatrial.store.tables import DatasetRow, ModelRow


class TaskMismatchError(InvalidRequestError):
    """Model and data are for different things."""

    code = "task-mismatch"
    title = "Model and data do not fit together"


def check_data(model: ModelRow, dataset: DatasetRow) -> None:
    """Refuse a dataset for another task, with labels the model has not, or with images of another shape.

    Labels of texts with several, and tags, are compared by name where both sides have names.

    Raises:
        TaskMismatchError: Pointing at ``/dataset``.
    """
    if model.task != dataset.task:
        raise TaskMismatchError(f"The model does {model.task}, the dataset is for {dataset.task}.", pointer="/dataset")
    _check_labels(model, dataset, "/dataset")
    if model.task == IMAGES:
        _check_shape(model, dataset, "/dataset")
    if model.task in (MULTI_LABEL, TAGGING):
        _check_names(model, dataset, "/dataset")


def check_family(check: CheckParams, model: ModelRow, dataset: DatasetRow, samples: int, pointer: str) -> None:
    """Refuse a check whose family cannot audit the model, or that needs more examples than there are.

    Raises:
        TaskMismatchError: The family audits models of another task, or needs weights where there is an endpoint; or
            attackers are named that cannot be run on the model's task.
        InvalidRequestError: Examples set apart for validation are not there.
    """
    tasks = TASKS[check.kind]
    if model.task not in tasks:
        raise TaskMismatchError(
            f"{check.kind} audits models for {' or '.join(tasks)}; {model.id} does {model.task}.",
            pointer=f"{pointer}/kind",
        )
    if check.kind in GRADIENT_FAMILIES and model.format == "endpoint":
        raise TaskMismatchError(
            f"{check.kind} needs gradients, and so the model's weights; {model.id} is an endpoint.",
            pointer=f"{pointer}/kind",
        )
    if isinstance(check, LowLevelAttackParams):
        _check_attackers(check, model, pointer)
    examples, wanted = int(dataset.facts["examples"]), check.held_out()
    if samples + wanted > examples:
        most = examples - wanted
        remedy = f"ask for at most {most:,} samples, " if most >= 2 else ""
        raise InvalidRequestError(
            f"{dataset.id} has {examples:,} examples: with {samples:,} of them attacked, {examples - samples:,} are "
            f"left for the {wanted:,} validation_samples, which are never attacked. Lower validation_samples, "
            f"{remedy}or name a validation_dataset.",
            pointer=f"{pointer}/validation_samples",
        )


def check_further_data(model: ModelRow, dataset: DatasetRow, further: DatasetRow, pointer: str) -> None:
    """Refuse a further dataset that is for another task, or is the audited one.

    Images of outliers may have another shape, which workers bring to the model's; what a defence learns from may not:
    it would learn from other pictures than it answers.

    Raises:
        TaskMismatchError: It does not fit the model.
        InvalidRequestError: It is the audited dataset.
    """
    if further.task != model.task:
        raise TaskMismatchError(f"The model does {model.task}, {further.id} is for {further.task}.", pointer=pointer)
    is_learnt_from = pointer.endswith("/training_dataset")
    if model.task == IMAGES and not is_learnt_from:
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


def check_sizes(check: CheckParams, sizes: dict[str, int], pointer: str) -> None:
    """Refuse defences that learn from more examples than there are.

    Raises:
        InvalidRequestError: Pointing at the first such defence.
    """
    if not isinstance(check, TransductiveAttackParams):
        return
    there = sizes.get("training_dataset", 0)
    for position, defence in enumerate(check.defences):
        if isinstance(defence, ShippedDefence) and defence.least_training > there:
            why = ""
            if isinstance(defence, Rmc):
                why = f" to find {defence.neighbours:,} neighbours among them and their attacked copies"
            raise InvalidRequestError(
                f"{defence.name} needs {defence.least_training:,} training examples at least{why}, and "
                f"training_dataset has {there:,}.",
                pointer=f"{pointer}/defences/{position}",
            )


def check_memory(request: AuditCreate, dataset: DatasetRow, samples: int, most_bytes: int) -> None:
    """Refuse batches of images that a worker has no memory for.

    Raises:
        InvalidRequestError: Pointing at ``/batch_size``, or at the check whose defences see all examples at once.
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
    for position, check in enumerate(request.checks):
        if isinstance(check, TransductiveAttackParams) and samples * of_image > most_bytes:
            raise InvalidRequestError(
                f"Defences see all {samples:,} images of shape {shape} together, which take {samples * of_image:,} "
                f"bytes; a worker holds at most {most_bytes:,} (SEATRIAL_MAX_BATCH_BYTES): "
                f"{_at_most(most_bytes // of_image, 'samples')}.",
                pointer=f"/checks/{position}",
            )


def check_training_memory(further: DatasetRow, most_bytes: int, pointer: str) -> None:
    """Refuse examples to learn from that a worker cannot hold together.

    Raises:
        InvalidRequestError: Pointing at the dataset.
    """
    shape = further.facts.get("shape")
    examples = int(further.facts["examples"])
    if shape is not None and pointer.endswith("/training_dataset") and examples * prod(shape) * 4 > most_bytes:
        raise InvalidRequestError(
            f"{further.id} has {examples:,} images of shape {shape} (channels, height, width), which take "
            f"{examples * prod(shape) * 4:,} bytes together; a worker holds at most {most_bytes:,} "
            "(SEATRIAL_MAX_BATCH_BYTES): name fewer examples.",
            pointer=pointer,
        )


def _at_most(count: int, parameter: str) -> str:
    return f"ask for {parameter} of at most {count:,}" if count else "bring the images to a smaller size"


def check_attacks(check: CheckParams, pointer: str) -> None:
    """Refuse a defence none of the attacks asked for can be run on.

    Raises:
        InvalidRequestError: Pointing at the attacks.
    """
    if not isinstance(check, TransductiveAttackParams) or check.attacks != ["defence_autoattack"]:
        return
    never = [one.name for one in check.defences if not is_module(one.name, one.settings)]
    if never:
        raise InvalidRequestError(
            f"defence_autoattack cannot be run on {', '.join(never)}: it has a memory or adapts to the whole sample. "
            "Ask for fpa, gmsa_avg or gmsa_min as well.",
            pointer=f"{pointer}/attacks",
        )


def check_same_input(model: ModelRow, other: ModelRow, pointer: str) -> None:
    """Refuse a further model for another task, other images or other classes.

    Raises:
        TaskMismatchError: It does not fit the audited model.
    """
    if other.task != model.task:
        raise TaskMismatchError(f"The model does {model.task}, {other.id} is for {other.task}.", pointer=pointer)
    first, second = _input_shape(model), _input_shape(other)
    if first and second and first != second:
        raise TaskMismatchError(
            f"{model.id} takes images of shape {first} (channels, height, width), {other.id} takes {second}.",
            pointer=pointer,
        )
    classes, others = _classes(model), _classes(other)
    if classes and others and classes != others:
        raise TaskMismatchError(f"{model.id} has {classes} classes, {other.id} has {others}.", pointer=pointer)


def _check_attackers(check: LowLevelAttackParams, model: ModelRow, pointer: str) -> None:
    if model.task != TAGGING or check.attackers == "all":
        return
    left = [name for name in check.attackers if name not in NOT_OF_TOKENS]
    for place, name in enumerate(check.attackers):
        if name not in NOT_OF_TOKENS:
            continue
        remedy = "leave it out" if left else "name others, or `all`, which leaves it out"
        if check.combined and len(left) == 1:
            remedy += f", and name another beside {left[0]}, among which `combined` can draw"
        raise TaskMismatchError(
            f"{name} joins words, which leaves no tag for each token, and {model.id} does {model.task}: {remedy}.",
            pointer=f"{pointer}/attackers/{place}",
        )


def _classes(model: ModelRow) -> int | None:
    labels = model.manifest.get("labels")
    return len(labels) if labels else (model.facts or {}).get("classes")


def _check_labels(model: ModelRow, dataset: DatasetRow, pointer: str) -> None:
    labels = model.manifest.get("labels")
    counts = dataset.facts.get("label_counts") or {}
    largest = max((int(label) for label in counts), default=0)
    if labels and largest >= len(labels):
        raise TaskMismatchError(
            f"The dataset has label {largest}, the model has {len(labels)} classes: labels count from 0.",
            pointer=pointer,
        )


def _check_names(model: ModelRow, dataset: DatasetRow, pointer: str) -> None:
    labels = model.manifest.get("labels") or (model.facts or {}).get("labels") or []
    names = dataset.facts.get("labels") or []
    if are_strangers(names, labels) and not are_generic(labels) and not are_generic(names):
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


def _input_shape(model: ModelRow) -> list[int] | None:
    return (model.manifest.get("input") or {}).get("shape")
