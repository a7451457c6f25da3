"""Randomness that depends on nothing but what it is for."""

import hashlib
from collections.abc import Iterable

import torch


def derive_seed(*parts: object) -> int:
    """Return a 63-bit seed of the parts; different parts give unrelated seeds.

    >>> derive_seed(0, "uncertainty_span", "over", 17) == derive_seed(0, "uncertainty_span", "over", 17)
    True
    >>> derive_seed(0, "uncertainty_span", "over", 17) == derive_seed(0, "uncertainty_span", "over", 18)
    False
    """
    # repr keeps ("a", "b") apart from ("ab",), and 1 from "1".
    return int.from_bytes(hashlib.sha256(repr(parts).encode()).digest()[:8], "big") >> 1


def example_generators(seed: int, family: str, purpose: str, example_ids: Iterable[int]) -> list[torch.Generator]:
    """Return one CPU generator per example, the same whichever shard, batch or worker the example is in.

    On the CPU even when the model is on a GPU: the two have different random streams, and a number must not depend on
    where it was measured more than floating point makes it.
    """
    return [torch.Generator().manual_seed(derive_seed(seed, family, purpose, example_id)) for example_id in example_ids]
