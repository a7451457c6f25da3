"""Rules several families' parameters share; a refusal names the field it is raised for."""

from pydantic import ValidationInfo

LEAST = 1e-6
"""Least radius: pixels are float32, and what is much smaller does not change them."""


def fits_its_norm(epsilon: float, info: ValidationInfo) -> float:
    """Return a radius that the ball's norm leaves room for; the field ``norm`` must come before it.

    Raises:
        ValueError: It is above 1 in l_inf, where pixels are in [0, 1].
    """
    if info.data.get("norm") == "linf" and epsilon > 1:
        raise ValueError(f"epsilon must be at most 1 in linf on pixels in [0, 1], got {epsilon:g}")
    return epsilon
