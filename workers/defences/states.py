"""An optimiser's moments as named tensors, out of one defender and into another."""

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from workers.defences.protocol import OPTIMIZER


def moments(optimizer: torch.optim.Optimizer, parameters: Sequence[Tensor]) -> dict[str, Tensor]:
    """Return copies on the CPU of all an optimiser remembers, named ``optimizer.<parameter's position>.<name>``."""
    return {
        f"{OPTIMIZER}{position}.{name}": value.detach().cpu().clone()
        for position, parameter in enumerate(parameters)
        for name, value in optimizer.state.get(parameter, {}).items()
    }


def set_moments(optimizer: torch.optim.Optimizer, parameters: Sequence[Tensor], state: Mapping[str, Tensor]) -> None:
    """Let a new optimiser remember what :func:`moments` returned; other entries of the state are passed over."""
    for key, value in state.items():
        if key.startswith(OPTIMIZER):
            position, name = key.removeprefix(OPTIMIZER).split(".")
            parameter = parameters[int(position)]
            # Optimisers count their steps on the CPU wherever the parameter is.
            device = value.device if name == "step" else parameter.device
            optimizer.state[parameter][name] = value.to(device, copy=True)
