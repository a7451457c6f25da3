import pytest
import torch
import torch.nn.functional as F

from tests.models.builders import CPU
from workers.models.image_classifier import BilinearResize

SIZES = [
    ((32, 32), (224, 224)),
    ((224, 224), (32, 32)),
    ((17, 40), (40, 17)),
    ((40, 17), (17, 40)),
    ((9, 9), (9, 5)),
    ((1, 7), (3, 1)),
]


@pytest.mark.parametrize(("before", "after"), SIZES)
def test_it_is_antialiased_bilinear_interpolation(before: tuple[int, int], after: tuple[int, int]) -> None:
    draw = torch.Generator().manual_seed(0)
    images = torch.rand(2, 3, *before, generator=draw, requires_grad=True)
    upstream = torch.randn(2, 3, *after, generator=draw)
    got = BilinearResize(before, after, CPU)(images)
    want = F.interpolate(images, after, mode="bilinear", align_corners=False, antialias=True)
    assert torch.allclose(got, want, rtol=0, atol=1e-5)
    (gradient,) = torch.autograd.grad(got, images, upstream)
    (expected,) = torch.autograd.grad(want, images, upstream)
    scale = float(expected.abs().max())
    assert torch.allclose(gradient, expected, rtol=0, atol=1e-5 * max(1.0, scale))


def test_no_operator_of_it_adds_atomically_on_a_gpu() -> None:
    images = torch.rand(1, 3, 8, 8, requires_grad=True)
    resized = BilinearResize((8, 8), (4, 4), CPU)(images)
    names, seen = set(), [resized.grad_fn]
    while seen:
        node = seen.pop()
        if node is not None:
            names.add(type(node).__name__)
            seen += [before for before, _ in node.next_functions]
    assert not [name for name in names if "Upsample" in name or "Index" in name]
    assert any("mm" in name.lower() for name in names)


def test_the_intermediate_is_never_larger_than_both_images() -> None:
    images = torch.rand(1, 1, 512, 2)
    largest = 0

    class Largest(torch.utils._python_dispatch.TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            nonlocal largest
            result = func(*args, **(kwargs or {}))
            largest = max(largest, result.numel())
            return result

    resize = BilinearResize((512, 2), (2, 512), CPU)
    with Largest():
        resize(images)
    # The matrices themselves have 2 x 512 values.
    assert largest <= 1024
