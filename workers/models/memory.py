"""Running a model where memory is short: what an error about memory says, and work in smaller pieces after one."""

from collections.abc import Callable, Sequence
from typing import Final, TypeVar

import torch
from torch import Tensor

Piece = TypeVar("Piece")

_MESSAGES: Final = ("out of memory", "not enough memory", "can't allocate memory", "ALLOC_FAILED")
"""What plain ``RuntimeError``s say: CUDA and MPS; the CPU allocator, by system; cuBLAS and cuDNN.

``torch.OutOfMemoryError`` comes from the CUDA caching allocator alone.
"""


def is_out_of_memory(error: BaseException) -> bool:
    """Tell whether an error says that the memory of the device or of the process ran out.

    >>> is_out_of_memory(RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling cublasCreate(handle)"))
    True
    >>> is_out_of_memory(RuntimeError("shapes differ"))
    False
    """
    if isinstance(error, (torch.OutOfMemoryError, MemoryError)):
        return True
    return isinstance(error, RuntimeError) and any(message in str(error) for message in _MESSAGES)


def run_with_oom_split(
    work: Callable[[int, int], Piece], start: int, stop: int, *, generators: Sequence[torch.Generator] | None = None
) -> list[Piece]:
    """Run ``work(start, stop)`` on a range of examples, split in half as often as memory runs out; return the pieces.

    Args:
        work: Does the examples from ``start`` to ``stop``.
        start: First example.
        stop: One past the last example.
        generators: One per example, put back to where they were before a second try, so that random starts do not
            depend on memory.

    Raises:
        torch.OutOfMemoryError: One example alone does not fit (or what :func:`is_out_of_memory` takes for the same).
    """
    before = [g.get_state() for g in generators[start:stop]] if generators else []
    try:
        return [work(start, stop)]
    except (RuntimeError, MemoryError) as error:
        if stop - start < 2 or not is_out_of_memory(error):
            raise
    # Outside the except block: the exception's traceback would keep the failed batch's tensors alive.
    if torch.cuda.is_available():
        torch.cuda.empty_cache()
    for generator, state in zip(generators[start:stop] if generators else [], before, strict=True):
        generator.set_state(state)
    middle = (start + stop) // 2
    return [
        *run_with_oom_split(work, start, middle, generators=generators),
        *run_with_oom_split(work, middle, stop, generators=generators),
    ]


def forward(model: Callable[[Tensor], Tensor], images: Tensor) -> Tensor:
    """Return ``model(images)`` without a graph, in halves where memory runs out.

    Raises:
        torch.OutOfMemoryError: One example alone does not fit (or what :func:`is_out_of_memory` takes for the same).
    """

    def piece(start: int, stop: int) -> Tensor:
        with torch.no_grad():
            return model(images[start:stop])

    return torch.cat(run_with_oom_split(piece, 0, len(images)))
