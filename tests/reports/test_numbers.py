"""Numbers as people read them: true to half of their last digit, alike where they stand together."""

import math
import re
from itertools import pairwise

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from seatrial.contracts.estimates import Estimate
from seatrial.reporting.balls import format_radius
from seatrial.reporting.numbers import (
    NEGLIGIBLE,
    format_aligned,
    format_bound,
    format_estimate,
    format_interval,
    format_number,
    format_percentage,
    format_percentage_estimate,
    format_percentage_points,
    format_percentage_points_estimate,
    format_value,
)
from seatrial.reporting.schemas import ReportEstimate

# As often near the numbers people publish as anywhere.
FINITE = st.one_of(
    st.floats(-1e300, 1e300),
    st.floats(-1, 1),
    st.floats(-20_000, 20_000),
    st.sampled_from([0.0, -0.0, 9.99996, 99.996, 999.96, 0.000999996, 9_999_999.6, 1e7, 1e-3, 1e-5, 1e-12, 5e-324]),
)
GROUPS = st.lists(FINITE, min_size=1, max_size=4)
_WRITTEN = re.compile(r"(-?)(\d+)(?:\.(\d+))?(?:e([+-]\d\d+))?")


def parts(written: str) -> tuple[str, str, str, str]:
    """Return sign, whole part, decimals and exponent."""
    match = _WRITTEN.fullmatch(written)
    assert match is not None, written
    return match[1], match[2], match[3] or "", match[4] or ""


def last_digit(written: str) -> float:
    _, _, decimals, exponent = parts(written)
    return 10.0 ** (int(exponent or 0) - len(decimals))


def interval_of(numbers: list[float], **given: object) -> Estimate:
    low, value, high = sorted(numbers)
    return Estimate(value=value, low=low, high=high, n=100, **({"method": "gaffke"} | given))


@given(GROUPS)
def test_what_is_written_is_within_half_a_last_digit(numbers: list[float]) -> None:
    for number, written in zip(numbers, format_aligned(numbers), strict=True):
        # The division by a power of ten and the reading back are each off by a float's last bit.
        slack = 4 * math.ulp(max(abs(one) for one in numbers))
        assert abs(float(written) - number) <= 0.5 * last_digit(written) + slack


@given(GROUPS)
def test_numbers_that_stand_together_end_at_the_same_digit(numbers: list[float]) -> None:
    endings = {(len(decimals), exponent) for _, _, decimals, exponent in map(parts, format_aligned(numbers))}
    assert len(endings) == 1


@given(GROUPS)
def test_the_largest_keeps_two_digits_that_say_something(numbers: list[float]) -> None:
    largest = max(numbers, key=abs)
    assume(abs(largest) >= NEGLIGIBLE)
    written = format_aligned(numbers)[numbers.index(largest)]
    assert abs(float(written) - largest) <= 0.05 * abs(largest)
    assert len(written) <= len("-10000000.0000")


@given(GROUPS)
def test_a_larger_number_is_never_written_as_a_smaller_one(numbers: list[float]) -> None:
    together = [float(one) for one in format_aligned(sorted(numbers))]
    assert all(one <= other for one, other in pairwise(together))
    alone = [float(format_number(one)) for one in sorted(numbers)]
    assert all(one <= other for one, other in pairwise(alone))


@given(GROUPS)
def test_a_number_and_its_opposite_differ_in_the_sign_and_zero_has_none(numbers: list[float]) -> None:
    for one, other in zip(format_aligned(numbers), format_aligned([-one for one in numbers]), strict=True):
        assert one.removeprefix("-") == other.removeprefix("-")
        assert (one == other) == (float(one) == 0) == (not one.startswith("-") and not other.startswith("-"))


@given(st.lists(FINITE, min_size=3, max_size=3), st.sampled_from(["gaffke", "paired", "exact", "mover"]))
@example([1.0016, 0.9364, 1.049], "gaffke")
@example([0.9416, 0.99, 1.042], "gaffke")
@example([0.41, 0.3, 12.4], "gaffke")
@example([-0.00001, 0.0, 0.02], "paired")
def test_a_value_and_its_interval_are_written_alike(numbers: list[float], method: str) -> None:
    estimate = interval_of(numbers, method=method)
    written = format_estimate(estimate)
    value, low, high = re.fullmatch(r"(.+) \[(.+), (.+)\]", written).groups()
    assert written == f"{format_value(estimate)} {format_interval(estimate)}"
    if not value.startswith("<"):
        assert [value, low, high] == format_aligned([estimate.value, estimate.low, estimate.high])
        assert float(low) <= float(value) <= float(high)


