"""A whole check in memory: what the runtime does, without it."""

import hashlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import torch
from torch import Tensor

from app.contracts.estimates import Result
from workers.families.protocol import SAMPLE, AnyFamily, Batch, Records, Saved, Shard

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
    """What a shard is given."""

    classifier: Model
    data: Data
    shard: Shard
    batch_size: int
    examples: int = 0
    models: Mapping[str, Model] = field(default_factory=dict)
    done: Mapping[str, Records] = field(default_factory=dict)
    device: torch.device = field(default=torch.device("cpu"))
    autocast: torch.dtype | None = None
    ticks: int = 0
    told: int = 0
    further: Mapping[str, Data] = field(default_factory=dict)
    kept: Saved | None = None
    saves: int = 0

    def batches(self) -> Iterator[Batch]:
        images, labels = self.data
        for start in range(self.shard.start, self.shard.stop, self.batch_size):
            stop = min(start + self.batch_size, self.shard.stop)
            yield Batch([1000 + i for i in range(start, stop)], images[start:stop], labels[start:stop])

    def together(self) -> Batch:
        images, labels = self.data
        start, stop = self.shard.start, self.shard.stop
        return Batch([1000 + i for i in range(start, stop)], images[start:stop], labels[start:stop])

    def examples_of(self, parameter: str) -> Data:
        return self.further[parameter]

    def tick(self) -> None:
        self.ticks += 1

    def progress(self, done: int) -> None:
        assert self.told <= done <= self.shard.stop - self.shard.start
        self.told = done

    def seed(self, purpose: str, example_id: int) -> int:
        return int.from_bytes(hashlib.sha256(f"{purpose} {example_id}".encode()).digest()[:7], "big")

    def generators(self, purpose: str, example_ids: list[int]) -> list[torch.Generator]:
        return [torch.Generator().manual_seed(self.seed(purpose, key)) for key in example_ids]

    def model(self, parameter: str) -> Model:
        return self.models[parameter]

    def records(self, stage: str) -> Records:
        return self.done[stage]

    def saved(self) -> Saved | None:
        return self.kept

    def save(self, state: Mapping[str, Tensor], notes: Mapping[str, str] | None = None, *, force: bool = False) -> None:
        """Keep every state, whether forced or not: a test may resume at any of them."""
        self.tick()
        self.saves += 1
        self.kept = Saved({name: tensor.detach().to("cpu", copy=True) for name, tensor in state.items()}, notes or {})


def run_check(
    family: AnyFamily,
    params: Any,
    model: Model,
    data: Data,
    *,
    batch_size: int = 16,
    shards: int = 1,
    further: Data | None = None,
    models: Mapping[str, Model] | None = None,
    autocast: torch.dtype | None = None,
    data_of: Mapping[str, Data] | None = None,
) -> tuple[Result, dict[str, Records]]:
    """Run every stage in shards of whole grains and reduce."""
    done: dict[str, Records] = {}
    while (stage := family.next_stage(params, done)) is not None:
        source = data if stage.source == SAMPLE else further
        assert source is not None
        count = min(len(source[0]), stage.limit or len(source[0]))
        grain = stage.grain or batch_size
        step = -(-count // grain // shards) * grain
        pieces = [Shard(stage.name, start, min(start + step, count)) for start in range(0, count, step)]
        tables = [
            family.run(
                params,
                piece,
                Context(
                    *(model, source, piece, batch_size, count, models or {}, done),
                    autocast=autocast,
                    further=data_of or {},
                ),
            )
            for piece in pieces
        ]
        done[stage.name] = pa.concat_tables(tables)
    return family.reduce(params, done, 0), done
