"""What a family is, and what it is given.

A family is a library: it says which stages it needs, runs one shard of a stage, and reduces all records to a result.
The runtime cuts stages into shards of whole batches, so a family never sees how many workers there are.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

from seatrial.contracts.estimates import Result
from workers.families.contexts import Records, RunContext
from workers.families.stages import HELD_OUT as HELD_OUT
from workers.families.stages import SAMPLE as SAMPLE
from workers.families.stages import Shard as Shard
from workers.families.stages import Stage as Stage
from workers.models import Classifier

ParamsT = TypeVar("ParamsT", contravariant=True)
ContextT = TypeVar("ContextT", bound=RunContext, contravariant=True)
"""What its shards need: images or texts, with checkpoints or without."""


@dataclass(frozen=True)
class TargetInfo:
    """What is known of the model before an attack; ``classifier`` is the model itself, of images."""

    classes: int
    labels: list[str] | None
    input_shape: tuple[int, int, int] | None
    task: str = "image-classification"
    has_gradients: bool = True
    classifier: Classifier | None = None


@dataclass(frozen=True)
class DataInfo:
    """What is known of the data before an attack."""

    examples: int
    classes: int
    clean_accuracy: float


class Family(Protocol[ParamsT, ContextT]):
    """One audit family."""

    def preflight(self, target: TargetInfo, data: DataInfo, params: ParamsT) -> None:
        """Raise ``PreflightError`` naming the field when the method cannot work on this model and data."""
        ...

    def next_stage(self, params: ParamsT, done: Mapping[str, Records]) -> Stage | None:
        """Return the stage after those done, or None when finished. Pure: the same records give the same stage."""
        ...

    def run(self, params: ParamsT, shard: Shard, context: ContextT) -> Records:
        """Run one shard and return one row per example, in order.

        The first columns are ``example_id`` (int64), ``label`` (int64) and ``errored`` (bool); an example whose
        outputs are not finite is errored and is never counted as robust.
        """
        ...

    def reduce(
        self,
        params: ParamsT,
        done: Mapping[str, Records],
        seed: int,
        *,
        check_cancelled: Callable[[], None] = lambda: None,
    ) -> Result:
        """Turn all records into numbers. Pure and seeded: a second call gives the same bytes.

        ``check_cancelled`` may raise to stop it; call it before whatever takes a second.
        """
        ...

    def figures(self, params: ParamsT, result: Result) -> Mapping[str, str]:
        """Draw the figures of a result: SVG text by name."""
        ...


AnyFamily = Family[Any, Any]
