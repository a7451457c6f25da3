"""Places that decide, each by itself, and together hardly do are found by their first-order effects."""

import itertools

import pytest
import torch
from torch import Tensor
from torch.nn import functional

from workers.attacks.altered_passes import Place, found_at, rolled, with_put
from workers.attacks.joint_gates import MOST, SMALL, SMALLER, Effect, cancelling, effects
from workers.attacks.tried import directions

IMAGES = torch.rand(4, 1, 4, 4, generator=torch.Generator().manual_seed(0))
FIRST, SECOND, MASK = (
    torch.randn(*shape, generator=torch.Generator().manual_seed(seed))
    for seed, shape in enumerate([(16, 6), (6, 3), (16, 1)])
)


def masked(images: Tensor) -> Tensor:
    """Answer with scores, to which something is added and from which it is taken off again."""
    flat = images.flatten(1)
    scores = flat @ FIRST @ SECOND
    mask = flat @ MASK
    gate = 1 + mask
    return gate * scores - mask * scores


def by_exchange(places: tuple[Place, ...]) -> Tensor:
    """Return by how much the answer changes where images exchange what is at some places."""
    put = rolled(found_at(masked, IMAGES, places, {}, 1.0))
    return with_put(masked, IMAGES, put) - masked(IMAGES)


def test_what_is_added_and_what_is_taken_off_are_found_together() -> None:
    found = effects(masked, IMAGES, 16)
    # flatten, matmul, matmul, matmul, add, mul, mul, sub: the fifth tensor is the gate, the fourth what is added.
    gate, mask = Place((False, 5)), Place((False, 4))
    alone = {effect.place: float(by_exchange((effect.place,)).abs().amax()) for effect in found}
    assert alone[gate] > 0.1
    # The mask goes into the gate too: where one other takes its place everywhere nothing changes.
    assert alone[mask] < 1e-5
    together = cancelling([one for one in found if alone[one.place] > 0.1], 8)
    assert together
    nearest = {one.place for one in together[0]}
    assert gate in nearest or any(place.given is not None for place in nearest)
    assert float(by_exchange(tuple(nearest)).abs().amax()) < 1e-5


def test_an_effect_is_that_of_an_exchange_to_first_order() -> None:
    def nearly(images: Tensor, share: float) -> Tensor:
        hidden = images.flatten(1) @ FIRST
        moved = hidden + share * (hidden.roll(1, 0) - hidden)
        return moved.tanh() @ SECOND

    found = {one.place: one for one in effects(lambda images: nearly(images, 0.0), IMAGES, 16)}
    # flatten, matmul, roll, sub, mul, add: what is added is the sixth.
    effect = found[Place((False, 6))]
    clean, small = nearly(IMAGES, 0.0), 1e-3
    centred = (clean - clean.mean(1, keepdim=True)).double()
    moved = nearly(IMAGES, small).double()
    moved = moved - moved.mean(1, keepdim=True)
    change = (moved - centred) / small / centred.norm(dim=1, keepdim=True)
    turned = (directions(moved) - directions(centred)) / small
    # Along sums of random signs, which are orthogonal on average only.
    signs = torch.where(torch.rand(4, 3, generator=torch.Generator().manual_seed(0)) < 0.5, -1.0, 1.0).double()
    assert torch.allclose(effect.change, (change @ signs.T).flatten(), rtol=0.02, atol=0.02)
    assert effect.turn == pytest.approx(float((turned @ signs.T).square().mean().sqrt()), rel=0.02)
    assert effect.numbers.shape == (4, 6)
    assert Place((False, 2)).number in effect.origins


def test_sums_are_those_of_a_search_by_hand() -> None:
    generator = torch.Generator().manual_seed(3)
    changes = list(torch.randn(9, 8, generator=generator).double())
    changes += [-changes[0] + 0.01, -changes[1] - changes[2], changes[4].clone()]
    found = [
        Effect(Place((False, at)), change, 0.0, frozenset(), torch.zeros(2, 1)) for at, change in enumerate(changes)
    ]
    told = {frozenset(one.place.number[1] for one in of) for of in cancelling(found, 20)}
    # Of the same effect the last is taken.
    left = [at for at in range(len(changes)) if at != 4]
    ratios = dict[frozenset[int], float]()
    for size, small in ((2, SMALL), (3, SMALLER)):
        for which in itertools.combinations(left, size):
            longest = max(float(changes[at].norm()) for at in which)
            ratio = float(torch.stack([changes[at] for at in which]).sum(0).norm()) / longest
            if ratio < small:
                ratios[frozenset(which)] = ratio
    enough = {which for which, ratio in ratios.items() if ratio < SMALLER}
    # A set that holds a smaller one which cancels better says nothing else.
    wanted = {
        which
        for which, ratio in ratios.items()
        if not any(smaller < which and ratios[smaller] <= ratio for smaller in enough)
    }
    assert told == wanted
    assert {frozenset({0, 9}), frozenset({1, 2, 10})} <= told
    assert max(len(one) for one in told) <= MOST


def test_units_that_hardly_turn_the_answer_are_a_place_of_their_own() -> None:
    def loud(images: Tensor) -> Tensor:
        """Answer by scores, as loudly as units among them say."""
        flat = images.flatten(1)
        numbers = torch.cat([flat @ FIRST @ SECOND, (flat @ MASK).square() + 1, torch.ones(len(images), 1)], 1)
        mixed = numbers[:, ORDER].tanh()
        back = mixed[:, ORDER.argsort()]
        return back[:, :3] * (2 + back[:, 3:4]) * back[:, 4:]

    (found,) = [one for one in effects(loud, IMAGES, 16) if one.place.units and one.place.number == (False, 12)]
    # Of the tensors flatten, matmul, matmul, matmul, square, add, ones, cat, getitem, tanh it is the last.
    assert found.place.units == (int((ORDER == 3).nonzero()),)
    assert found.turn < 1e-6
    put = rolled(found_at(loud, IMAGES, (found.place,), {}, 1.0))
    ((kept, rows),) = put[found.place]
    assert kept.shape == (rows, 1) == (len(IMAGES), 1)
    other, clean = with_put(loud, IMAGES, put), loud(IMAGES)
    assert not torch.allclose(other, clean)
    assert torch.allclose(directions(other), directions(clean), atol=1e-5)
    assert torch.allclose((other / clean)[:, 0], (2 + kept[:, 0]) / (2 + kept[:, 0].roll(-1)), rtol=1e-4)


ORDER = torch.tensor([2, 4, 0, 3, 1])


def test_what_is_written_into_and_what_is_no_number_of_an_image_is_left() -> None:
    def model(images: Tensor) -> Tensor:
        hidden = images.flatten(1) @ FIRST
        hidden += 1
        hidden[:, 0] = 0
        scale = hidden.mean()
        assert hidden.shape[0] == len(images)
        return functional.relu(hidden @ SECOND, inplace=True) * scale - hidden[:, :3]

    found = effects(model, IMAGES, 16)
    assert found
    assert all(one.numbers.shape[0] == len(IMAGES) for one in found)
    for one in found:
        put = found_at(model, IMAGES, (one.place,), {}, 1.0)
        assert torch.allclose(with_put(model, IMAGES, put), model(IMAGES))
    assert effects(lambda images: torch.ones(len(images), 3), IMAGES, 16) == []
    assert cancelling([], 4) == []
