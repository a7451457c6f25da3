import pytest
import torch
from torch import Tensor

from tests.attacks.test_pgd import HIGHEST_ENTROPY, IMAGES, NET, generators
from workers.attacks.pgd import PGD
from workers.models.memory import forward, is_out_of_memory, run_with_oom_split


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
        run_with_oom_split(work, 0, 8)
    assert calls == [(0, 8)]


def test_forward_gives_the_models_logits() -> None:
    torch.testing.assert_close(forward(limited(2), IMAGES), NET(IMAGES))


OUT_OF_MEMORY = [
    torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 1 GiB"),
    torch.OutOfMemoryError(),
    MemoryError(),
    MemoryError("Unable to allocate 8.00 EiB for an array"),
    RuntimeError("CUDA error: out of memory"),
    RuntimeError("MPS backend out of memory (MPS allocated: 9.05 GB)"),
    RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`"),
    RuntimeError("cuDNN error: CUDNN_STATUS_ALLOC_FAILED"),
    RuntimeError("[enforce fail at alloc_cpu.cpp:117] err == 0. DefaultCPUAllocator: can't allocate memory: you tried"),
    RuntimeError("[enforce fail at alloc_cpu.cpp:80] data. DefaultCPUAllocator: not enough memory: you tried to"),
]


@pytest.mark.parametrize("error", OUT_OF_MEMORY, ids=str)
def test_every_message_about_memory_is_known_and_splits_the_work(error: Exception) -> None:
    assert is_out_of_memory(error)

    def work(start: int, stop: int) -> range:
        if stop - start > 2:
            raise error
        return range(start, stop)

    assert run_with_oom_split(work, 0, 7) == [range(1), range(1, 3), range(3, 5), range(5, 7)]
    with pytest.raises(type(error)):
        forward(_failing(error), IMAGES[:1])


@pytest.mark.parametrize(
    "error",
    [
        RuntimeError("shapes differ"),
        RuntimeError("CUDA error: an illegal memory access was encountered"),
        RuntimeError("CUDA error: CUBLAS_STATUS_EXECUTION_FAILED when calling `cublasSgemm(handle)`"),
        RuntimeError("cuDNN error: CUDNN_STATUS_NOT_SUPPORTED"),
        RuntimeError("Expected all tensors to be in the same memory format"),
        ValueError("CUDA out of memory"),
        KeyError("not enough memory"),
    ],
    ids=str,
)
def test_other_errors_are_not_taken_for_too_little_memory(error: Exception) -> None:
    assert not is_out_of_memory(error)
    with pytest.raises(type(error)):
        run_with_oom_split(_failing(error), 0, 8)


def test_what_the_cpu_allocator_says_on_this_system_is_known() -> None:
    with pytest.raises(RuntimeError) as caught:
        torch.empty(2**60, dtype=torch.uint8)
    assert is_out_of_memory(caught.value)


def _failing(error: Exception):
    def fail(*_: object) -> Tensor:
        raise error

    return fail
