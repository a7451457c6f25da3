"""Training in the process that holds the model: from rows to data, and from the trained model to files."""

import json
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from seatrial.contracts.models import ARRAYS, TABLES, ModelManifest
from seatrial.contracts.training import MethodSpec, held_out_of, methods
from seatrial.hardening.params import TrainingParams
from seatrial.store.seeds import derive_seed
from seatrial.store.tables import DatasetRow
from workers.data import ImageDataset, Text
from workers.data.sampling import stratified_sample
from workers.data.tables import StandardisedRows
from workers.errors import PreflightError
from workers.models.hf_text import HuggingFaceTextClassifier
from workers.models.image_endpoint import ImageEndpoint
from workers.models.passes import Passes
from workers.models.table_classifier import TableClassifier
from workers.models.writing import write_back
from workers.resources.library import Found, Library
from workers.resources.vectors import load_word_vectors
from workers.runtime.checkpointing import CheckpointStore
from workers.runtime.executor import Holder
from workers.runtime.jobs import Hardened, HardeningJob, parse_manifest
from workers.runtime.resources import Resources
from workers.training.checkpoints import Checkpoint
from workers.training.data import Images, Raw, Texts, TrainingData, in_order
from workers.training.engine import Progress, train
from workers.training.models import TrainableImages, TrainableTexts, evaluating
from workers.training.overlap import refuse_overlap

READ_AT_ONCE = 256
FIXED = (
    "The graph of an exported program is fixed: dropout and batch normalisation stayed as in eval mode while its "
    "weights were trained."
)
DOCUMENT = "document"
"""Under which note of a save the training's own document stands."""


def harden(job: HardeningJob, resources: Resources, holder: Holder) -> Hardened:
    """Train a model, or fit a map of its logits, and store what came of it.

    Guarantee: none of the audited examples is trained or judged on, by content. Resumed from any save of the same code
    it ends in the same weights, to the bit, on the same machine.

    Raises:
        WorkError: Model, data and method do not fit together, or the loss is no longer finite.
        Interrupted: It was cancelled, its lease lost, or the process is stopping.
    """
    holder.poll_cancelled()
    manifest = parse_manifest(ModelManifest, job.model.manifest)
    # A map that was fitted for other weights says nothing of these.
    job.model.manifest = {name: value for name, value in job.model.manifest.items() if name != "recalibration"}
    model = _trainable(job, resources, manifest)
    read = _Reader(resources, model)
    training, validation = _split(job, read)
    _refuse_audited(job, read, holder)
    saves = CheckpointStore(
        resources.store, holder, belongs_to=job.belongs_to(), digest=job.checkpoint, may_resume=job.may_resume
    )
    spec = methods()[job.params.method]
    if not spec.trains:
        return _fitted(job, spec, model, validation, holder, saves)
    return _trained(job, spec, model, training, validation, resources, holder, saves, manifest)


