import pytest
import torch
from torch import Tensor

from tests.attacks.test_pgd import HIGHEST_ENTROPY, IMAGES, NET, generators
from workers.attacks.memory import forward, halving
from workers.attacks.pgd import PGD


def limited(most: int):
    def model(images: Tensor) -> Tensor:
        if len(images) > most:
            raise torch.OutOfMemoryError("CUDA out of memory.")
        return NET(images)

    return model


@pytest.mark.parametrize("most", [1, 5, 11])
def test_a_batch_that_does_not_fit_is_halved_with_the_same_random_starts(most: int) -> None:
    search = PGD("linf", 0.1, 0.02, 5, random_start=True, restarts=2)
    whole = search.run([NET], IMAGES, HIGHEST_ENTROPY, generators=generators(range(12)))
    halved = search.run([limited(most)], IMAGES, HIGHEST_ENTROPY, generators=generators(range(12)))
    torch.testing.assert_close(halved.best, whole.best, rtol=0, atol=1e-5)
    torch.testing.assert_close(halved.best_logits, whole.best_logits, rtol=1e-4, atol=1e-5)
    assert torch.equal(halved.steps, whole.steps)


def test_memory_running_out_late_does_not_move_the_random_starts() -> None:
    calls = iter(range(1000))

    def late(images: Tensor) -> Tensor:
        if next(calls) > 7 and len(images) == 12:
            raise RuntimeError("DefaultCPUAllocator: can't allocate memory")
        return NET(images)

    search = PGD("linf", 0.1, 0.02, 5, random_start=True, restarts=3)
    whole = search.run([NET], IMAGES, HIGHEST_ENTROPY, generators=generators(range(12)))
    halved = search.run([late], IMAGES, HIGHEST_ENTROPY, generators=generators(range(12)))
    torch.testing.assert_close(halved.best, whole.best, rtol=0, atol=1e-5)


def test_one_example_that_does_not_fit_is_an_error() -> None:
    with pytest.raises(torch.OutOfMemoryError):
        forward(limited(0), IMAGES)


def test_other_errors_are_not_retried() -> None:
    calls = []

    def work(start: int, stop: int) -> None:
        calls.append((start, stop))
        raise RuntimeError("shapes differ")

    with pytest.raises(RuntimeError, match="shapes differ"):
        halving(work, 0, 8)
    assert calls == [(0, 8)]


def test_forward_gives_the_models_logits() -> None:
    torch.testing.assert_close(forward(limited(2), IMAGES), NET(IMAGES))
