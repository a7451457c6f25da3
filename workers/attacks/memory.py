"""Halving a batch that does not fit in the device's memory."""

from collections.abc import Callable, Sequence
from typing import TypeVar

import torch
from torch import Tensor

Piece = TypeVar("Piece")


def is_out_of_memory(error: BaseException) -> bool:
    """Tell whether an error says that the device's memory ran out.

    >>> is_out_of_memory(RuntimeError("CUDA out of memory. Tried to allocate 2 GiB"))
    True
    >>> is_out_of_memory(RuntimeError("shapes differ"))
    False
    """
    return isinstance(error, torch.OutOfMemoryError) or (
        isinstance(error, RuntimeError) and ("out of memory" in str(error) or "can't allocate memory" in str(error))
    )


def halving(
    work: Callable[[int, int], Piece], start: int, stop: int, *, generators: Sequence[torch.Generator] | None = None
) -> list[Piece]:
    """Run ``work(start, stop)`` on a range of examples, in halves as long as memory runs out, and return the pieces.

    Args:
        work: Does the examples from ``start`` to ``stop``.
        start: First example.
        stop: One past the last example.
        generators: Put back to where they were before a second try, so that random starts do not depend on memory.

    Raises:
        torch.OutOfMemoryError: One example alone does not fit (or the RuntimeError some devices raise instead).
    """
    before = [g.get_state() for g in generators[start:stop]] if generators else []
    try:
        return [work(start, stop)]
    except RuntimeError as error:
        if stop - start < 2 or not is_out_of_memory(error):
            raise
    # Outside the except block: the exception's traceback would keep the failed batch's tensors alive.
    if torch.cuda.is_available():
        torch.cuda.empty_cache()
    for generator, state in zip(generators[start:stop] if generators else [], before, strict=True):
        generator.set_state(state)
    middle = (start + stop) // 2
    return halving(work, start, middle, generators=generators) + halving(work, middle, stop, generators=generators)


def forward(model: Callable[[Tensor], Tensor], images: Tensor) -> Tensor:
    """Return ``model(images)`` without a graph, in halves where memory runs out.

    Raises:
        torch.OutOfMemoryError: One example alone does not fit (or the RuntimeError some devices raise instead).
    """

    def piece(start: int, stop: int) -> Tensor:
        with torch.no_grad():
            return model(images[start:stop])

    return torch.cat(halving(piece, 0, len(images)))
