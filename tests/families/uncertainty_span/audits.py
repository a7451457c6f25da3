"""A whole check in memory: what the runtime does, without it."""

import hashlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

import pyarrow as pa
import torch
from torch import Tensor

from app.contracts.estimates import Result
from app.contracts.families.uncertainty_span import UncertaintySpanParams
from workers.families.protocol import SAMPLE, Batch, Records, Shard
from workers.families.uncertainty_span.family import FAMILY

Data = tuple[Tensor, Tensor]


@dataclass(frozen=True)
class Model:
    """A classifier made of a function."""

    function: Callable[[Tensor], Tensor]
    classes: int
    device: torch.device = field(default=torch.device("cpu"))

    def logits(self, images: Tensor) -> Tensor:
        return self.function(images)


@dataclass
class Context:
    classifier: Model
    data: Data
    shard: Shard
    batch_size: int
    models: Mapping[str, Model]
    device: torch.device = field(default=torch.device("cpu"))
    ticks: int = 0

    def batches(self) -> Iterator[Batch]:
        images, labels = self.data
        for start in range(self.shard.start, self.shard.stop, self.batch_size):
            stop = min(start + self.batch_size, self.shard.stop)
            yield Batch([1000 + i for i in range(start, stop)], images[start:stop], labels[start:stop])

    def tick(self) -> None:
        self.ticks += 1

    def generators(self, purpose: str, example_ids: list[int]) -> list[torch.Generator]:
        digests = [hashlib.sha256(f"{purpose} {key}".encode()).digest() for key in example_ids]
        return [torch.Generator().manual_seed(int.from_bytes(digest[:7], "big")) for digest in digests]

    def model(self, parameter: str) -> Model:
        return self.models[parameter]


def audit(
    params: UncertaintySpanParams,
    model: Model,
    data: Data,
    *,
    batch_size: int = 16,
    shards: int = 1,
    outliers: Data | None = None,
    models: Mapping[str, Model] | None = None,
) -> tuple[Result, dict[str, Records]]:
    """Run every stage in shards of whole batches and reduce."""
    done: dict[str, Records] = {}
    while (stage := FAMILY.next_stage(params, done)) is not None:
        source = data if stage.source == SAMPLE else outliers
        count = min(len(source[0]), stage.limit or len(source[0]))
        step = -(-count // batch_size // shards) * batch_size
        pieces = [Shard(stage.name, start, min(start + step, count)) for start in range(0, count, step)]
        tables = [
            FAMILY.run(params, piece, Context(model, source, piece, batch_size, models or {})) for piece in pieces
        ]
        done[stage.name] = pa.concat_tables(tables)
    return FAMILY.reduce(params, done, 0), done


def parameters(**changes: object) -> UncertaintySpanParams:
    return UncertaintySpanParams.model_validate({"kind": "uncertainty_span", "epsilon": 0.1, "steps": 10} | changes)


def network(seed: int, classes: int = 4) -> Model:
    """A small fixed network on 1x4x4 images whose predictions a ball of 0.1 can change on some."""
    generator = torch.Generator().manual_seed(seed)
    first = torch.randn(24, 16, generator=generator)
    second = torch.randn(classes, 24, generator=generator) * 0.6
    return Model(lambda x: torch.relu((x.flatten(1) - 0.5) @ first.T) @ second.T, classes)


NETWORK = network(0)
IMAGES = torch.rand(40, 1, 4, 4, generator=torch.Generator().manual_seed(1))
PREDICTIONS = NETWORK.logits(IMAGES).argmax(1)
# Three of four labels are what the network says.
LABELS = torch.where(torch.arange(40) % 4 > 0, PREDICTIONS, (PREDICTIONS + 1) % 4)
DATA = (IMAGES, LABELS)
