"""What a family sees while it runs one shard."""

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray

from app.core.tables import DatasetRow, ModelRow
from workers.attacks.text.scoring import Meters, ScoringService
from workers.data import ImageDataset, TextDataset
from workers.data.sampling import stratified_sample
from workers.families.protocol import Batch, Records, Shard, TextExample
from workers.runtime.claims import Claim
from workers.runtime.resources import Resources
from workers.runtime.seeds import derive_seed, example_generators
from workers.runtime.stored import StoredRecords
from workers.targets.endpoint import EndpointClassifier
from workers.targets.image_classifier import ImageClassifier


@dataclass(frozen=True)
class ShardJob:
    """Everything about one shard that the database says.

    Attributes:
        source: The dataset the stage runs over: the audit's own or a further one.
        is_further_source: Whether it is a further one, whose images are brought to the model's shape.
        is_held_out: Whether the stage runs over what the audit's sample leaves of its dataset.
        examples: Examples of the stage, all its shards together.
        further_models: Other models by the parameter naming them.
        further_datasets: Other datasets by the parameter naming them.
        earlier: Artifacts of the records of the stages before this one.
        sent: Texts this check's other shards have sent through a text model so far.
    """

    check_id: str
    kind: str
    params: dict[str, object]
    shard: Shard
    seed: int
    samples: int
    batch_size: int
    model: ModelRow
    source: DatasetRow
    is_further_source: bool
    is_held_out: bool
    examples: int
    further_models: dict[str, ModelRow]
    further_datasets: dict[str, DatasetRow]
    earlier: dict[str, list[str]]
    sent: int


class ShardContext:
    """Gives a family its batches, its randomness and its models; see :class:`workers.families.protocol.RunContext`."""

    def __init__(self, job: ShardJob, resources: Resources, claim: Claim) -> None:
        self._job = job
        self._resources = resources
        self._claim = claim
        self._earlier = StoredRecords(job.earlier, resources)
        self._asked: tuple[ScoringService, Meters] | None = None

    @property
    def classifier(self) -> ImageClassifier:
        """The model under audit."""
        return self._resources.classifier(self._job.model)

    @property
    def dataset(self) -> ImageDataset:
        """The dataset the stage runs over."""
        # A digit can be an outlier among photographs: further datasets are brought to the model's channels and size.
        # The audited dataset is not: there, another shape is a mistake the preflight names.
        channels = self.classifier.input_shape[0] if self._job.is_further_source else None
        return self._resources.dataset(self._job.source, channels)

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

    def _chosen(self, labels: NDArray[np.int64]) -> NDArray[np.int64]:
        job = self._job
        sample = stratified_sample(labels, job.samples if not job.is_further_source else job.examples, job.seed)
        if job.is_held_out:
            rest = np.setdiff1d(np.arange(len(labels)), sample)
            sample = rest[stratified_sample(labels[rest], job.examples, derive_seed(job.seed, "held out"))]
        return sample[job.shard.start : job.shard.stop]

    def batches(self) -> Iterator[Batch]:
        """Yield the shard's batches; see :class:`workers.families.protocol.RunContext`."""
        positions = self.positions()
        for first in range(0, len(positions), self._job.batch_size):
            self._claim.look()
            chosen = positions[first : first + self._job.batch_size]
            ids = [int(position) for position in chosen]
            yield Batch(
                example_ids=ids,
                images=self._fitted(self.dataset.images(ids)).to(self.device),
                labels=torch.as_tensor(self.dataset.labels[chosen], dtype=torch.int64, device=self.device),
            )
            if first + len(ids) < len(positions):
                # The last batch is told with the shard's end.
                self._claim.progress(first + len(ids))

    def _fitted(self, images: torch.Tensor) -> torch.Tensor:
        size = self.classifier.input_shape[1:]
        if not self._job.is_further_source or images.shape[2:] == size:
            return images
        return F.interpolate(images, size, mode="bilinear", align_corners=False, antialias=True).clamp(0, 1)

    def tick(self) -> None:
        """Stop here if there is a reason to."""
        self._claim.tick()

    def generators(self, purpose: str, example_ids: list[int]) -> list[torch.Generator]:
        """Return one generator per example."""
        return example_generators(self._job.seed, self._job.kind, purpose, example_ids)

    def model(self, parameter: str) -> ImageClassifier:
        """Return the further model a parameter names."""
        return self._resources.classifier(self._job.further_models[parameter])

    @property
    def text_dataset(self) -> TextDataset:
        """The dataset of texts the stage runs over."""
        return self._resources.texts(self._job.source)

    def further_texts(self) -> dict[str, TextDataset]:
        """Return the further datasets of texts by the parameter naming them."""
        return {parameter: self._resources.texts(row) for parameter, row in self._job.further_datasets.items()}

    def text_positions(self) -> NDArray[np.int64]:
        """Return the dataset positions of this shard's texts, in order."""
        return self._chosen(self.text_dataset.labels)

    def texts(self) -> list[TextExample]:
        """Return the shard's examples of a text dataset, in order."""
        dataset, positions = self.text_dataset, [int(position) for position in self.text_positions()]
        labels = dataset.labels[positions]
        return [
            TextExample(position, text, int(label))
            for position, text, label in zip(positions, dataset.texts(positions), labels, strict=True)
        ]

    def progress(self, done: int) -> None:
        """Tell how many of the shard's examples are done."""
        # The last one is told with the shard's end.
        if done < self._job.shard.stop - self._job.shard.start:
            self._claim.progress(done)

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
            service.classifier.work_for(self._claim.tick, spent=spent)

    def asked(self) -> tuple[int, int] | None:
        """Return how often this shard asked the text model under audit and what it computed; None if it did not."""
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

    def records(self, stage: str) -> Records:
        """Return the records of a finished stage of this check."""
        return self._earlier[stage]
