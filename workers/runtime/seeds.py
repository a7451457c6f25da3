"""One generator per example, the same wherever the example is computed."""

from collections.abc import Iterable

import torch

from seatrial.store.seeds import derive_seed

__all__ = ["derive_seed", "example_generators"]


def example_generators(seed: int, family: str, purpose: str, example_ids: Iterable[int]) -> list[torch.Generator]:
    """Return one CPU generator per example, the same whichever shard, batch or worker the example is in.

    On the CPU even when the model is on a GPU: the two have different random streams, and a number must not depend on
    where it was measured more than floating point makes it.
    """
    return [torch.Generator().manual_seed(derive_seed(seed, family, purpose, example_id)) for example_id in example_ids]
