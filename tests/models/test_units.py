"""Whether a table's manifest says how far its columns deviate."""

import pytest
import torch

from workers.models.units import Unit


def told(std: list[float], rows: int = 100) -> list[str]:
    """Return the flags of columns that deviate by one, told in units of std, seen in two batches."""
    values = torch.randn(rows, len(std), generator=torch.Generator().manual_seed(1)) + 7
    unit = Unit()
    for batch in (values / torch.tensor(std)).split(rows // 2 + 1):
        unit.see(batch)
    return [flag.message for flag in unit.flags()]


@pytest.mark.parametrize(
    ("std", "is_told"),
    [([1.0, 1.0], False), ([0.4, 0.4], False), ([0.25, 0.25], True), ([0.25, 1.0], False), ([1e-3, 1e-3, 1.0], True)],
)
def test_a_unit_that_is_small_in_most_columns_is_told(std: list[float], *, is_told: bool) -> None:
    assert bool(told(std)) == is_told


def test_columns_that_never_vary_say_nothing_and_few_rows_no_more() -> None:
    unit = Unit()
    unit.see(torch.full((40, 3), 1e4))
    assert unit.flags() == []
    assert told([0.01], rows=18) == []
