"""Changes that many numbers make together, and those that are large anyhow, count as one; others by their scale."""

import pytest
import torch

from workers.attacks.whitening import Whitening, apart, whitening


def drawn(*shape: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def test_it_is_the_inverse_root_of_one_and_the_changes_second_moments() -> None:
    """Of as many directions as there are, it is what full whitening gives."""
    changes, scales = 3 * drawn(5, 8), drawn(8, seed=1).exp()
    scaled = changes / scales
    values, vectors = torch.linalg.eigh(torch.eye(8, dtype=torch.float64) + scaled.T @ scaled / 5)
    whole = vectors @ torch.diag(values.rsqrt()) @ vectors.T
    asked = drawn(4, 8, seed=2)
    torch.testing.assert_close(whitening(changes, scales, 5)(asked), asked / scales @ whole)


def test_what_moves_most_together_counts_as_one_and_the_rest_as_it_was() -> None:
    together, rest = torch.ones(1, 6, dtype=torch.float64), drawn(1, 6)
    rest -= rest.mean()
    measure = whitening(torch.cat([50 * together, 0.01 * rest]), torch.ones(6), 1)
    assert float(measure(50 * together).norm()) == pytest.approx(2**0.5, rel=0.01)
    torch.testing.assert_close(measure(rest), rest)


def test_numbers_that_are_left_out_are_nothing() -> None:
    changes = drawn(4, 3)
    measure = whitening(changes, torch.tensor([1.0, torch.inf, 2.0]), 2)
    assert (measure(changes)[:, 1] == 0).all()
    assert measure(changes).isfinite().all()
    none = Whitening(torch.ones(3), torch.zeros(1, 3))
    torch.testing.assert_close(none(changes), changes)


def test_numbers_lie_apart_by_a_millionth_of_the_most_at_least() -> None:
    numbers = torch.tensor([[0.0, 1.0, 5.0, torch.inf], [2.0, 1.0, 5.0, 0.0]])
    spread = apart(numbers)
    assert spread.tolist() == pytest.approx([2**0.5, 2**0.5 * 1e-6, 2**0.5 * 1e-6, torch.inf])
    assert (apart(torch.ones(3, 2)) == 0).all()
    assert apart(torch.full((3, 2), torch.inf)).isinf().all()
