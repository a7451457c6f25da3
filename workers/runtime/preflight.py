"""The stage every check begins with: do model, data and parameters fit together."""

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from seatrial.contracts.estimates import Flag
from seatrial.contracts.models import ARRAYS, PREDICTIONS, TAGGING, ModelManifest
from seatrial.ingest.predictions.tables import ARMS
from workers.errors import PreflightError
from workers.families.contexts import Records
from workers.families.protocol import AnyFamily, DataInfo, TargetInfo
from workers.models import gives_gradients
from workers.models.checks import preflight
from workers.models.guessing import one_class
from workers.models.text_preflight import preflight_tags, preflight_texts
from workers.models.units import small_radii, small_unit
from workers.models.validating import (
    PreflightReport,
    Wording,
    check_labels,
    check_same_classes,
    claim_flags,
    clean_accuracy,
)
from workers.runtime.context import ShardContext
from workers.runtime.jobs import ShardJob, parse_manifest

NO_CLASS = -1
"""Label, in records, of an example that has not exactly one class: a multi-label text, a tagged sentence."""


CLEAN = ARMS.index("clean")

PREDICTION_WORDS = Wording(
    thing="prediction",
    probes="the answers of the file",
    weights="the answers of the file",
    input="the answers of the file",
    guessing="which column is of which label",
    claim="Which column is of which label",
)


@dataclass(frozen=True)
class _Look:
    """What was seen: positions (n,) of those looked at, their labels (n,), and the classes of the whole dataset.

    ``drawn`` are the labels of the whole sample, where an example has one: of a large one fewer are looked at.
    """

    report: PreflightReport
    target: TargetInfo
    positions: NDArray[np.int64]
    labels: NDArray[np.int64]
    examples: int
    classes: int
    drawn: NDArray[np.int64] | None = None


def run_preflight(family: AnyFamily, job: ShardJob, context: ShardContext) -> tuple[Records, list[Flag]]:
    """Look at a sample through the model; return its predictions and the doubts that do not stop the audit.

    Of multi-label texts and tagged sentences, label and prediction are -1 in the records, and two more columns hold how
    many labels or tags were decided and how many of them are right.

    Raises:
        PreflightError: Model, data and parameters do not fit together.
        TargetError: A model cannot be loaded.
        DataError: The dataset cannot be read.
    """
    manifest = parse_manifest(ModelManifest, job.model.manifest)
    looks = {**dict.fromkeys(ARRAYS, _images), TAGGING: _sentences, PREDICTIONS: _predictions}
    look = looks.get(manifest.task, _texts)
    seen = look(manifest, job, context)
    report = seen.report
    family.preflight(seen.target, DataInfo(seen.examples, seen.classes, report.clean_accuracy.value or 0.0), job.params)
    columns = {
        "example_id": pa.array(seen.positions, pa.int64()),
        "label": pa.array(seen.labels, pa.int64()),
        "errored": pa.array(report.errored, pa.bool_()),
        "prediction": pa.array(report.predictions, pa.int64()),
    }
    if report.several is not None:
        columns["decisions"] = pa.array(report.several.decided, pa.int64())
        columns["correct"] = pa.array(report.several.correct, pa.int64())
    flags = [*report.flags]
    if seen.drawn is not None:
        flags += one_class(seen.drawn, seen.target.classes, "example")
    said = manifest.features is not None and manifest.features.std is not None
    flags += small_unit(report.deviation, getattr(job.params, "sigma", None), is_said=said)
    flags += small_radii(report.deviation, _radii(job.params))
    return pa.table(columns), flags


def _radii(params: Any) -> dict[str, float]:
    """Return the radii of attacks by the flag that would doubt them: the check's, and AutoAttack's own."""
    own, robust = getattr(params, "epsilon", None), getattr(params, "robust_accuracy", None)
    found = {} if own is None else {"small_radius": float(own)}
    return found if robust is None else found | {"autoattack_small_radius": float(robust.epsilon)}


def _images(manifest: ModelManifest, job: ShardJob, context: ShardContext) -> _Look:
    classifier, dataset, positions = context.classifier, context.dataset, context.positions()
    report = preflight(
        classifier,
        dataset,
        positions,
        manifest=manifest,
        batch_size=job.batch_size,
        check_cancelled=context.check_cancelled,
        ask=context.clean_logits,
    )
    target = TargetInfo(
        classifier.classes,
        classifier.labels,
        classifier.input_shape,
        manifest.task,
        has_gradients=gives_gradients(classifier),
        classifier=classifier,
    )
    labels = dataset.labels
    drawn = context.labels_of_sample(labels)
    return _Look(report, target, positions, labels[positions], len(labels), len(np.unique(labels)), drawn)


def _texts(manifest: ModelManifest, job: ShardJob, context: ShardContext) -> _Look:
    service, dataset, positions = context.scoring(), context.text_dataset, context.text_positions()
    report = preflight_texts(
        service.classifier,
        dataset,
        positions,
        manifest=manifest,
        batch_size=job.batch_size,
        check_cancelled=context.check_cancelled,
        ask=service.scores,
    )
    for parameter, further in context.further_texts().items():
        check_labels(further.labels, further.label_names, service.classifier.labels, field=parameter)
    labels = dataset.labels
    if labels.ndim == 1:
        chosen, classes = labels[positions], len(np.unique(labels))
        drawn = context.labels_of_sample(labels)
    else:
        drawn = None
        chosen, classes = np.full(len(positions), NO_CLASS), int(labels.any(axis=0).sum())
    return _Look(report, _text_target(manifest, job, context), positions, chosen, len(labels), classes, drawn)


def _sentences(manifest: ModelManifest, job: ShardJob, context: ShardContext) -> _Look:
    service, dataset, positions = context.scoring(), context.tagged_dataset, context.text_positions()
    report = preflight_tags(
        service.classifier,
        dataset,
        positions,
        manifest=manifest,
        batch_size=job.batch_size,
        check_cancelled=context.check_cancelled,
        ask=service.scores,
    )
    labels = np.full(len(positions), NO_CLASS)
    classes = len(np.unique(dataset.tags))
    return _Look(report, _text_target(manifest, job, context), positions, labels, len(dataset), classes)


def _predictions(manifest: ModelManifest, job: ShardJob, context: ShardContext) -> _Look:
    """Look at what was answered; that it guesses, or never changes, is for the family to say: it is not attacked."""
    found, truths = context.predictions(), context.resources.truths(job.source)
    if manifest.labels is None:
        raise AssertionError("unreachable: the manifest of predictions names its labels")
    predictions, is_clean = found.scores.argmax(axis=1), found.arms == CLEAN
    if not is_clean.any():
        raise PreflightError(
            "no-clean-examples", "There is nothing to audit", "no example is of the arm clean", field="/dataset"
        )
    accuracy = clean_accuracy(predictions[is_clean], found.labels[is_clean])
    flags = claim_flags(accuracy, manifest.clean_accuracy, PREDICTION_WORDS)
    target = TargetInfo(len(manifest.labels), manifest.labels, None, manifest.task, has_gradients=False)
    classes = len(np.unique(truths.labels[truths.labels >= 0]))
    report = PreflightReport(predictions, accuracy, flags)
    return _Look(report, target, found.positions, found.labels, len(truths.ids), classes)


def _text_target(manifest: ModelManifest, job: ShardJob, context: ShardContext) -> TargetInfo:
    classifier = context.scoring().classifier
    for parameter in job.further_models:
        check_same_classes(classifier.labels, context.scoring(parameter).classifier.labels, field=parameter)
    return TargetInfo(classifier.classes, classifier.labels, None, manifest.task, has_gradients=False)
