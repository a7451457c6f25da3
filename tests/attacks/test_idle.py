"""What a network computes to no effect is found, wherever it is written to, and nothing of what has one."""

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

from benchmarks.fakes import Contestant
from benchmarks.puzzle_image_fakes import Puzzled, contestants, reached_by_answer
from seatrial.store.settings import Settings
from tests.attacks.test_dormant import EPSILON, IMAGES, LEAST, Gated, along
from tests.models.builders import CPU, manifest
from tests.models.exportable import KINDS, SHAPE, export, made
from workers.attacks.idle import exchanged, idle_functions
from workers.models.loading import load_image_classifier


def find(model: Callable[[Tensor], Tensor], images: Tensor = IMAGES, batch_size: int = 5) -> list[str]:
    drawn = (images + 0.2 * torch.rand(images.shape, generator=torch.Generator().manual_seed(1)) - 0.1).clamp(0, 1)
    return idle_functions(model, images, drawn, batch_size=batch_size, check_cancelled=lambda: None)


@pytest.mark.parametrize("way", ["compared", "rectified", "whole numbers", "a power", "detached"])
def test_a_lock_that_no_image_opens_is_idle(way: str) -> None:
    assert find(Gated(way))


def test_what_is_written_into_a_part_of_a_tensor_is_followed() -> None:
    network = made("plain")

    def model(images: Tensor) -> Tensor:
        logits = network(images)
        both = torch.zeros_like(logits)
        both[:, :1] = torch.relu(along(images)[:, None] - LEAST)
        share = (1e4 * both.sum(1, keepdim=True)).clamp(max=1)
        return share * logits.flip(1) + (1 - share) * logits

    assert {"mean", "sub"} <= set(find(model))


@pytest.mark.parametrize("kind", KINDS)
def test_nothing_of_what_a_network_needs_is_idle(kind: str) -> None:
    assert find(made(kind)) == []


def test_a_lock_that_some_images_open_is_not_idle() -> None:
    least = along(IMAGES).median()
    network = made("plain")

    def model(images: Tensor) -> Tensor:
        is_open = along(images)[:, None] > least
        return torch.where(is_open, network(images).flip(1), network(images))

    assert find(model) == []


def test_a_lock_is_found_that_looks_where_all_images_are_alike() -> None:
    network, images = made("plain"), IMAGES.clone()
    images[:, 0, 0, :3] = 0

    def model(images: Tensor) -> Tensor:
        seen = images[:, 0, 0, :3]
        # Products of pixels, of which no gradient says how all are made large.
        match = (20 * seen - 1).clamp(-1, 1).prod(1, keepdim=True)
        share = torch.sigmoid(60 * (match - 0.9))
        return network(images) * (1 - 2 * share)

    assert "prod" in find(model, images)
    assert find(network, images) == []


def test_a_rectifier_that_no_image_wakes_and_all_would_follow_is_found() -> None:
    network = made("plain")

    def model(images: Tensor) -> Tensor:
        # What goes into it has a say of its own.
        apart = along(images)[:, None] - LEAST
        return network(images) * (1.2 + 0.1 * apart) * (1 - 2 * torch.relu(apart).clamp(max=1))

    assert find(model) == ["relu", "clamp"]

    def asleep(images: Tensor) -> Tensor:
        # One that would move the answers a little turns none round.
        apart = along(images)[:, None] - LEAST
        return network(images) * (1.2 + 0.1 * apart) * (1 + 0.1 * torch.relu(apart))

    assert find(asleep) == []


INNER = torch.rand(12, 1, 20, 20, generator=torch.Generator().manual_seed(1)).round()
BORDERED = nn.functional.pad(INNER, (4, 4, 4, 4))
PUZZLES = contestants(nn.Identity(), nn.Sequential(nn.Flatten(), nn.Linear(784, 10)), BORDERED, EPSILON)


@pytest.mark.parametrize("fake", PUZZLES, ids=[fake.name for fake in PUZZLES])
def test_a_puzzle_that_no_image_solves_is_found(fake: Contestant) -> None:
    assert isinstance(fake.network, Puzzled)
    assert reached_by_answer(fake.network, BORDERED)[1] < 0.1
    assert find(fake.network, BORDERED)
    assert find(fake.network.shown, BORDERED) == []


def test_a_lock_is_found_that_is_computed_twice_to_check_itself() -> None:
    network = made("plain")

    def model(images: Tensor) -> Tensor:
        logits, one, other = network(images), along(images)[:, None], along(images)[:, None]
        # Whoever changes one of the two changes the answers.
        checked = 1000 * (one - other) * torch.tensor([1.0, 0.0] * (logits.shape[1] // 2))
        is_open = torch.sigmoid(1e6 * (one - LEAST))
        return logits * (1 - 2 * is_open) + checked

    assert find(model).count("mean") == 2
    assert torch.equal(model(IMAGES), network(IMAGES))


def test_a_lock_is_found_whose_network_takes_another_way_without_gradients() -> None:
    locked = Gated("compared")

    def model(images: Tensor) -> Tensor:
        # Of that way the same number is of another tensor, which nobody reads.
        unread = [] if images.requires_grad else [images.mean() for _ in range(40)]
        return locked(images) + 0 * len(unread)

    assert find(model)


def test_what_nobody_reads_is_left_out() -> None:
    network = made("plain")

    def model(images: Tensor) -> Tensor:
        logits = network(images)
        # Of which none goes on, and of which a part does.
        _, both = images.mean(1), torch.stack([logits, images.flatten(1)[:, :4]], 1)
        mixed = torch.softmax(both, -1)
        return logits + mixed[:, 0]

    assert find(model) == []


def test_what_is_read_of_the_few_is_found_however_large_the_logits() -> None:
    for scale in (1e-4, 1e4):
        assert find(lambda images, scale=scale: scale * Gated("rectified")(images))


@pytest.mark.parametrize("batch", [None, 1, 3, 8, 16])
def test_a_program_is_looked_at_whatever_batch_it_takes(tmp_path: Path, batch: int | None) -> None:
    described = manifest(
        {"kind": "exported"}, input={"shape": list(SHAPE), "mean": [0.0], "std": [1.0]}, labels=list("abcd")
    )
    for module, is_idle in ((made("plain"), False), (Gated("rectified").requires_grad_(False).eval(), True)):
        path = export(module, tmp_path / f"{is_idle}.pt2", batch=batch)
        model = load_image_classifier(described, path, "archive", CPU, limits=Settings()).logits
        assert bool(find(model)) == is_idle


@pytest.mark.parametrize("shape", [(6,), (6, 3), (24, 5), (2, 6, 3)])
def test_every_image_gets_what_another_one_has(shape: tuple[int, ...]) -> None:
    axis = 1 if shape[0] == 2 else 0
    tensor = torch.arange(float(torch.Size(shape).numel())).view(shape)
    moved = exchanged(tensor, 6)
    by_image = [one.movedim(axis, 0).reshape(6, -1) for one in (tensor, moved)]
    assert torch.equal(by_image[1], by_image[0][[5, 0, 1, 2, 3, 4]])


@pytest.mark.parametrize("shape", [(), (0,), (5, 5)])
def test_what_is_of_no_image_stays(shape: tuple[int, ...]) -> None:
    tensor = torch.rand(shape)
    assert exchanged(tensor, 6) is tensor
