import math

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from scipy.optimize import brentq

from seatrial.statistics.roots import brent_root

ENDS = st.floats(-100, 100)
FUNCTIONS = {
    "line": lambda x: 3 * x - 1,
    "cubic": lambda x: x**3 - 2 * x - 5,
    "steep": lambda x: math.exp(x / 10) - 7,
    "flat": lambda x: math.atan(x) ** 9,
    "root of a square": lambda x: math.sqrt(abs(x)) * (1 if x > 0 else -1) + 0.3,
    "jump": lambda x: 1.0 if x > math.pi else -1.0,
}


@pytest.mark.parametrize("name", FUNCTIONS)
@given(start=ENDS, end=ENDS, tolerance=st.sampled_from([1e-12, 1e-3, 2e-12]))
def test_the_root_is_scipy_s_to_the_last_bit(name: str, start: float, end: float, tolerance: float) -> None:
    function = FUNCTIONS[name]
    assume(function(start) == 0 or function(end) == 0 or (function(start) < 0) != (function(end) < 0))
    found = brent_root(function, start, end, tolerance=tolerance)
    assert found == brentq(function, start, end, xtol=tolerance, maxiter=10_000)


def test_the_sign_changes_within_the_tolerance() -> None:
    asked = []
    found = brent_root(lambda x: asked.append(x) or x**3 - 2 * x - 5, 2.0, 3.0, tolerance=1e-10)
    assert (found - 1e-10) ** 3 - 2 * (found - 1e-10) < 5 < (found + 1e-10) ** 3 - 2 * (found + 1e-10)
    assert len(asked) < 12


def test_a_root_at_an_end_is_that_end() -> None:
    assert brent_root(lambda x: x, 0.0, 3.0, tolerance=1e-9) == 0.0
    assert brent_root(lambda x: x - 3, 0.0, 3.0, tolerance=1e-9) == 3.0


def test_refuses_ends_of_one_sign() -> None:
    with pytest.raises(ValueError, match="one sign"):
        brent_root(lambda x: x * x + 1, -1.0, 1.0, tolerance=1e-9)
