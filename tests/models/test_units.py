"""Whether a table's manifest says how far its columns deviate, and whether a radius is something beside that."""

import pytest
import torch

from workers.models.units import Deviations, small_radii, small_unit


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
    ("found", "sigma", "is_said", "told"),
    [
        (1.0, 0.25, True, None),
        (1.4, None, True, None),
        (1.6, None, True, "Half of the columns that vary deviate from their mean by over 1.6 times the manifest's std"),
        (1.0, 0.099, True, "Sigma = 0.099 is 0.099 of the deviation of a column"),
        # In units of the table, as nobody says what a unit is, noise may be large enough all the same.
        (5.0, 1.0, False, None),
        (5.0, 0.25, False, "Sigma = 0.25 is 0.05 of the deviation"),
        (5.0, None, False, None),
        (None, 1e-6, True, None),
    ],
)
def test_a_unit_that_is_no_deviation_is_told(
    found: float | None, sigma: float | None, is_said: bool, told: str | None
) -> None:
    flags = small_unit(found, sigma, is_said=is_said)
    assert [flag.severity for flag in flags] == ["warning"] * (told is not None)
    assert told is None or flags[0].message.startswith(told)


def test_each_radius_is_held_against_the_deviation_by_itself() -> None:
    radii = {"small_radius": 0.1, "autoattack_small_radius": 0.099}
    assert [flag.code for flag in small_radii(1.0, radii)] == ["autoattack_small_radius"]
    assert [flag.code for flag in small_radii(5.0, radii)] == list(radii)
    assert small_radii(None, radii) == []
