"""What a family sees while it runs one shard."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray

from app.core.tables import DatasetRow, ModelRow
from workers.data import ImageDataset
from workers.data.sampling import stratified_sample
from workers.families.protocol import Batch, Shard
from workers.runtime.claims import Claim
from workers.runtime.resources import Resources
from workers.runtime.seeds import example_generators
from workers.targets.image_classifier import ImageClassifier


@dataclass(frozen=True)
class ShardJob:
    """Everything about one shard that the database says.

    Attributes:
        source: The dataset the stage runs over: the audit's own or a further one.
        is_further_source: Whether it is a further one, whose images are brought to the model's shape.
        further_models: Other models by the parameter naming them.
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
    further_models: dict[str, ModelRow]


class ShardContext:
    """Gives a family its batches, its randomness and its models; see :class:`workers.families.protocol.RunContext`."""

    def __init__(self, job: ShardJob, resources: Resources, claim: Claim) -> None:
        self._job = job
        self._resources = resources
        self._claim = claim

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

    def positions(self) -> NDArray[np.int64]:
        """Return the dataset positions of this shard's examples, in order."""
        sample = stratified_sample(self.dataset.labels, self._job.samples, self._job.seed)
        return sample[self._job.shard.start : self._job.shard.stop]

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
