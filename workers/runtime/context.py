"""What a family sees while it runs one shard."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from math import prod

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray

from seatrial.contracts.models import TAGGING
from seatrial.store.tables import DatasetRow
from workers.attacks.text.scoring import Meters, ScoringService
from workers.data import ImageDataset, TaggedDataset, TextDataset
from workers.data.channels import check_batch_bytes
from workers.data.predictions import Predictions, join_predictions, strata_of_arms
from workers.data.sampling import strata, stratified_sample
from workers.data.tables import StandardisedRows
from workers.data.texts import of_classes
from workers.families.contexts import (
    Batch,
    Checkpoint,
    LabelledText,
    PredictionsContext,
    Records,
    ResumableImageContext,
    ResumableTextContext,
    TextExample,
)
from workers.models import levels_of
from workers.models.endpoint import EndpointClassifier
from workers.models.endpoint_images import on_levels
from workers.models.image_classifier import ImageClassifier
from workers.models.image_endpoint import ImageEndpoint
from workers.models.table_classifier import TableClassifier
from workers.runtime.checkpointing import CheckpointStore
from workers.runtime.executor import Holder
from workers.runtime.jobs import ShardJob
from workers.runtime.resources import Resources
from workers.runtime.seeds import derive_seed, example_generators
from workers.runtime.stored import StoredRecords

_PIECE_BYTES = 64 * 2**20
"""Decoded images of another shape than the model's that are in memory at once."""


