"""Of scores inside a network those are attacked for whose evenness its answer waits, however many look like them."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from tests.attacks.test_inner_scores import BASE, find, in_passes, joined, one_by_one, side_by_side, stacked, voice
from tests.families.uncertainty_span.audits import IMAGES, network
from workers.attacks.evened_scores import with_evened, worth_attacking
from workers.attacks.inner_scores import FoundScores, beside_answer, inner_scores, views_of
from workers.attacks.tried import Trial

CLASSES = 4
SECOND = network(3).logits
TRIAL = Trial("linf", 0.1, (0.0, 1.0), lambda: None)


@pytest.mark.parametrize("share", [0.5, 0.02])
@pytest.mark.parametrize("model", [one_by_one, stacked, side_by_side, in_passes(one_by_one, 3)])
def test_an_answer_is_what_it_would_be_of_more_even_scores(model: Callable[[Tensor], Tensor], share: float) -> None:
    some, scores = IMAGES[:7], BASE(IMAGES[:7])
    (place,) = [one for one in find(model) if torch.allclose(beside_answer(model, one)(some)[:, 4:], scores, atol=1e-5)]
    mean = scores.mean(1, keepdim=True)
    wanted = joined(mean + share * (scores - mean), voice(some))
    assert torch.allclose(with_evened(model, (place,), share, CLASSES)(some), wanted, atol=1e-5)
    assert not torch.allclose(model(some), wanted, atol=1e-3)


def decoy(images: Tensor, seed: int) -> Tensor:
    weights = torch.randn(CLASSES, images[0].numel(), generator=torch.Generator().manual_seed(seed))
    return 6 * voice(images).softmax(1) + 0.05 * images.flatten(1) @ weights.T


def waiting(images: Tensor, *waits: Callable[[Tensor], Tensor], scale: float = 8.0) -> Tensor:
    """Say nothing where any of some scores are level, among six decoys."""
    answer = scale * voice(images)
    for scores in waits:
        spread = scores(images).std(1, keepdim=True)
        answer = answer * spread**4 / (0.01 + spread**4)
    for seed in range(6):
        answer = answer + 1e-4 * scale * decoy(images, seed)
    return answer


def chosen(model: Callable[[Tensor], Tensor], most: int) -> list[Tensor]:
    places = find(model, most=24)
    assert len(places) > 4
    return [
        beside_answer(model, *group)(IMAGES)[:, CLASSES:]
        for group in worth_attacking(model, IMAGES[:4], FoundScores(places, [], []), most, TRIAL)
    ]


@pytest.mark.parametrize("scale", [8.0, pytest.param(1e6, marks=pytest.mark.drill)])
def test_what_the_answer_waits_for_comes_before_decoys(scale: float) -> None:
    def model(images: Tensor) -> Tensor:
        return waiting(images, BASE, scale=scale)

    assert len(chosen(model, 2)) == 2
    assert any(torch.allclose(scores, BASE(IMAGES), atol=1e-5) for scores in chosen(model, 2))
    # Without a look at what it waits for, decoys are first: they are least like the answer.
    assert not any(
        torch.allclose(beside_answer(model, place)(IMAGES)[:, CLASSES:], BASE(IMAGES), atol=1e-5)
        for place in find(model, most=2)
    )


def test_of_several_it_waits_for_those_that_can_be_made_level_come_first() -> None:
    def still(images: Tensor) -> Tensor:
        """Scores of the audited image that is next, which hardly move within the radius."""
        apart = (images.flatten(1)[:, None] - IMAGES.flatten(1)).square().sum(2)
        return (-6 * apart).softmax(1) @ (BASE(IMAGES) + 0.5 * network(3).logits(IMAGES))

    def model(images: Tensor) -> Tensor:
        return waiting(images, still, BASE)

    places = find(model, most=24)
    found = [
        worth_attacking(model, IMAGES[:4], FoundScores(order, [], []), 1, TRIAL) for order in (places, places[::-1])
    ]
    assert found[0] == found[1]
    scores = beside_answer(model, *found[0][0])(IMAGES)[:, CLASSES:]
    assert torch.allclose(scores, BASE(IMAGES), atol=1e-4)


def test_one_is_taken_as_it_is() -> None:
    (place, *_) = find(one_by_one)
    assert worth_attacking(one_by_one, IMAGES[:4], FoundScores([place], [], []), 2, TRIAL) == [(place,)]


def look(model: Callable[[Tensor], Tensor]) -> FoundScores:
    return inner_scores(model, IMAGES, 24, batch_size=8, check_cancelled=lambda: None)


def all_of(images: Tensor) -> Tensor:
    """Wait for two networks at once, both of whose classes are in another order."""
    spreads = [scores[:, [2, 0, 3, 1]].softmax(1).std(1, keepdim=True) for scores in (BASE(images), SECOND(images))]
    most = torch.maximum(*spreads)
    return 8 * voice(images) * most**4 / (1e-3 + most**4)


def test_what_has_to_be_level_together_is_attacked_together() -> None:
    (*_, last) = worth_attacking(all_of, IMAGES[:4], look(all_of), 2, TRIAL)
    read = beside_answer(all_of, *last)(IMAGES)[:, CLASSES:].split(CLASSES, 1)
    assert len(last) >= 2
    assert all(any(torch.allclose(of, one(IMAGES), atol=1e-4) for of in read) for one in (BASE, SECOND))


def test_classes_may_come_before_images() -> None:
    tensor = torch.rand(CLASSES, 7)
    (view,) = views_of(tensor, 7, CLASSES)
    assert torch.equal(view, tensor.T)
    view += 1
    assert torch.equal(view, tensor.T)


def test_classes_in_another_order_are_scores_where_the_answer_waits_for_them() -> None:
    def model(images: Tensor) -> Tensor:
        mixed = torch.cat([BASE(images), SECOND(images)], 1)[:, [2, 7, 0, 4, 3, 5, 1, 6]].softmax(1)
        spread = mixed.std(1, keepdim=True)
        return 8 * voice(images) * spread**4 / (1e-4 + spread**4)

    scores = look(model)
    found = worth_attacking(model, IMAGES[:4], scores, 2, TRIAL)
    widths = [beside_answer(model, *group)(IMAGES).shape[1] - CLASSES for group in found]
    assert 2 * CLASSES in widths
