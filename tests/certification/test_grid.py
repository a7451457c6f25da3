"""Images and noise as whole numbers: rounding, what the network is given, and how far the law of the draws is off."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import kstest, norm

from tests.certification.test_noise import CPU, noise, seed_of
from workers.certification.grid import GRID, LARGEST, law_distance, noisy_copies, rounding, to_grid, to_pixels, within
from workers.certification.noise import PIECE, draw_by_torch

EIGHT_BITS = torch.arange(256, dtype=torch.uint8)

images = st.lists(st.floats(0, 1, width=32), min_size=2, max_size=2).map(lambda values: torch.tensor([values]))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_every_8_bit_value_is_on_the_grid_however_it_was_divided(dtype: torch.dtype) -> None:
    for pixels in (EIGHT_BITS.to(dtype) / 255, EIGHT_BITS.to(dtype) * (1 / 255), EIGHT_BITS.to(dtype).div_(255)):
        assert to_grid(pixels).tolist() == [64 * value for value in range(256)]
        assert rounding(pixels.view(1, 1, 16, 16)).tolist() == [0.0]


def test_what_the_network_is_given_is_a_function_of_the_integer_and_gives_it_back() -> None:
    steps = torch.arange(-40_000, 60_000, 7, dtype=torch.int32)
    assert torch.equal(to_grid(to_pixels(steps)), steps)
    # 8-bit pixels, added to no noise, are float32's to its last bit or the one beside it.
    torch.testing.assert_close(to_pixels(64 * EIGHT_BITS.int()), EIGHT_BITS.float() / 255, rtol=1.2e-7, atol=0)


def test_values_between_are_rounded_and_it_is_said_by_how_much() -> None:
    off = torch.tensor([[0.0, 10.25 / GRID], [1 / 255, 10 / GRID]], dtype=torch.float64)
    assert to_grid(off).tolist() == [[0, 10], [64, 10]]
    assert rounding(off).tolist() == pytest.approx([0.25 / GRID, 0.0])


def test_pixels_may_leave_0_to_1() -> None:
    assert to_grid(torch.tensor([-0.5, 9.0, -0.0])).tolist() == [-8160, 146_880, 0]


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf, 1.01 * LARGEST / GRID])
def test_what_no_noise_can_be_added_to_is_refused(value: float) -> None:
    with pytest.raises(ValueError, match="finite numbers"):
        to_grid(torch.tensor([0.5, value]))


def test_noisy_copies_are_on_the_grid_and_pass_the_gradient_through() -> None:
    at = torch.tensor([[0.1, 0.7]], requires_grad=True)
    draw = torch.tensor([-3, 12], dtype=torch.int32)
    copies = noisy_copies(at, draw)
    assert torch.equal(copies, to_pixels(to_grid(at) + draw))
    (copies * torch.tensor([2.0, 5.0])).sum().backward()
    assert at.grad is not None
    assert at.grad.tolist() == [[2.0, 5.0]]


@given(images, images)
def test_a_point_of_the_grid_next_to_another_is_no_further_away(image: torch.Tensor, moved: torch.Tensor) -> None:
    found = within(image, moved)
    change = (to_grid(found) - to_grid(image)).double()
    wanted = (moved.double() - image.double()) * GRID
    assert (change.abs() <= wanted.abs()).all()
    assert ((change - wanted).abs() < 1).all()
    assert ((found >= 0) & (found <= 1)).all()
    assert rounding(found).tolist() == [0.0]


def test_draws_are_numpy_s_normal_numbers_rounded_to_the_grid() -> None:
    """The definition, once more: rint(255 h sigma g), h = 64, g by SFC64 and the ziggurat in float64."""
    g = np.random.Generator(np.random.SFC64([seed_of(0, None), 1])).standard_normal((PIECE, 1, 2, 3))
    expected = np.rint(255 * 64 * 0.25 * g).astype(np.int32)
    assert np.array_equal(noise(0.25).draws(PIECE, 2 * PIECE).numpy(), expected)


def test_a_gpu_s_generator_is_asked_for_float64_too() -> None:
    drawn, again = torch.empty(2, 100_000, dtype=torch.float64)
    draw_by_torch(drawn, 5)
    draw_by_torch(again, 5)
    assert torch.equal(drawn, again)
    assert kstest(drawn.numpy(), "norm").pvalue > 1e-3
    assert (drawn != drawn.float()).any()


def test_the_law_s_distance_is_that_of_one_draw_and_far_below_what_n_draws_can_show() -> None:
    cpu, gpu = (law_distance(0.25, 3072, torch.device(kind)) for kind in ("cpu", "cuda"))
    assert 0 < cpu < gpu < 1e-7
    assert noise(0.25, shape=(3, 32, 32)).distance == cpu
    assert law_distance(0.5, 2 * 3072, CPU) == pytest.approx(4 * cpu, rel=0.01)
    assert law_distance(100, 10**9, torch.device("cuda")) == 1.0


def law_of_a_ziggurat(bits: int, s: float) -> np.ndarray:
    """Return how often |rint(s g)| is 0, 1, ..., for g of 256 strips with 2^bits points each: numpy's has 2^52."""
    area, edges = 0.0049286732339746549, [3.6541528853610088]
    while len(edges) < 255:
        edges.append(math.sqrt(-2 * math.log(area / edges[-1] + math.exp(-(edges[-1] ** 2) / 2))))
    points, law = np.arange(2**bits) / 2**bits, np.zeros(round(8 * s))
    for right, left in zip(edges, [*edges[1:], 0.0], strict=True):
        x = points * right
        # Beyond the strip above, as often as a point of the strip is below the curve.
        accepted = np.where(x < left, 1.0, (np.exp(-(x**2) / 2) - math.exp(-(right**2) / 2)) * right / area)
        np.add.at(law, np.rint(s * x).astype(int), area * accepted / 2**bits)
    x = points * area / math.exp(-(edges[0] ** 2) / 2)
    np.add.at(law, np.rint(s * x[x < edges[0]]).astype(int), area / 2**bits)
    ends = np.maximum(np.arange(len(law) + 1) - 0.5, s * edges[0]) / s
    law -= math.sqrt(2 * math.pi) * np.diff(norm.sf(ends))
    return law / law.sum()


@pytest.mark.parametrize(("sigma", "bits"), [(0.001, 12), (0.01, 12), (0.01, 16)])
def test_a_ziggurat_of_fewer_bits_is_as_far_off_as_the_bound_allows_and_no_further(sigma: float, bits: int) -> None:
    s = sigma * GRID
    law = law_of_a_ziggurat(bits, s)
    exact = 2 * np.diff(norm.cdf(np.append(0, np.arange(len(law)) + 0.5) / s))
    assert 2.0**-bits / 50 < np.abs(law - exact).sum() / 2 < 1.6 * s * 2.0**-bits