def _trained(
    job: HardeningJob,
    spec: MethodSpec,
    model: TrainableImages | TrainableTexts,
    training: TrainingData,
    validation: TrainingData,
    resources: Resources,
    holder: Holder,
    saves: CheckpointStore,
    manifest: ModelManifest,
) -> Hardened:
    params = job.params
    if not isinstance(params, TrainingParams):
        raise TypeError(f"{spec.slug} trains, and its parameters are no TrainingParams")
    curves: list[dict[str, float]] = []
    # So that an estimate of what is left is there from the beginning.
    told = {"epoch": 1, "epochs": params.epochs, "step": 0, "steps": -(-len(training.labels) // params.batch_size)}

    def on_progress(progress: Progress) -> None:
        told.update(asdict(progress), epoch=progress.epoch + 1)
        holder.report(dict(told), list(curves))

    def on_epoch(points: list[dict[str, float]]) -> None:
        curves[:] = points
        holder.report(dict(told), list(curves))

    def save(checkpoint: Checkpoint) -> None:
        saves.write(checkpoint.tensors, {DOCUMENT: json.dumps(dict(checkpoint.document))}, force=False)

    saved = saves.read()
    holder.report(dict(told), [])
    library = Library.of(resources.settings)
    vectors = library.word_vectors()
    with tempfile.TemporaryDirectory(prefix="seatrial-training-") as folder:
        outcome = train(
            model,
            spec.load()(params, model),
            params,
            training,
            validation,
            seed=job.seed,
            checkpoint=None if saved is None else Checkpoint(dict(saved), json.loads(saved.notes[DOCUMENT])),
            save=save,
            is_save_due=saves.is_due,
            folder=Path(folder),
            library=library,
            vectors=load_word_vectors(vectors) if isinstance(vectors, Found) and _is_of_texts(model) else None,
            on_progress=on_progress,
            on_epoch=on_epoch,
            check_cancelled=holder.check_cancelled,
        )
    holder.confirm()
    path = resources.store.local_path(job.model.digest)
    written = write_back(manifest, path, job.model.format, model.module, resources.settings)
    notes = [FIXED] if model.has_fixed_graph else []
    if outcome.skipped:
        notes.append(f"{outcome.skipped} steps had no direction and were skipped.")
    if outcome.micro_batch_size < (params.micro_batch_size or params.batch_size):
        notes.append(f"Memory ran out: micro-batches of {outcome.micro_batch_size} examples were used in the end.")
    return Hardened(
        digest=resources.store.put_bytes(written.file),
        size_bytes=len(written.file),
        weights_digest=resources.store.put_bytes(written.weights),
        weights_bytes=len(written.weights),
        recalibration=None,
        kept_epoch=outcome.kept_epoch + 1,
        notes=notes,
        curves=outcome.curves,
        seconds=saves.spent_s(),
    )


def _fitted(
    job: HardeningJob,
    spec: MethodSpec,
    model: TrainableImages | TrainableTexts,
    validation: TrainingData,
    holder: Holder,
    saves: CheckpointStore,
) -> Hardened:
    logits: list[Tensor] = []
    with evaluating(model), torch.no_grad():
        for batch in in_order(validation, READ_AT_ONCE, model.device):
            holder.check_cancelled()
            logits.append(model.logits(batch.inputs).cpu())
    how = spec.load()(job.params, torch.cat(logits), torch.as_tensor(validation.labels))
    holder.confirm()
    return Hardened(
        digest=job.model.digest,
        size_bytes=job.model.size_bytes,
        weights_digest=job.model.weights_digest,
        weights_bytes=job.model.weights_bytes,
        recalibration=dict(how),
        kept_epoch=None,
        notes=["The weights are as they were: a map of logits was fitted, and the new version applies it."],
        curves=[],
        seconds=saves.spent_s(),
    )


def _is_of_texts(model: TrainableImages | TrainableTexts) -> bool:
    return isinstance(model, TrainableTexts)


def _trainable(job: HardeningJob, resources: Resources, manifest: ModelManifest) -> TrainableImages | TrainableTexts:
    if manifest.task in ARRAYS:
        classifier = resources.classifier(job.model)
        if isinstance(classifier.module, Passes):
            raise PreflightError(
                "not-trainable",
                "The model cannot be trained",
                "it is of several passes (an ensemble, or Monte-Carlo dropout): harden a network by itself, and make "
                "the ensemble of the results",
                field="/model",
            )
        if not isinstance(classifier, ImageEndpoint):
            return TrainableImages(classifier)
    else:
        text_classifier = resources.scoring(job.model).classifier
        if isinstance(text_classifier, HuggingFaceTextClassifier):
            return TrainableTexts(text_classifier)
    raise PreflightError(
        "not-trainable",
        "The model cannot be trained",
        f"architecture {manifest.architecture.kind} has no weights here",
        field="/model",
    )


@dataclass(frozen=True)
class _Reader:
    """Reads datasets as the model takes them."""

    resources: Resources
    model: TrainableImages | TrainableTexts

    def data(self, row: DatasetRow, positions: NDArray[np.int64] | None = None) -> Images | Texts:
        """Return a dataset, or some of its examples."""
        if isinstance(self.model, TrainableTexts):
            texts = self.resources.texts(row)
            return Texts(texts, np.arange(len(texts.labels)) if positions is None else positions)
        dataset = self._arrays(row)
        return Images(dataset, np.arange(len(dataset.labels)) if positions is None else positions)

    def _arrays(self, row: DatasetRow) -> ImageDataset:
        classifier = getattr(self.model, "classifier", None)
        if row.task == TABLES and isinstance(classifier, TableClassifier):
            return StandardisedRows(self.resources.table(row), classifier.features)
        return self.resources.dataset(row)


@dataclass(frozen=True)
class _AsRows:
    """Rows of a table as vectors: what an example shows is its numbers, not levels of grey."""

    data: TrainingData

    @property
    def labels(self) -> NDArray[np.int64]:
        return self.data.labels

    def read(self, positions: Sequence[int]) -> Raw:
        rows = self.data.read(positions)
        return rows.flatten(1) if isinstance(rows, Tensor) else rows


def _split(job: HardeningJob, read: _Reader) -> tuple[TrainingData, TrainingData]:
    """Return what is trained on, and what every epoch is judged on."""
    everything = read.data(job.dataset)
    if job.validation is not None:
        return everything, read.data(job.validation)
    if not methods()[job.params.method].trains:
        return everything, everything
    count = held_out_of(len(everything.labels))
    held = np.sort(stratified_sample(everything.labels, count, derive_seed(job.seed, "training", "held out")))
    rest = np.setdiff1d(np.arange(len(everything.labels)), held)
    return read.data(job.dataset, rest), read.data(job.dataset, held)


def _refuse_audited(job: HardeningJob, read: _Reader, holder: Holder) -> None:
    """Refuse what holds any example of the audited dataset, drawn or not: another seed would draw it."""
    sources = {"/dataset": job.dataset} | ({} if job.validation is None else {"/validation_dataset": job.validation})
    for field, row in sources.items():
        wanted = _vectors_of_tables(row)(read.data(row))
        audited = _examples(_vectors_of_tables(row)(read.data(job.audited)), holder)
        refuse_overlap(wanted, audited, field=field)


def _vectors_of_tables(row: DatasetRow) -> Callable[[TrainingData], TrainingData]:
    return _AsRows if row.task == TABLES else lambda data: data


def _examples(data: TrainingData, holder: Holder) -> Iterator[Tensor | Text]:
    count = len(data.labels)
    for start in range(0, count, READ_AT_ONCE):
        holder.check_cancelled()
        yield from data.read(range(start, min(start + READ_AT_ONCE, count)))