@pytest.mark.parametrize(
    ("numbers", "written"),
    [
        ([1.0016, 0.9364, 1.049], "1.0016 [0.9364, 1.0490]"),
        ([0.99, 0.9416, 1.042], "0.9900 [0.9416, 1.0420]"),
        ([0.0, 0.0, 0.0131], "0.0000 [0.0000, 0.0131]"),
        ([0.00014, 0.00008, 0.0002], "0.00014 [0.00008, 0.00020]"),
        ([3e-7, 0.0, 2.5e-6], "0.3e-06 [0.0e-06, 2.5e-06]"),
        ([123.25, 98.0, 150.5], "123.2 [98.0, 150.5]"),
        ([12345.6, 900.0, 20000.0], "12346 [900, 20000]"),
        ([2.5e9, 1e3, 3e9], "2.500e+09 [0.000e+09, 3.000e+09]"),
        ([-0.21, -0.3, 0.000001], "-0.2100 [-0.3000, 0.0000]"),
        ([1.0, 0.5, math.inf], "1.0000 [0.5000, inf]"),
        ([1.0, -math.inf, 2.0], "1.0000 [-inf, 2.0000]"),
    ],
)
def test_an_estimate_as_it_is_written(numbers: list[float], written: str) -> None:
    value, low, high = numbers
    assert format_estimate(Estimate(value=value, low=low, high=high, n=9, method="gaffke")) == written


def test_what_is_undefined_says_so() -> None:
    nothing = Estimate(value=None, low=None, high=None, n=0, method="none")
    assert format_estimate(nothing) == format_number(None) == format_number(math.nan) == "undefined"
    assert format_percentage(math.nan) == format_percentage_points(None) == "undefined"
    assert format_aligned([None, 0.25, math.nan]) == ["undefined", "0.2500", "undefined"]
    assert format_aligned([]) == []


def test_an_exact_probability_is_never_written_as_zero() -> None:
    assert format_value(Estimate(value=1e-25, low=None, high=None, n=9, method="exact")) == "< 1e-12"
    assert format_value(Estimate(value=0.0, low=None, high=None, n=9, method="exact")) == "0.0000"


@pytest.mark.parametrize(("numbers", "written"), [([2.0, 1.0, 3.0], "2 [1, 3]"), ([2.5, 1.0, 3.0], "2.5 [1.0, 3.0]")])
def test_a_rank_is_whole_or_a_half(numbers: list[float], written: str) -> None:
    value, low, high = numbers
    rank = ReportEstimate(
        name="rank[attacker=intrude]",
        value=value,
        low=low,
        high=high,
        n=9,
        method="gaffke",
        description="",
        unit="1",
        better="lower",
    )
    assert format_estimate(rank) == written


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_a_bound_is_written_as_it_was_given(bound: float) -> None:
    written = format_bound(bound)
    assert math.isclose(float(written), bound, rel_tol=1e-11, abs_tol=1e-320)
    assert not re.match(r"-0(\.0*)?$", written)


@given(st.floats(0, 1), st.floats(0, 1))
def test_a_percentage_is_of_the_fraction_and_grows_with_it(one: float, other: float) -> None:
    read = [_percentage(format_percentage(fraction)) for fraction in sorted([one, other])]
    assert read[0] <= read[1]
    assert all(abs(shown - 100 * of) <= 0.1 for shown, of in zip(read, sorted([one, other]), strict=True))
    assert (format_percentage(one) == "0%") == (one == 0)
    assert (format_percentage(one) == "100%") == (one == 1)


@given(st.floats(-1, 1))
def test_percentage_points_are_of_the_difference(difference: float) -> None:
    written = format_percentage_points(difference)
    number, unit = written.split()
    assert abs(float(number) - 100 * difference) <= 0.05 + 1e-9
    assert (unit == "point") == (abs(float(number)) == 1)
    assert not written.startswith("-0 ")


@given(st.integers(1, 510))
def test_a_radius_in_grey_levels_reads_back(halves: int) -> None:
    written = format_radius(halves / 510)
    assert float(written.partition("/")[0]) / (255 if "/" in written else 1) == pytest.approx(halves / 510, abs=1e-6)


def _percentage(written: str) -> float:
    return {"under 0.1%": 0.049, "over 99.9%": 99.951}.get(written) or float(written.removesuffix("%"))


@given(st.lists(st.floats(0, 1), min_size=3, max_size=3))
@example([0.7, 0.605, 0.8])
@example([0.99997, 0.99, 1.0])
def test_a_percentage_and_its_interval_end_at_the_same_digit(fractions: list[float]) -> None:
    estimate = interval_of(fractions)
    written = format_percentage_estimate(estimate, " of 80 texts")
    value, low, high = re.fullmatch(r"(.+) of 80 texts \(95% interval (.+) to (.+)\)", written).groups()
    plain = [one.removesuffix("%") for one in (value, low, high) if one not in ("under 0.1%", "over 99.9%")]
    assert len({len(one.partition(".")[2]) for one in plain}) <= 1
    for one, fraction in zip((value, low, high), (estimate.value, estimate.low, estimate.high), strict=True):
        assert abs(_percentage(one) - 100 * fraction) <= 0.1


@given(st.lists(st.floats(-1, 1), min_size=3, max_size=3))
@example([0.36, 0.253, 0.47])
def test_percentage_points_and_their_interval_end_at_the_same_digit(differences: list[float]) -> None:
    estimate = interval_of(differences)
    written = format_percentage_points_estimate(estimate)
    parts_written = re.fullmatch(r"(.+) points? \(95% interval (.+) to (.+)\)", written).groups()
    assert len({len(one.partition(".")[2]) for one in parts_written}) == 1
    for one, difference in zip(parts_written, (estimate.value, estimate.low, estimate.high), strict=True):
        assert abs(float(one) - 100 * difference) <= 0.05 + 1e-9
        assert not re.fullmatch(r"-0(\.0)?", one)
