"""Whole uncertainty-span checks in memory."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from seatrial.contracts.estimates import Result
from seatrial.families.uncertainty_span.levelled import LEVELLED
from seatrial.families.uncertainty_span.params import UncertaintySpanParams
from tests.families.in_memory import Context as Context
from tests.families.in_memory import Data, run_check
from tests.families.in_memory import Model as Model
from workers.families.contexts import Records
from workers.families.protocol import Shard
from workers.families.uncertainty_span.family import FAMILY
from workers.models.passes import mixed

BATCH = 64
"""More than most of these checks have images: of a batch of a network this small, the number of images is nothing."""


@dataclass(frozen=True)
class Ensemble(Model):
    """A classifier of several functions."""

    members: Sequence[Callable[[Tensor], Tensor]] = ()

    @property
    def passes(self) -> int:
        return len(self.members)

    def logits_of_passes(self, images: Tensor) -> Tensor:
        return torch.stack([member(images) for member in self.members], 1)


def ensemble(*members: Callable[[Tensor], Tensor], classes: int = 4) -> Ensemble:
    return Ensemble(lambda images: mixed(torch.stack([one(images) for one in members], 1)), classes, members=members)


def audit(
    params: UncertaintySpanParams,
    model: Model,
    data: Data,
    *,
    batch_size: int = BATCH,
    shards: int = 1,
    outliers: Data | None = None,
    models: Mapping[str, Model] | None = None,
) -> tuple[Result, dict[str, Records]]:
    """Run every stage in shards of whole batches and reduce."""
    return run_check(FAMILY, params, model, data, batch_size=batch_size, shards=shards, further=outliers, models=models)


def measure(
    params: UncertaintySpanParams,
    model: Model,
    data: Data,
    *,
    outliers: Data | None = None,
    batch_size: int = BATCH,
    **more: Any,
) -> dict[str, Records]:
    """Run every stage in shards of whole batches and return its records, without estimates of them."""
    more |= {"batch_size": batch_size, "further": outliers}
    return run_check(FAMILY, params, model, data, reduce=False, **more)[1]


def killed_and_run_again(
    params: UncertaintySpanParams,
    model: Model,
    data: Data,
    done: Mapping[str, Records],
    stage: str,
    models: Mapping[str, Any] | None = None,
) -> None:
    """Kill a stage half way, and compare with its records what another worker makes of it."""
    before = {name: done[name] for name in list(done)[: list(done).index(stage)]}
    shard = Shard(stage, 0, done[stage].num_rows)

    def context() -> Context:
        return Context(model, data, shard, BATCH, len(data[0]), dict(models or {}), before)

    whole, killed = context(), context()
    assert FAMILY.run(params, shard, whole).equals(done[stage])
    looked = killed.check_cancelled

    def end() -> None:
        looked()
        if killed.ticks > whole.ticks // 2:
            raise KeyboardInterrupt

    killed.check_cancelled = end  # type: ignore[method-assign]
    with pytest.raises(KeyboardInterrupt):
        FAMILY.run(params, shard, killed)
    assert FAMILY.run(params, shard, context()).equals(done[stage])


def stages_but(done: Mapping[str, Records], *stages: str) -> dict[str, Records]:
    """Return the records of all stages but some, which run again where the others are done."""
    return {name: table for name, table in done.items() if name not in stages}


def masked_by(result: Result) -> str:
    """Return what an audit says of gradients that are masked, which is an error."""
    (flag,) = [flag for flag in result.flags if flag.code == "masked_gradients"]
    assert flag.severity == "error"
    return flag.message


def reached_by_stage(result: Result, done: Mapping[str, Records], stage: str) -> float:
    """Return the span that a stage reaches by itself, which the worst case has to be no less than."""
    own = float((np.asarray(done[stage]["entropy_under"]) - np.asarray(done[stage]["entropy_over"])).mean())
    assert result.estimates["mus_worst"].value >= own
    return own


def attacked_alike_in_shards(
    params: UncertaintySpanParams, model: Model, data: Data, done: Mapping[str, Records], column: str
) -> bool:
    """Return whether three shards find the same inside a network, in a column, and attack it to the same records."""
    again = measure(params, model, data, shards=3, done=stages_but(done, "surrogate", LEVELLED))
    return again["surrogate"][column].equals(done["surrogate"][column]) and again[LEVELLED].equals(done[LEVELLED])


def parameters(**changes: object) -> UncertaintySpanParams:
    return UncertaintySpanParams.model_validate(
        {"kind": "uncertainty_span", "epsilon": 0.1, "steps": 10, "effort": "quick"} | changes
    )


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
