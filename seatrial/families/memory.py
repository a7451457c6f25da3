"""What a check of images has in memory, from what was measured when the model was checked."""

from collections.abc import Mapping
from math import prod
from typing import Any

from seatrial.contracts.costs import Passes

FLOAT_BYTES = 4
HEAP_OF_TENSORS = 1.7
"""Resident memory of a training for a byte of tensors on a CPU, where the allocator keeps what a step frees for the
next (``benchmarks.training_memory``). A lower limit for blocks that go back to the system would bring it to 1.0, and
takes 1.5 to 1.9 times the processor's time."""

MOST_HEAP_OF_TENSORS = 3.2
"""The most of an audit: 1.4 to 3.2, other from run to run (``benchmarks.audit_memory``). Whoever gives a machine so
much memory must not run out of it."""

WATCHED = 2.0
"""What a pass that is watched keeps, for what an attack does (`workers.attacks.switches`)."""

KEPT_IMAGES = 10
"""Images an attack keeps of each of a batch: the original, the best and last of both directions, what was moved."""

GIVEN_IMAGES = 2
"""The same of a pass alone: the image, and what it is normalised to."""

AROUND_BYTES = 48 * 2**20
"""What surrogates, noise and a family's own code add."""


def heap_of(device: str) -> float:
    """Return the resident memory of a training for a byte of tensors on a device, as facts name it."""
    return HEAP_OF_TENSORS if device == "cpu" else 1.0


def memory_of(passes: Passes, batch_size: int, facts: Mapping[str, Any]) -> int | None:
    """Return how many bytes the process which runs the model takes at most, beside its code.

    Args:
        passes: Of the check.
        batch_size: Examples of a batch.
        facts: Of the model.

    Returns:
        None where it is not known: of texts, endpoints, models checked before it was counted, and checks that train.
    """
    forward, attack = facts.get("forward_bytes"), facts.get("attack_bytes")
    if forward is None or attack is None or passes.together is None:
        return None
    device, image = facts["device"], FLOAT_BYTES * prod(facts["input_shape"])
    heap = MOST_HEAP_OF_TENSORS if device == "cpu" else 1.0
    attack = (facts.get("memory_bytes_per_example") or heap * attack) * (WATCHED if passes.watches else 1.0)
    together = max(batch_size, passes.together.get("cpu" if device == "cpu" else "cuda", 0))
    passing = together * (heap * forward + GIVEN_IMAGES * image)
    attacking = batch_size * (attack + KEPT_IMAGES * image) if passes.backward else 0.0
    return int(FLOAT_BYTES * facts["parameters"] + AROUND_BYTES + max(passing, attacking))
