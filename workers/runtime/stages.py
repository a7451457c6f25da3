"""Cutting stages into shards of whole batches, and the preflight every check begins with."""

import math
from itertools import pairwise

from seatrial.contracts.states import PREFLIGHT as PREFLIGHT
from seatrial.store.ids import new_id
from seatrial.store.tables import ShardRow

PREFLIGHT_EXAMPLES = 512
"""Examples the preflight looks at: accuracy above chance shows on far fewer."""


def cut(examples: int, batch_size: int, shards: int) -> list[tuple[int, int]]:
    """Return (start, stop) of each shard: whole batches, as even as they come, at most one shard per batch.

    A batch is never divided, so floating-point sums inside a batch are the same however a stage is cut.

    >>> cut(100, 32, 3)
    [(0, 64), (64, 96), (96, 100)]
    >>> cut(100, 32, 1)
    [(0, 100)]
    >>> cut(10, 32, 7)
    [(0, 10)]
    """
    batches = math.ceil(examples / batch_size)
    shards = max(1, min(shards, batches))
    edges = [math.ceil(batches * piece / shards) * batch_size for piece in range(shards + 1)]
    return [(start, min(stop, examples)) for start, stop in pairwise(edges)]


def make_shards(
    check_id: str, stage: str, pieces: list[tuple[int, int]], *, start: int = 0, number: int = 0
) -> list[ShardRow]:
    """Return the rows of a stage's shards.

    Args:
        check_id: Which check.
        stage: Which stage.
        pieces: (start, stop) of each.
        start: Examples of the stage that earlier shards have; the pieces follow them.
        number: How many those are.
    """
    return [
        ShardRow(
            **{"id": new_id("shd"), "check_id": check_id, "stage": stage, "ordinal": number + ordinal},
            start=start + first,
            stop=start + stop,
        )
        for ordinal, (first, stop) in enumerate(pieces)
    ]
