"""Whether a table's manifest says how far its columns deviate, and whether a radius is something beside that."""

import pytest
import torch

from workers.models.units import Deviations, small_unit


def deviation(std: list[float], rows: int = 100) -> float | None:
    """Return the median of columns that deviate by one, in units of std, seen in two batches."""
    values = torch.randn(rows, len(std), generator=torch.Generator().manual_seed(1)) + 7
    seen = Deviations()
    for batch in (values / torch.tensor(std)).split(rows // 2 + 1):
        seen.see(batch)
    return seen.median()


def test_the_median_is_of_the_columns_that_vary() -> None:
    assert deviation([1.0, 0.1, 0.01]) == pytest.approx(10, rel=0.2)
    seen = Deviations()
    seen.see(torch.cat([torch.full((40, 5), 1e4), torch.arange(40.0)[:, None]], 1))
    assert seen.median() == pytest.approx(float(torch.arange(40.0).std(correction=0)))
    nothing = Deviations()
    nothing.see(torch.full((40, 3), 1e4))
    assert nothing.median() is deviation([0.01], rows=18) is None


@pytest.mark.parametrize(
    ("found", "radius", "is_said", "told"),
    [
        (1.0, 0.25, True, None),
        (1.4, 0.25, True, None),
        (2.9, 1.0, True, "Half of the columns that vary deviate from their mean by over 2.9 times the std"),
        (1.0, 0.099, True, "The radius of 0.099 is 0.099 of the deviation"),
        # In units of the table a radius may be large enough all the same; of certificates nobody knows which is meant.
        (5.0, 1.0, False, None),
        (5.0, 0.25, False, "The radius of 0.25 is 0.05 of the deviation"),
        (5.0, None, False, "Half of the columns that vary deviate from their mean by over 5 times a unit of the table"),
        (1.4, None, False, None),
        (None, 1e-6, True, None),
    ],
)
def test_a_radius_that_is_smaller_than_it_looks_is_told(
    found: float | None, radius: float | None, is_said: bool, told: str | None
) -> None:
    flags = small_unit(found, radius, is_said=is_said)
    assert [flag.severity for flag in flags] == ["warning"] * (told is not None)
    assert told is None or flags[0].message.startswith(told)
