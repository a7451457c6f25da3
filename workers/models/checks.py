"""What only running the model can show: at upload (:func:`check_target`) and before an audit (:func:`preflight`)."""

import time
from collections.abc import Callable, Sequence
from math import prod

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from seatrial.contracts.estimates import Flag
from seatrial.contracts.model_facts import ModelFacts
from seatrial.contracts.models import ModelManifest
from workers.data import ImageDataset
from workers.errors import PreflightError, TargetError, log_fault
from workers.models import VALID_PIXELS, box_of
from workers.models.footprint import attack_bytes, forward_bytes, graph_bytes
from workers.models.guessing import unrelated_flags
from workers.models.image_classifier import ImageClassifier
from workers.models.image_endpoint import ImageEndpoint
from workers.models.memory import is_out_of_memory
from workers.models.repeating import company_flags, repeat_flags
from workers.models.repeats import Distinct
from workers.models.table_classifier import TableClassifier
from workers.models.timing import measure
from workers.models.units import Deviations
from workers.models.validating import (
    ERRORED,
    PreflightReport,
    TargetReport,
    Wording,
    chance_flags,
    check_constant,
    check_labels,
    check_logits,
    claim_flags,
    clean_accuracy,
    constant_flags,
    device_name,
    name_flags,
    probability_flags,
)

__all__ = ["ERRORED", "PreflightReport", "TargetReport", "check_target", "preflight"]

IMAGE_WORDS = Wording(
    thing="image",
    probes="random images in [0, 1]",
    weights="mean and std, and the weights",
    input="input range, mean and std",
    guessing="mean and std, the image range, the architecture",
    claim="Mean, std, image range",
)

TABLE_WORDS = Wording(
    thing="row",
    probes="random standardised rows",
    weights="mean and std, and the weights",
    input="columns, mean and std",
    guessing="the order of the columns, mean and std, what the model takes (standardised or raw)",
    claim="The columns, mean, std",
)

ENDPOINT_WORDS = Wording(
    thing="image",
    probes="made-up images",
    weights="the path to the scores",
    input="the request template, image_format and the path to the scores",
    guessing="the request template, image_format, the path to the scores",
    claim="Request template, image_format, path to the scores",
    blamed="/manifest/architecture",
)

PROBE_EXAMPLES = 8
REPEATED = 2
"""Images an endpoint is asked about twice: enough to see a model that draws random numbers, and few where each is paid
for."""
PROBE_VALUES = {"cuda": 2**30, "cpu": 2**28}
"""Values the probe may compute (4 and 1 GiB of float32): larger models are probed with fewer images, at least two."""
RANGE_TOLERANCE = 1e-6


def check_target(classifier: ImageClassifier, manifest: ModelManifest) -> TargetReport:
    """Run the model on synthetic images and return what was measured; an endpoint is sent ten of them.

    Raises:
        TargetError: The outputs are not one finite logit per label and example, or do not depend on the image; the
            worker's memory does not suffice; or an endpoint does not answer in the time a check has.
    """
    words = _words(classifier)
    if isinstance(classifier, ImageEndpoint):
        return _check_endpoint(classifier, words)
    fitting = _fitting_examples(classifier)
    count = min(PROBE_EXAMPLES, fitting)
    try:
        images = _probes(classifier, count)
        with torch.no_grad():
            first, second = classifier.logits(images), classifier.logits(images)
        check_logits(first, classifier.classes, count, words)
        flags = [*repeat_flags(first, second), *probability_flags(first)]
        forward_s, backward_s, memory = measure(classifier, images, most=fitting)
        kept = graph_bytes(classifier.module, lambda: classifier.logits(images))
        attacked = attack_bytes(classifier.module, classifier.logits, images)
        held = forward_bytes(classifier.module, lambda: classifier.logits(images))
    except (RuntimeError, IndexError, MemoryError) as error:
        raise _failure(error, (count, *classifier.input_shape), words) from error
    facts = ModelFacts(
        parameters=classifier.parameters,
        classes=classifier.classes,
        input_shape=list(classifier.input_shape),
        device=device_name(classifier.device),
        forward_s=forward_s,
        backward_s=backward_s,
        memory_bytes_per_example=memory,
        training_bytes=[kept / count] if kept else None,
        attack_bytes=attacked / count,
        forward_bytes=held / count,
    )
    return TargetReport(facts, flags)


