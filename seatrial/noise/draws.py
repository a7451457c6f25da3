"""Draws from ``random.Random.random()`` alone: Python promises of no other method that its stream stays as it is."""

import random
from bisect import bisect
from collections.abc import Iterable, Sequence
from typing import TypeVar

T = TypeVar("T")


def one_of(items: Sequence[T], rng: random.Random) -> T:
    """Return one of the items, each as likely as another; one draw.

    Raises:
        IndexError: There are none.
    """
    return items[int(rng.random() * len(items))]


def shuffled(items: Iterable[T], rng: random.Random) -> list[T]:
    """Return the items in an order drawn uniformly from all (Fisher and Yates); one draw less than there are items.

    >>> shuffled("seatrial", random.Random(0))
    ['s', 't', 'r', 'l', 'e', 'a', 'i', 'a']
    """
    mixed = list(items)
    draw = rng.random
    for last in range(len(mixed) - 1, 0, -1):
        other = int(draw() * (last + 1))
        mixed[last], mixed[other] = mixed[other], mixed[last]
    return mixed


def by_weight(items: Sequence[T], cumulative: Sequence[float], rng: random.Random) -> T:
    """Return one of the items, each as likely as its weight says; one draw.

    Args:
        items: At least one.
        cumulative: Sums of the weights up to each item's, the last above 0.
        rng: Where the draw comes from.
    """
    # The product is below the last sum: a draw is at most 1 - 2**-53, and products are rounded to the nearest.
    return items[bisect(cumulative, rng.random() * cumulative[-1])]
