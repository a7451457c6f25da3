import hashlib
import math
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import chisquare, kstest, norm

from workers.certification.grid import GRID
from workers.certification.noise import BLOCK, PIECE, Noise, block_of

CPU = torch.device("cpu")
SHAPE = (1, 2, 3)


def seed_of(block: int, example_id: int | None) -> int:
    return int.from_bytes(hashlib.sha256(f"{block} {example_id}".encode()).digest()[:8], "big") >> 1


def noise(
    sigma: float = 0.25, *, shared: bool = True, shape: tuple[int, int, int] = SHAPE, seed_of: Any = seed_of
) -> Noise:
    return Noise(sigma, shape, CPU, seed_of, shared=shared)


WHOLE = noise().draws(0, 2 * BLOCK + 500)


def test_draws_are_normal_with_standard_deviation_sigma() -> None:
    assert WHOLE.dtype == torch.int32
    draws = noise(0.25, shape=(1, 10, 10)).draws(0, 3 * BLOCK).flatten().double() / GRID
    # Steps are a 4000th of sigma: far below what 300,000 draws show.
    assert kstest(draws.numpy() / 0.25, "norm").pvalue > 1e-3
    assert abs(draws.mean().item()) < 4 * 0.25 / math.sqrt(len(draws))
    assert draws.std().item() == pytest.approx(0.25, rel=4 / math.sqrt(2 * len(draws)))


def test_steps_come_as_often_as_the_rounded_gaussian_says() -> None:
    """With a sigma of 1.6 steps the law of the integers is seen one by one."""
    sigma = 1e-4
    draws = noise(sigma, shape=(1, 20, 20)).draws(0, BLOCK).flatten().numpy()
    inside = np.diff(norm.cdf((np.arange(-6, 8) - 0.5) / (sigma * GRID)))
    seen = np.array([*[(draws == step).sum() for step in range(-6, 7)], (abs(draws) > 6).sum()])
    assert chisquare(seen, len(draws) * np.append(inside, 1 - inside.sum())).pvalue > 1e-3


def test_pixels_and_draws_are_uncorrelated() -> None:
    draws = noise(1.0, shape=(2, 3, 3)).draws(0, 4 * BLOCK).flatten(1).double()
    within = torch.corrcoef(draws.T) - torch.eye(18)
    between = torch.corrcoef(torch.stack([draws[:-PIECE].flatten(), draws[PIECE:].flatten()]))[0, 1]
    blocks = torch.corrcoef(torch.stack([draws[:-BLOCK].flatten(), draws[BLOCK:].flatten()]))[0, 1]
    assert within.abs().max() < 5 / math.sqrt(len(draws))
    assert max(abs(between.item()), abs(blocks.item())) < 5 / math.sqrt(len(draws) * 18 - BLOCK * 18)


@given(ranges=st.lists(st.tuples(st.integers(0, 2499), st.integers(1, 1200)), min_size=1, max_size=6))
def test_a_draw_is_the_same_however_it_is_asked_for(ranges) -> None:
    asked = noise()
    for start, length in ranges:
        stop = min(start + length, len(WHOLE))
        assert torch.equal(asked.draws(start, stop), WHOLE[start:stop])


def test_what_was_drawn_before_is_not_overwritten() -> None:
    asked = noise()
    kept = asked.draws(10, 20)
    before = kept.clone()
    asked.draws(0, 3 * BLOCK)
    assert torch.equal(kept, before)


def test_no_draw_comes_twice() -> None:
    assert len(WHOLE.flatten(1).unique(dim=0)) == len(WHOLE)


def test_shared_draws_are_the_same_for_all_and_made_once_a_block() -> None:
    asked: list[tuple[int, int | None]] = []

    def counting(block: int, example_id: int | None) -> int:
        asked.append((block, example_id))
        return seed_of(block, example_id)

    shared = Noise(0.25, SHAPE, CPU, counting, shared=True)
    found = [shared.draws(0, BLOCK, example_id) for example_id in (3, 1, None)]
    assert all(torch.equal(one, WHOLE[:BLOCK]) for one in found)
    assert asked == [(0, None)]


def test_independent_draws_differ_by_example_and_do_not_depend_on_who_came_before() -> None:
    independent = noise(shared=False)
    first, second = independent.draws(0, 1500, 7), independent.draws(0, 1500, 8)
    assert torch.equal(independent.draws(0, 1500, 7), first)
    assert torch.equal(noise(shared=False).draws(0, 1500, 8), second)
    assert abs(torch.corrcoef(torch.stack([first.flatten(), second.flatten()]))[0, 1].item()) < 0.05
    assert (first == second).float().mean() < 0.001


def test_all_bits_of_a_seed_count() -> None:
    high = Noise(1.0, SHAPE, CPU, lambda block, _: 5 + (block << 40), shared=True).draws(0, 2 * BLOCK)
    assert (high[:BLOCK] == high[BLOCK:]).float().mean() < 0.001


def test_sigma_scales_the_same_draws() -> None:
    assert (noise(0.5).draws(0, 100) - 2 * noise(0.25).draws(0, 100)).abs().max() == 1


@pytest.mark.parametrize("shape", [(1, 8, 8), (3, 32, 32), (3, 64, 64), (3, 224, 224), (3, 512, 512), (3, 4096, 4096)])
def test_a_block_fits_in_64_mib_whatever_the_image(shape: tuple[int, int, int]) -> None:
    block = block_of(shape)
    assert block == 1 or 4 * block * math.prod(shape) <= 2**26
    assert BLOCK % block == 0


def test_small_blocks_hold_other_draws_each() -> None:
    large = noise(1.0, shape=(3, 1000, 1000))
    assert large.block == 5
    drawn = large.draws(3, 7)
    assert drawn.shape == (4, 3, 1000, 1000)
    assert len(drawn[:, 0, 0, 0].unique()) == 4


def test_whoever_needs_few_draws_makes_few() -> None:
    asked = noise()
    asked.draws(0, PIECE + 1)
    assert asked._made == {0, 1}


@pytest.mark.parametrize(("start", "stop"), [(0, 0), (5, 3), (-1, 2)])
def test_ranges_without_draws_are_refused(start: int, stop: int) -> None:
    with pytest.raises(ValueError, match="no draws"):
        noise().draws(start, stop)


def test_independent_noise_needs_an_example() -> None:
    with pytest.raises(ValueError, match="id is missing"):
        noise(shared=False).draws(0, 10)


@pytest.mark.parametrize("sigma", [0.0, -1.0, math.nan])
def test_sigma_must_be_above_zero(sigma: float) -> None:
    with pytest.raises(ValueError, match="sigma"):
        noise(sigma)
