"""The stage every check begins with: do model, data and parameters fit together."""

from typing import Any

import pyarrow as pa

from app.contracts.estimates import Flag
from app.contracts.targets import IMAGES, ModelManifest
from workers.families.protocol import AnyFamily, DataInfo, Records, TargetInfo
from workers.runtime.context import ShardContext, ShardJob
from workers.runtime.resources import parse_manifest
from workers.targets.checks import preflight
from workers.targets.judging import check_labels, check_same_classes
from workers.targets.text_checks import preflight_texts


def run_preflight(family: AnyFamily, params: Any, job: ShardJob, context: ShardContext) -> tuple[Records, list[Flag]]:
    """Look at a sample through the model; return its predictions and the doubts that do not stop the audit.

    Raises:
        PreflightError: Model, data and parameters do not fit together.
        TargetError: A model cannot be loaded.
        DataError: The dataset cannot be read.
    """
    manifest = parse_manifest(ModelManifest, job.model.manifest)
    if manifest.task == IMAGES:
        classifier, positions = context.classifier, context.positions()
        labels = context.dataset.labels
        report = preflight(
            classifier,
            context.dataset,
            positions,
            manifest=manifest,
            batch_size=job.batch_size,
            tick=context.tick,
        )
        target = TargetInfo(classifier.classes, classifier.labels, classifier.input_shape, classifier=classifier)
    else:
        service, positions = context.scoring(), context.text_positions()
        texts = service.classifier
        labels = context.text_dataset.labels
        report = preflight_texts(
            texts,
            context.text_dataset,
            positions,
            manifest=manifest,
            batch_size=job.batch_size,
            tick=context.tick,
            ask=service.scores,
        )
        for parameter, further in context.further_texts().items():
            check_labels(further.labels, further.label_names, texts.labels, field=parameter)
        for parameter in job.further_models:
            check_same_classes(texts.labels, context.scoring(parameter).classifier.labels, field=parameter)
        target = TargetInfo(texts.classes, texts.labels, None, manifest.task, has_gradients=False)
    accuracy = report.clean_accuracy.value or 0.0
    family.preflight(target, DataInfo(len(labels), len(set(labels.tolist())), accuracy), params)
    records = pa.table(
        {
            "example_id": pa.array(positions, pa.int64()),
            "label": pa.array(labels[positions], pa.int64()),
            "errored": pa.array(report.predictions < 0, pa.bool_()),
            "prediction": pa.array(report.predictions, pa.int64()),
        }
    )
    return records, report.flags