def _check_endpoint(classifier: ImageEndpoint, words: Wording) -> TargetReport:
    images = _probe_images(classifier.input_shape, PROBE_EXAMPLES)
    with classifier.endpoint.checked():
        started = time.perf_counter()
        first = classifier.check(images)
        seconds = (time.perf_counter() - started) / len(images)
        check_logits(first, classifier.classes, len(images), words)
        second = classifier.check(images[:REPEATED])
    facts = ModelFacts(
        parameters=0,
        classes=classifier.classes,
        input_shape=list(classifier.input_shape),
        device="endpoint",
        forward_s=seconds,
    )
    return TargetReport(facts, [*repeat_flags(first[:REPEATED], second), *probability_flags(first)])


def preflight(
    classifier: ImageClassifier,
    dataset: ImageDataset,
    positions: Sequence[int] | NDArray[np.int64],
    *,
    manifest: ModelManifest,
    batch_size: int = 64,
    check_cancelled: Callable[[], None] = lambda: None,
    ask: Callable[[Sequence[int], Tensor], Tensor] | None = None,
) -> PreflightReport:
    """Run the sample through the model once, its first batch twice, and refuse what cannot be audited.

    Six of the first batch are asked about apart from it as well.

    Args:
        classifier: The model under audit.
        dataset: The dataset under audit.
        positions: The sample.
        manifest: The model's, for the accuracy its owner states.
        batch_size: Examples per forward pass.
        check_cancelled: Called before every batch; may raise to cancel.
        ask: Positions and images of a batch to logits, where others may have asked before; by default the model.
            What repeats an answer is the model itself in any case.

    Raises:
        PreflightError: Image shape or range, label numbers or label order do not fit the model; outputs are not finite
            or do not depend on the image; accuracy is at chance.
        DataError: An image does not decode.
    """
    words = _words(classifier)
    chosen = [int(position) for position in positions]
    if not chosen:
        raise PreflightError(
            "empty-sample", "There is nothing to audit", "the sample has no examples", field="/dataset"
        )
    labels = dataset.labels[np.asarray(chosen)]
    check_labels(labels, dataset.label_names, classifier.labels)
    flags = name_flags(dataset.label_names, classifier.labels)
    predictions = np.empty(len(chosen), dtype=np.int64)
    variety, distinct, deviations = _Variety(), Distinct(), Deviations()
    has_levels = box_of(classifier) is VALID_PIXELS
    for start in range(0, len(chosen), batch_size):
        check_cancelled()
        batch = chosen[start : start + batch_size]
        images = dataset.images(batch)
        _check_images(images, classifier)
        if has_levels:
            distinct.see_images(images)
        else:
            distinct.see_rows(images.flatten(1))
            deviations.see(images.flatten(1))
        images = images.to(classifier.device)
        with torch.no_grad():
            logits = classifier.logits(images) if ask is None else ask(batch, images)
            finite = torch.isfinite(logits).all(1)
            if start == 0 and finite.any():
                repeated = repeat_flags(logits[finite], classifier.logits(images)[finite])
                flags += repeated
                # What draws random numbers differs in any company, and of an endpoint every question is paid for.
                if not repeated and not isinstance(classifier, ImageEndpoint):
                    flags += company_flags(logits[finite], classifier.logits, images[finite], words.thing)
                flags += probability_flags(logits[finite])
        variety.see(images[finite], logits[finite])
        predictions[start : start + len(images)] = logits.argmax(1).where(finite, ERRORED).cpu().numpy()
    if isinstance(classifier, ImageEndpoint):
        flags += _endpoint_flags(classifier, predictions)
    flags += distinct.flags(words.thing)
    if (predictions == ERRORED).all():
        raise PreflightError(
            "outputs-not-finite",
            "The model gives NaN or infinity",
            f"on every one of {len(predictions)} examples: check {words.weights}",
            field="/model",
        )
    check_constant(len(chosen), has_inputs=variety.has_images, has_outputs=variety.has_logits, words=words)
    flags += constant_flags(predictions, labels, words)
    accuracy = clean_accuracy(predictions, labels)
    guessing = chance_flags(int((predictions == labels).sum()), len(labels), classifier.classes, words)
    flags += guessing or unrelated_flags(predictions, labels, words)
    flags += claim_flags(accuracy, manifest.clean_accuracy, words)
    return PreflightReport(predictions, accuracy, flags, deviation=deviations.median())


