"""Whether calibration errors are over enough bins to be held against published ones."""

import pytest

from workers.runtime.bins import few_bins


@pytest.mark.parametrize(
    ("bins", "told"), [(1, "over 1 bin, in"), (9, "over 9 bins, in"), (10, None), (15, None), (None, None)]
)
def test_bins_in_which_errors_cancel_are_told(bins: int | None, told: str | None) -> None:
    found = few_bins(bins)
    assert [(flag.code, flag.severity) for flag in found] == [("few_bins", "warning")] * (told is not None)
    assert told is None or told in found[0].message
