"""Scores that a network computes beside its answer are found, wherever they are, and none of what is its answer."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from tests.families.uncertainty_span.audits import IMAGES, NETWORK, network
from tests.models.exportable import KINDS, SHAPE, made
from workers.attacks.inner_scores import InnerScores, beside_answer, inner_scores
from workers.models.batch_passes import one_pass

BASE = NETWORK.logits


def voice(images: Tensor) -> Tensor:
    return BASE(((images - 0.1) / 0.8).clamp(0, 1))


def joined(scores: Tensor, heard: Tensor) -> Tensor:
    spread = scores.std(1, keepdim=True)
    return heard * spread / (0.1 + spread)


def one_by_one(images: Tensor) -> Tensor:
    return joined(BASE(images), voice(images))


def stacked(images: Tensor) -> Tensor:
    both = BASE(torch.cat([images, ((images - 0.1) / 0.8).clamp(0, 1)]))
    return joined(both[: len(images)], both[len(images) :])


def side_by_side(images: Tensor) -> Tensor:
    both = torch.stack([images, ((images - 0.1) / 0.8).clamp(0, 1)], 1)
    scores, heard = BASE(both.flatten(0, 1)).unflatten(0, (-1, 2)).unbind(1)
    return joined(scores, heard)


def in_passes(model: Callable[[Tensor], Tensor], rows: int) -> Callable[[Tensor], Tensor]:
    """Run a program of a fixed batch, the last pass filled up."""

    def run(images: Tensor) -> Tensor:
        found = []
        for number, part in enumerate(torch.split(images, rows)):
            filled = torch.cat([part, part[:1].expand(rows - len(part), *part.shape[1:])])
            with one_pass(number, rows):
                found.append(model(filled)[: len(part)])
        return torch.cat(found)

    return run


def find(model: Callable[[Tensor], Tensor], images: Tensor = IMAGES, most: int = 2) -> list[InnerScores]:
    return inner_scores(model, images, most, batch_size=8, check_cancelled=lambda: None).agreeing


@pytest.mark.parametrize("model", [one_by_one, stacked, side_by_side, in_passes(one_by_one, 3)])
def test_scores_that_do_not_speak_are_found_and_read(model: Callable[[Tensor], Tensor]) -> None:
    found = find(model)
    # Of a tensor of both there may be the one that speaks too.
    assert 1 <= len(found) <= 2
    some = IMAGES[:7].clone().requires_grad_(True)
    read = [beside_answer(model, place)(some) for place in found]
    assert all(torch.equal(one[:, :4], model(some)) for one in read)
    (scores,) = [one[:, 4:] for one in read if torch.allclose(one[:, 4:], BASE(some), atol=1e-5)]
    assert torch.autograd.grad(scores.sum(), some)[0].abs().sum() > 0


@pytest.mark.parametrize("kind", KINDS)
def test_a_network_whose_layers_follow_each_other_has_none(kind: str) -> None:
    images = torch.rand(16, *SHAPE, generator=torch.Generator().manual_seed(0))
    assert find(made(kind), images) == []


@pytest.mark.parametrize(
    "answer",
    [
        lambda x: 3 * BASE(x),
        lambda x: BASE(x).log_softmax(1),
        lambda x: BASE(x) + torch.tensor([0.3, -0.2, 0.1, 0.4]),
        lambda x: torch.stack([BASE(x), 2 * BASE(x)]).mean(0),
        lambda x: BASE(x) + 0 * network(3).logits(x),
        lambda x: torch.zeros_like(BASE(x)),
    ],
)
def test_what_is_a_multiple_of_the_answer_or_leads_nowhere_else_is_none(answer: Callable[[Tensor], Tensor]) -> None:
    assert find(answer) == []


def test_the_least_alike_are_first_and_no_more_than_are_asked_for() -> None:
    def model(images: Tensor) -> Tensor:
        others = [BASE(images) + share * network(3).logits(images) for share in (0.05, 0.2, 0.1)]
        return BASE(images) * (1 + 1e-3 * torch.stack(others).std((0, 2)))[:, None]

    first, second = find(model)
    assert find(model, most=1) == [first]
    assert torch.allclose(
        beside_answer(model, first)(IMAGES)[:, 4:], BASE(IMAGES) + 0.2 * network(3).logits(IMAGES), atol=1e-5
    )
    assert first != second


def test_where_a_pass_has_no_such_tensor_the_answer_stands_for_it() -> None:
    both = beside_answer(BASE, InnerScores((False, 999), 0))(IMAGES)
    assert torch.equal(both[:, :4], both[:, 4:])


def test_of_a_single_image_too() -> None:
    def model(images: Tensor) -> Tensor:
        return one_by_one(images) * images.mean().clamp_min(0.1)

    found = inner_scores(model, IMAGES[:1], 2, batch_size=8, check_cancelled=lambda: None)
    # Of one image nothing is more than its mean over the images.
    assert (found.agreeing, found.others, found.earliest) == ([], [], [])
    (place, *_) = find(model)
    assert beside_answer(model, place)(IMAGES[:1]).shape == (1, 8)
