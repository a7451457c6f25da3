"""AdaMod: Adam whose step sizes are bounded by their own running mean (Ding et al. 2019, algorithm 1)."""

from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor


class AdaMod(torch.optim.Optimizer):
    """Descends p by min(eta, s) m, where s is the exponential mean of the step sizes eta so far.

    With g the gradient and t the step, from 1: ``m <- beta1 m + (1 - beta1) g``, ``v <- beta2 v + (1 - beta2) g^2``,
    ``eta = rate sqrt(1 - beta2^t) / (1 - beta1^t) / (sqrt(v) + eps)``, ``s <- beta3 s + (1 - beta3) eta``. s begins at
    0 without a correction of that bias, so the first steps are short: part of the method, and of DENT with it. Weight
    decay is decoupled: ``p <- p - decay rate p`` first.

    Args:
        parameters: Tensors to move.
        rate: Learning rate.
        betas: beta1, beta2, beta3.
        eps: Added to sqrt(v).
        weight_decay: Decay per unit of the learning rate.

    Raises:
        ValueError: A number is out of range.
    """

    def __init__(
        self,
        parameters: Iterable[Tensor],
        *,
        rate: float,
        betas: tuple[float, float, float],
        eps: float = 1e-8,
        weight_decay: float = 0.0,
    ) -> None:
        if not (rate > 0 and eps > 0 and weight_decay >= 0 and all(0 <= beta < 1 for beta in betas)):
            raise ValueError(f"not an optimiser: {rate=}, {betas=}, {eps=}, {weight_decay=}")
        super().__init__(parameters, {"rate": rate, "betas": betas, "eps": eps, "weight_decay": weight_decay})

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> float | None:  # type: ignore[override]
        """Move every parameter that has a gradient."""
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        for group in self.param_groups:
            for parameter in group["params"]:
                if parameter.grad is not None:
                    self._move(parameter, parameter.grad, group)
        return loss

    def _move(self, parameter: Tensor, gradient: Tensor, group: dict[str, Any]) -> None:
        state = self.state[parameter]
        if not state:
            state["step"] = torch.tensor(0.0)
            for name in ("mean", "square", "bound"):
                state[name] = torch.zeros_like(parameter)
        state["step"] += 1
        step, (beta1, beta2, beta3) = int(state["step"]), group["betas"]
        state["mean"].lerp_(gradient, 1 - beta1)
        state["square"].mul_(beta2).addcmul_(gradient, gradient, value=1 - beta2)
        scale = group["rate"] * (1 - beta2**step) ** 0.5 / (1 - beta1**step)
        eta = scale / (state["square"].sqrt() + group["eps"])
        state["bound"].lerp_(eta, 1 - beta3)
        parameter.mul_(1 - group["rate"] * group["weight_decay"])
        parameter.sub_(torch.minimum(eta, state["bound"]) * state["mean"])
