"""What a training method is, and what it is given."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import torch
from torch import Tensor

from workers.training.data import Batch, TrainingData
from workers.training.models import Trainable

if TYPE_CHECKING:
    from workers.resources.library import Library

ParamsT = TypeVar("ParamsT", contravariant=True)


@dataclass
class Step:
    """One step of the optimiser, as a method sees it.

    Attributes:
        model: What is trained, in train mode.
        epoch: From 0.
        number: Steps taken before it in this epoch.
        generator: Randomness of the method, on the CPU; its state is in every checkpoint.
        check_cancelled: Raises where the run is cancelled; called before each micro-batch, and by methods before each
            further forward pass.
        examples: Of the whole batch.
        micro: Examples whose graph is held at once, for a method that takes batches whole and cuts them up itself; None
            for all.
        scratch: What a method hands from one micro-batch of the step to the next; empty when the step begins.
    """

    model: Trainable
    epoch: int
    number: int
    generator: torch.Generator
    check_cancelled: Callable[[], None]
    examples: int
    micro: int | None = None
    scratch: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Preparation:
    """What a method may use before the first step.

    Attributes:
        model: What is trained, as it was given.
        seed: Of the run.
        folder: Where to keep what takes long, so that a resumed run finds it; None where nothing is kept.
        check_cancelled: Raises where the run is cancelled.
        library: Where resources of text attacks are; None for the default place.
        vectors: Counter-fitted word vectors; None where there are none.
    """

    model: Trainable
    seed: int
    folder: Path | None
    check_cancelled: Callable[[], None]
    library: "Library | None" = None
    vectors: Any = None


class Method(Protocol):
    """How one batch becomes a gradient; made as ``worker(params, model)`` once for a run.

    A method holds nothing that a step changes: what it needs from one step to the next is weights, optimiser or
    generator, which checkpoints hold.
    """

    divisible: bool
    """Whether a batch may be given in micro-batches; not where the loss couples its examples.

    A method that takes batches whole and holds the graph of ``Step.micro`` examples at once all the same says
    ``cuts_itself = True`` beside it.
    """

    def prepare(self, data: TrainingData, preparation: Preparation) -> TrainingData:
        """Return what is trained on: the data, or more of it. Pure and seeded: a resumed run calls it again."""
        ...

    def accumulate(self, batch: Batch, share: float, step: Step) -> Tensor:
        """Add ``share`` times the gradient of a micro-batch's mean loss to ``.grad``; return it, 0-d, detached."""
        ...

    def finish(self, step: Step) -> bool:
        """Turn what all micro-batches have left into the gradient; False where there is no direction to step in."""
        ...

    def attacked(self, batch: Batch, step: Step) -> Tensor | None:
        """Return logits (n, classes) of validation examples under the method's attack; None where it has none."""
        ...


class Fit(Protocol[ParamsT]):
    """A method that leaves the weights alone: a map of logits, fitted on held-out examples."""

    def __call__(self, params: ParamsT, logits: Tensor, labels: Tensor) -> Mapping[str, Any]:
        """Return the map as JSON, as manifests hold it, of raw logits (n, classes) and labels (n,)."""
        ...
