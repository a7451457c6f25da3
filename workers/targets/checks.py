"""What only running the model can show: at upload (:func:`check_target`) and before an audit (:func:`preflight`)."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from math import prod

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from app.contracts.estimates import Estimate, Flag
from app.contracts.targets import ModelFacts, ModelManifest
from workers.data import ImageDataset
from workers.errors import PreflightError, TargetError
from workers.stats.intervals import clopper_pearson
from workers.targets.image_classifier import ImageClassifier
from workers.targets.timing import measure

PROBE_EXAMPLES = 8
PROBE_VALUES = {"cuda": 2**30, "cpu": 2**28}
"""Values the probe may compute (4 and 1 GiB of float32): larger models are probed with fewer images, at least two."""
# What CPU allocator, cuDNN and cuBLAS say; torch.OutOfMemoryError is the CUDA allocator's alone.
_OUT_OF_MEMORY = ("can't allocate memory", "not enough memory", "ALLOC_FAILED")
# Two runs of one batch on a GPU may pick different kernels; more than this is the model's own randomness.
REPEAT_TOLERANCE = 1e-4
RANGE_TOLERANCE = 1e-6
ALPHA = 0.05
ERRORED = -1
"""Prediction of an example whose logits are not finite: it counts as wrong, and never as robust."""
CONSTANT_EXAMPLES = 10
"""From so many examples on, outputs that never change are refused, and predictions that never do are a warning."""
CHANCE_EXAMPLES = 50
"""From so many examples on, an accuracy that cannot be told from chance is refused; below, it is a warning."""


@dataclass(frozen=True)
class TargetReport:
    """What was measured when a model was first loaded."""

    facts: ModelFacts
    flags: list[Flag] = field(default_factory=list)


@dataclass(frozen=True)
class PreflightReport:
    """What was measured on an audit's sample before anything was attacked.

    Attributes:
        predictions: Predicted class (n,) int64 of each position; ``ERRORED`` where the logits are not finite.
        clean_accuracy: With its exact 95 % interval.
        flags: Doubts that do not stop the audit.
    """

    predictions: NDArray[np.int64]
    clean_accuracy: Estimate
    flags: list[Flag]


def check_target(classifier: ImageClassifier, manifest: ModelManifest) -> TargetReport:
    """Run the model on synthetic images and return what was measured.

    Raises:
        TargetError: The outputs are not one finite logit per label and example, or do not depend on the image; or the
            worker's memory does not suffice.
    """
    fitting = _fitting_examples(classifier)
    count = min(PROBE_EXAMPLES, fitting)
    try:
        images = _probe_images(classifier.input_shape, count).to(classifier.device)
        with torch.no_grad():
            first, second = classifier.logits(images), classifier.logits(images)
        _check_logits(first, classifier, count)
        flags = [*_repeat_flags(first, second), *_probability_flags(first)]
        forward_s, backward_s, memory = measure(classifier, images, most=fitting)
    except (RuntimeError, MemoryError) as error:
        raise _failure(error, (count, *classifier.input_shape)) from error
    facts = ModelFacts(
        parameters=classifier.parameters,
        classes=classifier.classes,
        device=_device_name(classifier.device),
        forward_s=forward_s,
        backward_s=backward_s,
        memory_bytes_per_example=memory,
    )
    return TargetReport(facts, flags)


def preflight(
    classifier: ImageClassifier,
    dataset: ImageDataset,
    positions: Sequence[int] | NDArray[np.int64],
    *,
    manifest: ModelManifest,
    batch_size: int = 64,
    tick: Callable[[], None] = lambda: None,
) -> PreflightReport:
    """Run the sample through the model once, its first batch twice, and refuse what cannot be audited.

    Args:
        classifier: The model under audit.
        dataset: The dataset under audit.
        positions: The sample.
        manifest: The model's, for the accuracy its owner states.
        batch_size: Examples per forward pass.
        tick: Called before every batch; may raise to cancel.

    Raises:
        PreflightError: Image shape or range, label numbers or label order do not fit the model; outputs are not finite
            or do not depend on the image; accuracy is at chance.
        DataError: An image does not decode.
    """
    chosen = [int(position) for position in positions]
    if not chosen:
        raise PreflightError(
            "empty-sample", "There is nothing to audit", "the sample has no examples", field="/dataset"
        )
    labels = dataset.labels[np.asarray(chosen)]
    _check_labels(labels, dataset.label_names, classifier)
    flags = _name_flags(dataset.label_names, classifier.labels)
    predictions = np.empty(len(chosen), dtype=np.int64)
    variety = _Variety()
    for start in range(0, len(chosen), batch_size):
        tick()
        images = dataset.images(chosen[start : start + batch_size])
        _check_images(images, classifier.input_shape)
        images = images.to(classifier.device)
        with torch.no_grad():
            logits = classifier.logits(images)
            finite = torch.isfinite(logits).all(1)
            if start == 0 and finite.any():
                flags += _repeat_flags(logits[finite], classifier.logits(images)[finite])
                flags += _probability_flags(logits[finite])
        variety.see(images[finite], logits[finite])
        predictions[start : start + len(images)] = logits.argmax(1).where(finite, ERRORED).cpu().numpy()
    if (predictions == ERRORED).all():
        raise PreflightError(
            "outputs-not-finite",
            "The model gives NaN or infinity",
            f"on every one of {len(predictions)} examples: check mean and std, and the image range",
            field="/model",
        )
    _check_constant(variety, len(chosen))
    flags += _constant_flags(predictions, labels)
    accuracy = _clean_accuracy(predictions, labels)
    flags += _chance_flags(int((predictions == labels).sum()), len(labels), classifier.classes)
    flags += _claim_flags(accuracy, manifest.clean_accuracy)
    return PreflightReport(predictions, accuracy, flags)


def _fitting_examples(classifier: ImageClassifier) -> int:
    per_image = max(classifier.values_per_image or 0, prod(classifier.input_shape))
    most = PROBE_VALUES["cuda" if classifier.device.type == "cuda" else "cpu"]
    return max(2, most // per_image)


def _probe_images(shape: tuple[int, int, int], count: int) -> Tensor:
    """Return varied images in [0, 1]: white, black, noise at several contrasts; the first ``count`` of them."""
    draw = torch.Generator().manual_seed(0)
    images = torch.rand((count, *shape), generator=draw)
    images *= torch.linspace(1.0, 0.1, count).view(-1, 1, 1, 1)
    images[-1] = 1.0
    if count > 2:
        images[-2] = 0.0
    return images


def _failure(error: RuntimeError | MemoryError, shape: tuple[int, ...]) -> TargetError:
    said = str(error)
    if isinstance(error, (torch.OutOfMemoryError, MemoryError)) or any(words in said for words in _OUT_OF_MEMORY):
        return TargetError(
            "out-of-memory",
            "The worker has too little memory for the model",
            f"a batch of shape {shape}, forward and backward, does not fit: the model needs a worker with more memory, "
            "or smaller images",
            field="/file",
        )
    return TargetError(
        "forward-failed",
        "The model does not take its own input",
        f"a batch of shape {shape} fails: {said[:300]}",
        field="/manifest/input/shape",
    )


def _check_logits(logits: Tensor, classifier: ImageClassifier, examples: int) -> None:
    if logits.ndim != 2 or logits.shape != (examples, classifier.classes):
        raise TargetError(
            "class-count-mismatch",
            "Logits and labels differ in number",
            f"{examples} images give outputs of shape {tuple(logits.shape)}; {classifier.classes} labels are named",
            field="/manifest/labels",
        )
    if not bool(torch.isfinite(logits).all()):
        raise TargetError(
            "outputs-not-finite",
            "The model gives NaN or infinity",
            "random images in [0, 1] give logits that are not finite: check mean and std, and the weights",
            field="/file",
        )
    if bool((logits == logits[:1]).all()):
        raise TargetError(
            "constant-outputs",
            "The model gives the same output for every image",
            f"{examples} different images give the same logits: the weights are dead, or not the ones meant",
            field="/file",
        )


def _repeat_flags(first: Tensor, second: Tensor) -> list[Flag]:
    difference = float((first - second).abs().max())
    if difference <= REPEAT_TOLERANCE * max(1.0, float(first.abs().max())):
        return []
    return [
        Flag(
            code="non_deterministic",
            severity="warning",
            message=f"The same batch gave logits that differ by up to {difference:.3g}: the model draws random "
            "numbers in eval "
            "mode. Gradients are noisy and a single success may be luck: fix the randomness, or read every rate as "
            "one draw.",
        )
    ]


def _probability_flags(logits: Tensor) -> list[Flag]:
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


def _device_name(device: torch.device) -> str:
    return torch.cuda.get_device_name(device) if device.type == "cuda" else device.type


def _check_labels(labels: NDArray[np.int64], names: list[str] | None, classifier: ImageClassifier) -> None:
    if int(labels.max()) >= classifier.classes or int(labels.min()) < 0:
        raise PreflightError(
            "label-out-of-range",
            "The dataset has labels the model does not know",
            f"labels go from {int(labels.min())} to {int(labels.max())}, the model has classes 0 to "
            f"{classifier.classes - 1}",
            field="/dataset",
        )
    numbers = {name.strip().casefold(): number for number, name in enumerate(classifier.labels)}
    for number, name in enumerate(names or []):
        other = numbers.get(name.strip().casefold(), number)
        if other != number:
            raise PreflightError(
                "label-order-mismatch",
                "Model and dataset number the classes differently",
                f"label {number} is {name!r} in the dataset, but in the model {name!r} is {other}: every accuracy "
                "would be wrong. Reorder the labels of one of them",
                field="/dataset",
            )


def _name_flags(names: list[str] | None, labels: list[str]) -> list[Flag]:
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


def _check_images(images: Tensor, input_shape: tuple[int, int, int]) -> None:
    if tuple(images.shape[1:]) != input_shape:
        raise PreflightError(
            "image-shape-mismatch",
            "The images have another shape than the model takes",
            f"images are {tuple(images.shape[1:])} (channels, height, width), the model takes {input_shape}",
            field="/dataset",
        )
    low, high = float(images.min()), float(images.max())
    if not (low >= -RANGE_TOLERANCE and high <= 1 + RANGE_TOLERANCE):
        raise PreflightError(
            "image-range",
            "The images are not in [0, 1]",
            f"values go from {low:g} to {high:g}: normalisation belongs into the model's manifest",
            field="/dataset",
        )


class _Variety:
    """Whether images, and logits, have differed from the first ones seen."""

    def __init__(self) -> None:
        self._first: tuple[Tensor, Tensor] | None = None
        self.has_images = False
        self.has_logits = False

    def see(self, images: Tensor, logits: Tensor) -> None:
        """Look at a batch of images (batch, ...) and their logits (batch, classes)."""
        if not len(images) or (self.has_images and self.has_logits):
            return
        if self._first is None:
            self._first = images[:1].clone(), logits[:1].clone()
        image, row = self._first
        self.has_images = self.has_images or bool((images != image).any())
        self.has_logits = self.has_logits or bool((logits != row).any())


def _check_constant(variety: _Variety, examples: int) -> None:
    # A piecewise constant model may give a handful of images one output by luck.
    if examples >= CONSTANT_EXAMPLES and variety.has_images and not variety.has_logits:
        raise PreflightError(
            "constant-outputs",
            "The model gives the same output for every image",
            f"{examples} examples that are not all the same give the same logits: check input range, mean and std, and "
            "whether the weights are the ones meant",
            field="/model",
        )


def _constant_flags(predictions: NDArray[np.int64], labels: NDArray[np.int64]) -> list[Flag]:
    predicted = set(predictions[predictions != ERRORED].tolist())
    if len(predictions) < CONSTANT_EXAMPLES or len(set(labels.tolist())) == 1 or len(predicted) != 1:
        return []
    # A good model of a rare class does just this, so it is no reason to refuse.
    return [
        Flag(
            code="constant_predictions",
            severity="warning",
            message=f"All {len(predictions)} examples are predicted as class {predicted.pop()}, though their labels "
            "differ. If that class is not by far the most frequent, check input range, mean and std; if it is, the "
            "rates say little about the others: audit a balanced sample.",
        )
    ]


def _clean_accuracy(predictions: NDArray[np.int64], labels: NDArray[np.int64]) -> Estimate:
    correct, n = int((predictions == labels).sum()), len(labels)
    low, high = clopper_pearson(correct, n, alpha=ALPHA)
    return Estimate(value=correct / n, low=low, high=high, n=n, method="clopper-pearson")


def _chance_flags(correct: int, n: int, classes: int) -> list[Flag]:
    """Compare accuracy with guessing (1 / classes) by exact one-sided 95 % bounds."""
    chance = 1 / classes
    low, high = clopper_pearson(correct, n, alpha=2 * ALPHA)
    if low > chance:
        return []
    facts = f"{correct} of {n} examples are classified correctly; guessing among {classes} classes gives {chance:.3g}"
    if high <= chance or n >= CHANCE_EXAMPLES:
        raise PreflightError(
            "accuracy-at-chance",
            "The model is not better than guessing",
            f"{facts}. Check mean and std, the image range, the architecture and the order of the labels",
            field="/model",
        )
    return [
        Flag(
            code="accuracy_near_chance",
            severity="warning",
            message=f"{facts}: too few examples to tell the two apart. Audit at least {CHANCE_EXAMPLES}.",
        )
    ]


def _claim_flags(accuracy: Estimate, stated: float | None) -> list[Flag]:
    if stated is None or accuracy.low is None or accuracy.high is None or accuracy.low <= stated <= accuracy.high:
        return []
    return [
        Flag(
            code="clean_accuracy_differs",
            severity="warning",
            message=f"The manifest states a clean accuracy of {stated:.4g}; on these {accuracy.n} examples it is "
            f"{accuracy.value:.4g}, 95 % interval {accuracy.low:.4g} to {accuracy.high:.4g}. Mean, std, image range "
            "or the dataset may not be the ones it was measured with.",
        )
    ]
