"""The gradient over all parameters together: its norm, and what is done to it before the optimiser."""

from collections.abc import Iterable
from typing import Literal

import torch
from torch import Tensor, nn

Treatment = Literal["plain", "normalised", "clipped"]


def gradients_of(module: nn.Module) -> list[Tensor]:
    """Return the gradients of all parameters that have one."""
    return [each.grad for each in module.parameters() if each.grad is not None]


def global_norm(gradients: Iterable[Tensor]) -> Tensor:
    """Return the l_2 norm over all entries of all gradients (0-d).

    >>> global_norm([torch.tensor([3.0]), torch.tensor([[4.0]])]).item()
    5.0
    """
    return torch.nn.utils.get_total_norm(list(gradients))


def treat(module: nn.Module, treatment: Treatment, clip_norm: float) -> bool:
    """Change the gradients of a module in place; return False where they are all 0 and were to be normalised.

    ``normalised`` gives them an l_2 norm of 1 over all parameters, also where it was below 1 (Raina et al., appendix
    on training; ``training.md`` B2); ``clipped`` scales them as ``torch.nn.utils.clip_grad_norm_`` does.
    """
    if treatment == "plain":
        return True
    gradients = gradients_of(module)
    if treatment == "clipped":
        torch.nn.utils.clip_grads_with_norm_(module.parameters(), clip_norm, global_norm(gradients))
        return True
    norm = global_norm(gradients)
    if not bool(norm > 0):
        return False
    torch._foreach_div_(gradients, norm)
    return True
