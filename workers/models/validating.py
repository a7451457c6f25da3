"""What models of any input are validated by: the same doubts, refusals and numbers for images and for texts."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from seatrial.contracts.estimates import Estimate, Flag
from seatrial.contracts.model_facts import ModelFacts
from seatrial.ingest.class_names import moved
from seatrial.statistics.exact import clopper_pearson
from workers.errors import PreflightError, TargetError

# Two runs of one batch on a GPU may pick different kernels; more than this is the model's own randomness.
SUM_TOLERANCE = 1e-3
"""Probabilities of a softmax, rounded to three or four digits, miss a sum of 1 by this."""
ALPHA = 0.05
ERRORED = -1
"""Prediction of an example whose logits are not finite: it counts as wrong, and never as robust."""
CONSTANT_EXAMPLES = 10
"""From so many examples on, outputs that never change are refused, and predictions that never do are a warning."""
CHANCE_EXAMPLES = 50
"""From so many examples on, an accuracy that cannot be told from chance is refused; below, it is a warning."""


@dataclass(frozen=True)
class Wording:
    """How the input of a model is called, and what is looked at first when it does not work.

    Attributes:
        thing: One input.
        probes: What a model is tried on at upload.
        weights: What to check when that gives NaN.
        input: What to check when outputs never change.
        guessing: What to check when the model guesses.
        claim: What may be another than where the stated accuracy was measured.
        blamed: JSON pointer to what is to blame for outputs that are no logits.
    """

    thing: str
    probes: str
    weights: str
    input: str
    guessing: str
    claim: str
    blamed: str = "/file"


@dataclass(frozen=True)
class TargetReport:
    """What was measured when a model was first loaded."""

    facts: ModelFacts
    flags: list[Flag] = field(default_factory=list)


@dataclass(frozen=True)
class Decisions:
    """What a model decided about examples of which it decides several things each: labels, or the tags of tokens.

    Attributes:
        errored: (n,) whether there is no answer, or it is not finite.
        decided: (n,) int64 labels, or tokens that have a tag; of errored ones all they have.
        correct: (n,) int64 how many of them are right; of errored ones none.
    """

    errored: NDArray[np.bool_]
    decided: NDArray[np.int64]
    correct: NDArray[np.int64]


@dataclass(frozen=True)
class PreflightReport:
    """What was measured on an audit's sample before anything was attacked.

    Attributes:
        predictions: Predicted class (n,) int64 of each position; ``ERRORED`` where the logits are not finite, and
            wherever an example has not one class.
        clean_accuracy: Share of right predictions with its 95 % interval: exact for texts and images, where several
            labels count as right when all of them are; of tagged sentences token accuracy, by bootstrap.
        flags: Doubts that do not stop the audit.
        several: Decisions on multi-label texts and on sentences.
        deviation: Of a table's columns, the median in units of the manifest's ``std``; None of other data, and of few
            rows.
    """

    predictions: NDArray[np.int64]
    clean_accuracy: Estimate
    flags: list[Flag]
    several: Decisions | None = None
    deviation: float | None = None

    @property
    def errored(self) -> NDArray[np.bool_]:
        """Which examples gave no finite answer (n,)."""
        return self.predictions == ERRORED if self.several is None else self.several.errored


def check_logits(logits: Tensor, classes: int, examples: int, words: Wording) -> None:
    """Raise when the logits of different probes are not one finite row each, of one number per label.

    Raises:
        TargetError: They are not, or all rows are the same.
    """
    if logits.ndim != 2 or logits.shape != (examples, classes):
        raise TargetError(
            "class-count-mismatch",
            "Logits and labels differ in number",
            f"{examples} {words.thing}s give outputs of shape {tuple(logits.shape)}; {classes} labels are named",
            field="/manifest/labels",
        )
    if not bool(torch.isfinite(logits).all()):
        raise TargetError(
            "outputs-not-finite",
            "The model gives NaN or infinity",
            f"{words.probes} give logits that are not finite: check {words.weights}",
            field=words.blamed,
        )
    if bool((logits == logits[:1]).all()):
        raise TargetError(
            "constant-outputs",
            f"The model gives the same output for every {words.thing}",
            f"{examples} different {words.thing}s give the same logits: the weights are dead, or not the ones meant",
            field=words.blamed,
        )


def probability_flags(logits: Tensor, *, several: bool = False) -> list[Flag]:
    """Doubt logits (batch, classes) whose every row sums to 1.

    Of several labels each, doubt logits that all lie in [0, 1], and those whose sigmoids sum to 1 in every row.
    """
    if several:
        if bool(((logits >= 0) & (logits <= 1)).all()):
            return [_squashed()]
        sums = logits.sigmoid().sum(1)
        return [_softmaxed()] if len(sums) > 1 and bool(((sums - 1).abs() < SUM_TOLERANCE).all()) else []
    is_simplex = bool((logits >= 0).all()) and bool(((logits.sum(1) - 1).abs() < 1e-4).all())
    if not is_simplex:
        return []
    return [
        Flag(
            code="probabilities_instead_of_logits",
            severity="warning",
            message="Every row of outputs is non-negative and sums to 1: these are probabilities, and a second "
            "softmax over them "
            "makes every confidence wrong. Export the model without its softmax.",
        )
    ]


def _squashed() -> Flag:
    return Flag(
        code="probabilities_instead_of_logits",
        severity="warning",
        message="All outputs lie between 0 and 1: these are probabilities, and a second sigmoid over them lifts every "
        "label to 0.5 at least. Export the model without its sigmoid.",
    )


def _softmaxed() -> Flag:
    return Flag(
        code="labels_exclude_each_other",
        severity="warning",
        message="The probabilities of each text's labels sum to 1: they seem to come from a softmax, which raises one "
        "label only by lowering the others, and gives 0.5 to two of them at most. If a text has exactly one class, the "
        "task is text-classification; if it may have several, a sigmoid belongs there.",
    )


def device_name(device: torch.device) -> str:
    """Return how a person calls a device."""
    return torch.cuda.get_device_name(device) if device.type == "cuda" else device.type


def check_labels(
    labels: NDArray[np.int64], names: list[str] | None, model_names: Sequence[str], *, field: str = "/dataset"
) -> None:
    """Raise when a dataset's labels (n,), or the order of its class names, do not fit the model's.

    Args:
        labels: The dataset's.
        names: Its class names, if it has any.
        model_names: The model's.
        field: What named the dataset.

    Raises:
        PreflightError: They do not.
    """
    if len(labels) and (int(labels.max()) >= len(model_names) or int(labels.min()) < 0):
        raise PreflightError(
            "label-out-of-range",
            "The dataset has labels the model does not know",
            f"labels go from {int(labels.min())} to {int(labels.max())}, the model has classes 0 to "
            f"{len(model_names) - 1}",
            field=field,
        )
    for number, name, other in moved(names or [], model_names):
        raise PreflightError(
            "label-order-mismatch",
            "Model and dataset number the classes differently",
            f"label {number} is {name!r} in the dataset, but in the model {name!r} is {other}: every accuracy "
            "would be wrong. Reorder the labels of one of them",
            field=field,
        )


def check_same_classes(names: Sequence[str], others: Sequence[str], *, field: str) -> None:
    """Raise when a further model's classes are not the audited model's, in the same order.

    Args:
        names: Class names of the audited model.
        others: Class names of the further one. Names the first does not have are taken for other spellings.
        field: What named the further model.

    Raises:
        PreflightError: They are not.
    """
    if len(names) != len(others):
        raise PreflightError(
            "class-count-mismatch",
            "The further model has other classes",
            f"it has {len(others)} classes, the audited model {len(names)}; both need the same",
            field=field,
        )
    for number, name, other in moved(others, names):
        raise PreflightError(
            "label-order-mismatch",
            "The two models number the classes differently",
            f"class {number} is {name!r} in the further model, but in the audited model {name!r} is {other}: it would "
            "be attacked on wrong labels. Reorder the labels of one of them",
            field=field,
        )


def name_flags(names: list[str] | None, labels: Sequence[str]) -> list[Flag]:
    """Note that a dataset's class names are none of the model's."""
    if names is None or {name.strip().casefold() for name in names} <= {label.strip().casefold() for label in labels}:
        return []
    return [
        Flag(
            code="label_names_differ",
            severity="info",
            message=f"The dataset names its classes {', '.join(names[:3])}, ..., the model {', '.join(labels[:3])}, "
            "...: their order could not be compared. Give both the same names to have it checked.",
        )
    ]


def check_constant(examples: int, *, has_inputs: bool, has_outputs: bool, words: Wording) -> None:
    """Raise when inputs have differed and outputs never have.

    Args:
        examples: How many were looked at.
        has_inputs: Whether two inputs differed.
        has_outputs: Whether two rows of logits did.
        words: How the input is called.

    Raises:
        PreflightError: The model gives the same output for everything.
    """
    # A piecewise constant model may give a handful of inputs one output by luck.
    if examples >= CONSTANT_EXAMPLES and has_inputs and not has_outputs:
        raise PreflightError(
            "constant-outputs",
            f"The model gives the same output for every {words.thing}",
            f"{examples} examples that are not all the same give the same logits: check {words.input}, and whether the "
            "weights are the ones meant",
            field="/model",
        )


def constant_flags(predictions: NDArray[np.int64], labels: NDArray[np.int64], words: Wording) -> list[Flag]:
    """Doubt predictions (n,) that are all of one class though the labels (n,) are not."""
    predicted = set(predictions[predictions != ERRORED].tolist())
    if len(predictions) < CONSTANT_EXAMPLES or len(set(labels.tolist())) == 1 or len(predicted) != 1:
        return []
    # A good model of a rare class does just this, so it is no reason to refuse.
    return [
        Flag(
            code="constant_predictions",
            severity="warning",
            message=f"All {len(predictions)} {words.thing}s are predicted as class {predicted.pop()}, though their "
            f"labels differ. If that class is not by far the most frequent, check {words.input}; if it is, the "
            "rates say little about the others: audit a balanced sample.",
        )
    ]


def clean_accuracy(predictions: NDArray[np.int64], labels: NDArray[np.int64]) -> Estimate:
    """Return the share of right predictions (n,) with its exact interval."""
    correct, n = int((predictions == labels).sum()), len(labels)
    low, high = clopper_pearson(correct, n, alpha=ALPHA)
    return Estimate(value=correct / n, low=low, high=high, n=n, method="clopper-pearson")


def chance_flags(correct: int, n: int, classes: int, words: Wording) -> list[Flag]:
    """Compare accuracy with guessing (1 / classes) by exact one-sided 95 % bounds.

    Raises:
        PreflightError: The model does not do better.
    """
    chance = 1 / classes
    low, high = clopper_pearson(correct, n, alpha=2 * ALPHA)
    if low > chance:
        return []
    facts = f"{correct} of {n} examples are classified correctly; guessing among {classes} classes gives {chance:.3g}"
    if high <= chance or n >= CHANCE_EXAMPLES:
        raise PreflightError(
            "accuracy-at-chance",
            "The model is not better than guessing",
            f"{facts}. Check {words.guessing} and the order of the labels",
            field="/model",
        )
    return [
        Flag(
            code="accuracy_near_chance",
            severity="warning",
            message=f"{facts}: too few examples to tell the two apart. Audit at least {CHANCE_EXAMPLES}.",
        )
    ]


def claim_flags(accuracy: Estimate, stated: float | None, words: Wording, *, measured: str = "it") -> list[Flag]:
    """Doubt an accuracy that its owner states otherwise; ``measured`` is what it is called here."""
    if stated is None or accuracy.low is None or accuracy.high is None or accuracy.low <= stated <= accuracy.high:
        return []
    return [
        Flag(
            code="clean_accuracy_differs",
            severity="warning",
            message=f"The manifest states a clean accuracy of {stated:.4g}; on these {accuracy.n} examples {measured} "
            f"is {accuracy.value:.4g}, 95 % interval {accuracy.low:.4g} to {accuracy.high:.4g}. {words.claim} "
            "or the dataset may not be the ones it was measured with.",
        )
    ]
