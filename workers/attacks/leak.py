"""A share of the gradient of what a function returns, for what it was given too."""

from typing import Any

import torch
from torch import Tensor


def let_through(found: Tensor, given: Tensor, slope: float) -> Tensor:
    """Return what a function found, with a share of its gradient for what the function was given.

    Args:
        found: What it found; the values of what is returned.
        given: As many numbers, as they were before the call.
        slope: The share, beside the function's own gradient.
    """
    leaked: Tensor = _Leak.apply(found, given, slope)  # type: ignore[no-untyped-call]
    return leaked


class _Leak(torch.autograd.Function):
    """Written by hand, it keeps no copy."""

    @staticmethod
    def forward(context: Any, found: Tensor, given: Tensor, slope: float) -> Tensor:
        # Of an infinite number, as in the mask of an attention, there is no change.
        is_finite = given.isfinite()
        context.is_finite, context.slope = None if is_finite.all() else is_finite, slope
        return found.clone()

    @staticmethod
    def backward(context: Any, *gradients: Tensor) -> tuple[Tensor, Tensor, None]:
        (gradient,) = gradients
        leaked = context.slope * gradient
        return gradient, leaked if context.is_finite is None else leaked * context.is_finite, None