class ShardContext(ResumableImageContext, ResumableTextContext, PredictionsContext):
    """Gives a family its examples, its randomness and its models; see :mod:`workers.families.contexts`."""

    def __init__(self, job: ShardJob, resources: Resources, holder: Holder) -> None:
        self._job = job
        self._resources = resources
        self._holder = holder
        self._earlier = StoredRecords(job.earlier, resources.store)
        self._standardised: dict[str, StandardisedRows] = {}
        self._asked: tuple[ScoringService, Meters] | None = None
        self._asked_endpoint: tuple[ImageEndpoint, int] | None = None
        self._checkpoints = CheckpointStore(
            resources.store, holder, belongs_to=job.belongs_to(), digest=job.checkpoint, may_resume=job.may_resume
        )

    @property
    def resources(self) -> Resources:
        """What loads models and datasets."""
        return self._resources

    @property
    def classifier(self) -> ImageClassifier:
        """The model under audit."""
        classifier = self._resources.classifier(self._job.model)
        if isinstance(classifier, ImageEndpoint) and self._asked_endpoint is None:
            classifier.endpoint.work_for(self._holder.check_cancelled, spent=self._job.sent)
            self._asked_endpoint = classifier, classifier.queries
        return classifier

    @property
    def model_digest(self) -> str:
        """Digest of the file of the model under audit."""
        return self._job.model.digest

    @property
    def dataset(self) -> ImageDataset:
        """The dataset the stage runs over."""
        # A digit can be an outlier among photographs: further datasets are brought to the model's channels and size.
        # The audited dataset is not: there, another shape is a mistake the preflight names.
        channels = self.classifier.input_shape[0] if self._job.is_further_source else None
        return self._dataset(self._job.source, channels)

    def _dataset(self, row: DatasetRow, channels: int | None) -> ImageDataset:
        if isinstance(self.classifier, TableClassifier):
            if row.id not in self._standardised:
                self._standardised[row.id] = StandardisedRows(self._resources.table(row), self.classifier.features)
            return self._standardised[row.id]
        return self._resources.dataset(row, channels)

    @property
    def device(self) -> torch.device:
        """Where the classifier computes."""
        return self._resources.device

    @property
    def examples(self) -> int:
        """Examples of the stage."""
        return self._job.examples

    @property
    def autocast(self) -> torch.dtype | None:
        """The dtype the operator allows networks to compute in."""
        return self._resources.autocast

    def positions(self) -> NDArray[np.int64]:
        """Return the dataset positions of this shard's examples, in order."""
        return self._chosen(self.dataset.labels)

    def labels_of_sample(self, labels: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return those (samples,) of a dataset's labels (n,) that the whole sample has, of which a shard is a part."""
        return labels[stratified_sample(labels, self._job.samples, self._job.seed)]

    def _chosen(self, strata: NDArray[np.int64]) -> NDArray[np.int64]:
        job = self._job
        sample = stratified_sample(strata, job.samples if not job.is_further_source else job.examples, job.seed)
        if job.is_held_out:
            rest = np.setdiff1d(np.arange(len(strata)), sample)
            if len(rest):
                rest = rest[stratified_sample(strata[rest], job.examples, derive_seed(job.seed, "held out"))]
            sample = rest
        return sample[job.shard.start : job.shard.stop]

    def batches(self) -> Iterator[Batch]:
        """Yield the shard's batches; see :class:`workers.families.contexts.RunContext`."""
        positions = self.positions()
        for first in range(0, len(positions), self._job.batch_size):
            self._holder.poll_cancelled()
            chosen = positions[first : first + self._job.batch_size]
            yield self._batch(chosen)
            if first + len(chosen) < len(positions):
                # The last batch is told with the shard's end.
                self._holder.progress(first + len(chosen))

    def together(self) -> Batch:
        """Return all of the shard's examples as one batch."""
        self._holder.poll_cancelled()
        return self._batch(self.positions())

    def _batch(self, positions: NDArray[np.int64]) -> Batch:
        ids = [int(position) for position in positions]
        dataset = self.dataset
        images = self._fitted(dataset, ids, self._job.source) if self._job.is_further_source else dataset.images(ids)
        images = on_levels(images, levels_of(self.classifier))
        return Batch(
            example_ids=ids,
            images=images.to(self.device),
            labels=torch.as_tensor(self.dataset.labels[positions], dtype=torch.int64, device=self.device),
        )

    def examples_of(self, parameter: str) -> tuple[torch.Tensor, torch.Tensor]:
        """Return images and labels of a further dataset, brought to the model's shape."""
        row = self._job.further_datasets[parameter]
        dataset = self._dataset(row, self.classifier.input_shape[0])
        images = self._fitted(dataset, range(len(dataset.labels)), row)
        return images, torch.as_tensor(dataset.labels, dtype=torch.int64)

    def _fitted(self, dataset: ImageDataset, ids: Sequence[int], row: DatasetRow) -> torch.Tensor:
        """Return images of a dataset brought to the model's shape, a few at a time: they may be larger than its own."""
        shape = self.classifier.input_shape
        check_batch_bytes(len(ids), shape, self._resources.settings)
        images = torch.empty((len(ids), *shape))
        stated = row.facts.get("shape")
        step = max(1, _PIECE_BYTES // (4 * prod((shape[0], *stated[1:])))) if stated else 1
        for first in range(0, len(ids), step):
            images[first : first + step] = self._resized(dataset.images(ids[first : first + step]))
        return images

    def _resized(self, images: torch.Tensor) -> torch.Tensor:
        size = self.classifier.input_shape[1:]
        if images.shape[2:] == size:
            return images
        return F.interpolate(images, size, mode="bilinear", align_corners=False, antialias=True).clamp(0, 1)

    def shared(self, purpose: str, make: Callable[[], dict[str, torch.Tensor]]) -> dict[str, torch.Tensor]:
        """Return what several shards of this check need alike; see :class:`workers.families.contexts.ImageContext`."""
        return self._resources.shared.get(self._job.check_id, (self._job.model.digest, purpose), make)

    def clean_logits(self, example_ids: Sequence[int], images: torch.Tensor) -> torch.Tensor:
        """Return the logits (batch, classes) of images as they are: computed by the first check of an audit that asks.

        Args:
            example_ids: Their ids; the same ones in one batch, as a batch's size may show in last bits.
            images: (batch, channels, height, width), on the model's device.
        """
        made: list[torch.Tensor] = []

        def make() -> dict[str, torch.Tensor]:
            with torch.no_grad():
                made.append(self.classifier.logits(images))
            return {"logits": made[0]}

        logits = self._resources.clean.get(self._job.audit_id, (self._job.source.id, *example_ids), make)["logits"]
        # What was not answered then, as an endpoint was away, may be now.
        return logits if made or bool(logits.isfinite().all()) else make()["logits"]

    def check_cancelled(self) -> None:
        """Stop here if there is a reason to."""
        self._holder.check_cancelled()

    def generators(self, purpose: str, example_ids: list[int]) -> list[torch.Generator]:
        """Return one generator per example."""
        return example_generators(self._job.seed, self._job.kind, purpose, example_ids)

    def model(self, parameter: str) -> ImageClassifier:
        """Return the further model a parameter names."""
        return self._resources.classifier(self._job.further_models[parameter])

    @property
    def task(self) -> str:
        """What the model under audit does."""
        return self._job.model.task

    @property
    def text_dataset(self) -> TextDataset:
        """The dataset of texts the stage runs over."""
        return self._resources.texts(self._job.source)

    @property
    def tagged_dataset(self) -> TaggedDataset:
        """The dataset of tagged sentences the stage runs over."""
        return self._resources.sentences(self._job.source)

    def further_texts(self) -> dict[str, TextDataset]:
        """Return the further datasets of texts by the parameter naming them."""
        return {parameter: self._resources.texts(row) for parameter, row in self._job.further_datasets.items()}

    def text_positions(self) -> NDArray[np.int64]:
        """Return the dataset positions of this shard's texts or sentences, in order."""
        if self.task == TAGGING:
            return self._chosen(np.zeros(len(self.tagged_dataset), dtype=np.int64))
        return self._chosen(strata(self.text_dataset.labels))

    def texts(self) -> list[TextExample]:
        """Return the shard's examples of a text dataset, in order."""
        dataset, positions = self.text_dataset, [int(position) for position in self.text_positions()]
        labels = dataset.labels[positions]
        return [
            TextExample(position, text, int(label))
            for position, text, label in zip(positions, dataset.texts(positions), labels, strict=True)
        ]

    def labelled(self) -> list[LabelledText]:
        """Return the shard's examples of a dataset of texts of any task, in order."""
        positions = [int(position) for position in self.text_positions()]
        if self.task == TAGGING:
            sentences = [self.tagged_dataset.sentence(position) for position in positions]
            return [
                LabelledText(position, tuple(tokens), tuple(tags))
                for position, (tokens, tags) in zip(positions, sentences, strict=True)
            ]
        dataset = self.text_dataset
        labels = dataset.labels[positions]
        classes = self._resources.scoring(self._job.model).classifier.classes
        truths = (labels[:, None] if labels.ndim == 1 else of_classes(labels, classes)).tolist()
        return [
            LabelledText(position, text, tuple(of_text))
            for position, text, of_text in zip(positions, dataset.texts(positions), truths, strict=True)
        ]

    def predictions(self) -> Predictions:
        """Return the shard's examples of a table of predictions, in order, with what the model answered."""
        self._holder.poll_cancelled()
        truths = self._resources.truths(self._job.source)
        answers = self._resources.answers(self._job.model)
        positions = self._chosen(strata_of_arms(truths))
        return join_predictions(truths, answers, positions)

    def progress(self, done: int) -> None:
        """Tell how many of the shard's examples are done."""
        # The last one is told with the shard's end.
        if done < self._job.shard.stop - self._job.shard.start:
            self._holder.progress(done)

    def scoring(self, parameter: str | None = None) -> ScoringService:
        """Return the scoring service of the text model under audit, or of a further one."""
        if parameter is not None:
            service = self._resources.scoring(self._job.further_models[parameter])
            self._accompany(service, spent=0)
            return service
        if self._asked is None:
            service = self._resources.scoring(self._job.model)
            self._accompany(service, spent=self._job.sent)
            self._asked = service, replace(service.meters)
        return self._asked[0]

    def _accompany(self, service: ScoringService, *, spent: int) -> None:
        """Let an endpoint's waits be interrupted, and its query budget begin where this check's other shards are."""
        if isinstance(service.classifier, EndpointClassifier):
            service.classifier.work_for(self._holder.check_cancelled, spent=spent)

    def asked(self) -> tuple[int, int] | None:
        """Return how often this shard asked the model under audit and what it computed; None if it did not.

        Models of images are asked so often that only what an endpoint is sent is counted.
        """
        if self._asked_endpoint is not None:
            endpoint, queries = self._asked_endpoint
            return endpoint.queries - queries, endpoint.endpoint.sent
        if self._asked is None:
            return None
        service, before = self._asked
        spent = service.meters.since(before)
        passes = spent.forward_passes
        if isinstance(service.classifier, EndpointClassifier):
            # A text sent again is paid for again.
            passes = service.classifier.sent
        return spent.queries, passes

    def seed(self, purpose: str, example_id: int) -> int:
        """Return a seed made of what it is for alone."""
        return derive_seed(self._job.seed, self._job.kind, purpose, example_id)

    @property
    def samples(self) -> int:
        """Examples that the audit draws."""
        return self._job.samples

    def salted_seed(self, purpose: str, example_id: int) -> int:
        """Return a seed made of what it is for and of the audit's salt; see :class:`...contexts.RunContext`."""
        if self._job.salt is None:
            return self.seed(purpose, example_id)
        return derive_seed(self._job.seed, self._job.salt, self._job.kind, purpose, example_id)

    def records(self, stage: str) -> Records:
        """Return the records of a finished stage of this check."""
        return self._earlier[stage]

    def checkpoint(self) -> Checkpoint | None:
        """Return what this shard saved last; see :class:`workers.families.contexts.RunContext`."""
        return self._checkpoints.read()

    def save(
        self, state: Mapping[str, torch.Tensor], notes: Mapping[str, str] | None = None, *, force: bool = False
    ) -> None:
        """Keep a state from which the shard can go on; see :class:`workers.families.contexts.RunContext`."""
        self._checkpoints.write(state, notes or {}, force=force)

    def spent_s(self) -> float:
        """Return the seconds the shard has taken, with those of earlier attempts up to what this one resumed."""
        return self._checkpoints.spent_s()
