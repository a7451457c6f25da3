"""The stage every check begins with: do model, data and parameters fit together."""

from typing import Any

import pyarrow as pa

from app.contracts.estimates import Flag
from app.contracts.targets import ModelManifest
from workers.families.protocol import AnyFamily, DataInfo, Records, TargetInfo
from workers.runtime.context import ShardContext, ShardJob
from workers.runtime.resources import parse_manifest
from workers.targets.checks import preflight


def run_preflight(family: AnyFamily, params: Any, job: ShardJob, context: ShardContext) -> tuple[Records, list[Flag]]:
    """Look at a sample through the model; return its predictions and the doubts that do not stop the audit.

    Raises:
        PreflightError: Model, data and parameters do not fit together.
        TargetError: A model cannot be loaded.
        DataError: The dataset cannot be read.
    """
    classifier, dataset, positions = context.classifier, context.dataset, context.positions()
    report = preflight(
        classifier,
        dataset,
        positions,
        manifest=parse_manifest(ModelManifest, job.model.manifest),
        batch_size=job.batch_size,
        tick=context.tick,
    )
    labels = dataset.labels
    family.preflight(
        TargetInfo(classes=classifier.classes, labels=classifier.labels, input_shape=classifier.input_shape),
        DataInfo(
            examples=len(labels), classes=len(set(labels.tolist())), clean_accuracy=report.clean_accuracy.value or 0.0
        ),
        params,
    )
    records = pa.table(
        {
            "example_id": pa.array(positions, pa.int64()),
            "label": pa.array(labels[positions], pa.int64()),
            "errored": pa.array(report.predictions < 0, pa.bool_()),
            "prediction": pa.array(report.predictions, pa.int64()),
        }
    )
    return records, report.flags
