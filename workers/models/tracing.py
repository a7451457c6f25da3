"""What a forward pass costs, found out without computing it."""

from typing import Any

from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from seatrial.store.settings import Settings
from workers.errors import TargetError

TRACED_IMAGES = 2
"""Images of a trace."""


class ValueCount(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Counts the values operators write while it is entered, on any device: on ``meta`` nothing is allocated.

    Views and in-place results are free. The sum over all operators is an upper bound on what a forward pass that is
    to be differentiated keeps. Attention counts its matrices, which fused kernels never write.

    >>> import torch
    >>> with torch.device("meta"), ValueCount() as count:
    ...     _ = torch.relu(torch.empty(3, 10**6).flatten())
    >>> count.values
    6000000
    """

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.values: int = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Run the operator and count what is new in its results."""
        results = func(*args, **(kwargs or {}))
        returned = results if isinstance(results, (tuple, list)) else (results,)
        declared = func._schema.returns
        for position, result in enumerate(returned):
            # An operator that returns a list declares one result.
            is_new = declared[min(position, len(declared) - 1)].alias_info is None
            if isinstance(result, Tensor) and is_new:
                self.values += result.numel()
        return results


def check_values(values: int, limits: Settings, *, field: str) -> None:
    """Raise when a trace of ``TRACED_IMAGES`` images has counted more than the limits allow.

    Raises:
        TargetError: It has; names the setting and what is to blame.
    """
    per_image = values // TRACED_IMAGES
    if per_image > limits.max_activation_values:
        raise TargetError(
            "activations-too-large",
            "The model computes too much for one image",
            f"up to here, {per_image:,} values are computed for one image; at most {limits.max_activation_values:,} "
            "are accepted (SEATRIAL_MAX_ACTIVATION_VALUES): use smaller images or a smaller model",
            field=field,
        )
