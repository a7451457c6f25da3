"""Which part of a batch is being computed, where a program of a fixed batch is run several times for one."""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import NamedTuple


class BatchPass(NamedTuple):
    """One of several runs of a program for one batch.

    Attributes:
        number: Counted from 0.
        rows: Examples it is run on, those that fill it up included.
    """

    number: int
    rows: int


_current: ContextVar[BatchPass | None] = ContextVar("batch_pass", default=None)


def current_pass() -> BatchPass | None:
    """Return the run that is under way; None where the batch is computed as a whole."""
    return _current.get()


@contextmanager
def one_pass(number: int, rows: int) -> Iterator[None]:
    """Say that a run is under way, for as long as the context lasts."""
    token = _current.set(BatchPass(number, rows))
    try:
        yield
    finally:
        _current.reset(token)
