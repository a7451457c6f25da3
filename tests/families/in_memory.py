"""A whole check in memory: what the runtime does, without it."""

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

import pyarrow as pa
import torch
from torch import Tensor

from seatrial.contracts.estimates import Result
from seatrial.contracts.registry import family as family_spec
from seatrial.families.shared.means import with_declared_means
from workers.attacks.text.scoring import ScoringService
from workers.data import Text
from workers.families.contexts import Batch, Checkpoint, LabelledText, Records
from workers.families.protocol import SAMPLE, AnyFamily, Shard, Stage
from workers.models import TextClassifier, UnansweredError

Data = tuple[Tensor, Tensor]


@dataclass(frozen=True)
class Model:
    """A classifier made of a function."""

    function: Callable[[Tensor], Tensor]
    classes: int
    device: torch.device = field(default=torch.device("cpu"))

    def logits(self, images: Tensor) -> Tensor:
        return self.function(images)


@dataclass(frozen=True)
class TextModel:
    """A classifier of texts, or a tagger, made of a function of one text."""

    function: Callable[[Text], Tensor | UnansweredError]
    labels: list[str]
    device: torch.device = field(default=torch.device("cpu"))
    preferred_texts: int = 64

    @property
    def classes(self) -> int:
        return len(self.labels)

    def logits(self, texts: Sequence[Text]) -> list[Tensor | UnansweredError]:
        return [self.function(text) for text in texts]


class Books:
    """What a shard is given whatever its model takes: randomness, earlier records, a place to save."""

    shard: Shard
    done: Mapping[str, Records]
    ticks: int
    told: int
    kept: Checkpoint | None
    saves: int
    samples: int = 1000

    def check_cancelled(self) -> None:
        self.ticks += 1

    def progress(self, done: int) -> None:
        assert self.told <= done <= self.shard.stop - self.shard.start
        self.told = done

    def seed(self, purpose: str, example_id: int) -> int:
        return int.from_bytes(hashlib.sha256(f"{purpose} {example_id}".encode()).digest()[:7], "big")

    def salted_seed(self, purpose: str, example_id: int) -> int:
        return self.seed(purpose, example_id)

    def generators(self, purpose: str, example_ids: list[int]) -> list[torch.Generator]:
        return [torch.Generator().manual_seed(self.seed(purpose, key)) for key in example_ids]

    def records(self, stage: str) -> Records:
        return self.done[stage]

    def checkpoint(self) -> Checkpoint | None:
        return self.kept

    def save(self, state: Mapping[str, Tensor], notes: Mapping[str, str] | None = None, *, force: bool = False) -> None:
        """Keep every state, whether forced or not: a test may resume at any of them."""
        self.check_cancelled()
        self.saves += 1
        self.kept = Checkpoint(
            {name: tensor.detach().to("cpu", copy=True) for name, tensor in state.items()}, notes or {}
        )


@dataclass
class Context(Books):
    """What a shard of images is given."""

    classifier: Model
    data: Data
    shard: Shard
    batch_size: int
    examples: int = 0
    models: Mapping[str, Model] = field(default_factory=dict)
    done: Mapping[str, Records] = field(default_factory=dict)
    device: torch.device = field(default=torch.device("cpu"))
    autocast: torch.dtype | None = None
    model_digest: str = "sha256:0"
    ticks: int = 0
    told: int = 0
    further: Mapping[str, Data] = field(default_factory=dict)
    kept: Checkpoint | None = None
    saves: int = 0

    def shared(self, purpose: str, make: Callable[[], dict[str, Tensor]]) -> dict[str, Tensor]:
        return make()

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

    def model(self, parameter: str) -> Model:
        return self.models[parameter]


@dataclass
class TextContext(Books):
    """What a shard of texts is given: ``service`` answers the examples of ``sample``."""

    task: str
    sample: Sequence[LabelledText]
    service: ScoringService
    shard: Shard
    examples: int = 0
    done: Mapping[str, Records] = field(default_factory=dict)
    device: torch.device = field(default=torch.device("cpu"))
    autocast: torch.dtype | None = None
    ticks: int = 0
    told: int = 0
    kept: Checkpoint | None = None
    saves: int = 0

    def labelled(self) -> list[LabelledText]:
        return list(self.sample[self.shard.start : self.shard.stop])

    def scoring(self, parameter: str | None = None) -> ScoringService:
        assert parameter is None
        return self.service


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
    reduce: bool = True,
    done: Mapping[str, Records] = MappingProxyType({}),
    watch: Callable[[str], None] = lambda stage: None,
) -> tuple[Result, dict[str, Records]]:
    """Run every stage that is not done in shards of whole grains, and reduce; else there is no result.

    Reducing takes most of some checks. Each stage is told when it has ended.
    """

    def source(stage: Stage) -> Data:
        found = data if stage.source == SAMPLE else further
        assert found is not None
        return found

    def context(stage: Stage, piece: Shard, count: int, done: Mapping[str, Records]) -> Context:
        return Context(
            *(model, source(stage), piece, batch_size, count, models or {}, done),
            autocast=autocast,
            further=data_of or {},
        )

    return _run(
        *(family, params, lambda stage: len(source(stage)[0]), context, batch_size, shards),
        reduce=reduce,
        done=done,
        watch=watch,
    )


def run_text_check(
    family: AnyFamily,
    params: Any,
    model: TextClassifier,
    sample: Sequence[LabelledText],
    *,
    task: str,
    batch_size: int = 16,
    shards: int = 1,
) -> tuple[Result, dict[str, Records]]:
    """Run every stage over labelled texts in shards of whole grains and reduce; each shard has a service of its own."""

    def context(_stage: Stage, piece: Shard, count: int, done: Mapping[str, Records]) -> TextContext:
        return TextContext(task, sample, ScoringService(model, max_bytes=1 << 24), piece, count, done)

    return _run(family, params, lambda _stage: len(sample), context, batch_size, shards)


def _run(
    family: AnyFamily,
    params: Any,
    available: Callable[[Stage], int],
    context: Callable[[Stage, Shard, int, Mapping[str, Records]], Any],
    batch_size: int,
    shards: int,
    *,
    reduce: bool = True,
    done: Mapping[str, Records] = MappingProxyType({}),
    watch: Callable[[str], None] = lambda stage: None,
) -> tuple[Result, dict[str, Records]]:
    done = dict(done)
    while (stage := family.next_stage(params, done)) is not None:
        there = available(stage)
        count = min(there, stage.limit or there)
        grain = stage.grain or batch_size
        step = -(-count // grain // shards) * grain
        pieces = [Shard(stage.name, start, min(start + step, count)) for start in range(0, count, step)]
        done[stage.name] = pa.concat_tables(
            [family.run(params, piece, context(stage, piece, count, done)) for piece in pieces]
        )
        watch(stage.name)
    if not reduce:
        return Result(estimates={}, counts={}), done
    spec, stored = family_spec(params.kind), params.model_dump(mode="json")
    return with_declared_means(family.reduce(params, done, 0), spec, stored, done.get), done