def _endpoint_flags(classifier: ImageEndpoint, predictions: NDArray[np.int64]) -> list[Flag]:
    """Say how images were sent, and doubt a sample of which some have no scores.

    Raises:
        PreflightError: None has.
    """
    unanswered, flags = int((predictions == ERRORED).sum()), []
    if unanswered == len(predictions):
        raise PreflightError(
            "images-unanswered",
            "The model answers none of the images",
            f"none of {unanswered} images has scores: {classifier.failure}",
            field="/model",
        )
    if unanswered:
        flags.append(
            Flag(
                code="unanswered_images",
                severity="warning",
                message=f"{unanswered} of {len(predictions)} images have no scores, the last because: "
                f"{classifier.failure}. They are wrong here and errored where they are attacked, never robust.",
            )
        )
    if classifier.levels is not None:
        flags.append(
            Flag(
                code="sent_as_png",
                severity="info",
                message="Images are sent as PNG, 8 bits a value: the audited ones are rounded to its 256 levels first, "
                "attacks keep to images on these levels within their radius, and noise is rounded and clipped. All "
                "numbers are about what was sent.",
            )
        )
    return flags


def _fitting_examples(classifier: ImageClassifier) -> int:
    per_image = max(classifier.values_per_image or 0, prod(classifier.input_shape))
    most = PROBE_VALUES["cuda" if classifier.device.type == "cuda" else "cpu"]
    return max(2, most // per_image)


def _words(classifier: ImageClassifier) -> Wording:
    if isinstance(classifier, ImageEndpoint):
        return ENDPOINT_WORDS
    return TABLE_WORDS if isinstance(classifier, TableClassifier) else IMAGE_WORDS


def _probes(classifier: ImageClassifier, count: int) -> Tensor:
    """Return varied inputs in the classifier's box, on its device."""
    if not isinstance(classifier, TableClassifier):
        return _probe_images(classifier.input_shape, count).to(classifier.device)
    draw = torch.Generator().manual_seed(0)
    rows = torch.randn((count, *classifier.input_shape), generator=draw).to(classifier.device)
    return rows.clamp(*classifier.box)


def _probe_images(shape: tuple[int, int, int], count: int) -> Tensor:
    """Return varied images in [0, 1]: white, black, noise at several contrasts; the first ``count`` of them."""
    draw = torch.Generator().manual_seed(0)
    images = torch.rand((count, *shape), generator=draw)
    images *= torch.linspace(1.0, 0.1, count).view(-1, 1, 1, 1)
    images[-1] = 1.0
    if count > 2:
        images[-2] = 0.0
    return images


def _failure(error: RuntimeError | IndexError | MemoryError, shape: tuple[int, ...], words: Wording) -> TargetError:
    if is_out_of_memory(error):
        return TargetError(
            "out-of-memory",
            "The worker has too little memory for the model",
            f"a batch of shape {shape}, forward and backward, does not fit: the model needs a worker with more memory, "
            f"or smaller {words.thing}s",
            field="/file",
        )
    return TargetError(
        "forward-failed",
        "The model does not take its own input",
        f"a batch of shape {shape} fails ({log_fault(error)})",
        field="/manifest/input/shape",
    )


def _check_images(images: Tensor, classifier: ImageClassifier) -> None:
    input_shape = classifier.input_shape
    if isinstance(classifier, TableClassifier):
        # Columns and ranges were looked at when the rows were standardised.
        return
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
