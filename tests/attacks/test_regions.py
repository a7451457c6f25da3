"""Segments that are halved for where something begins."""

import torch

from workers.attacks.regions import bisect


def test_halving_comes_as_near_to_where_it_begins_as_it_is_halved() -> None:
    inside, outside = torch.zeros(3, 1, 2), torch.ones(3, 1, 2)
    begins = torch.tensor([0.3, 0.75, 2.0])
    low, high = bisect(inside, outside, 8, lambda points: points.flatten(1).amax(1) >= begins)
    assert ((high - low).flatten(1).amax(1) == 2.0**-8).all()
    assert (low.flatten(1).amax(1) < begins).all()
    assert (high[:2].flatten(1).amax(1) >= begins[:2]).all()
    # Where it is nowhere, the segment goes to its end.
    assert float(high[2].max()) == 1
