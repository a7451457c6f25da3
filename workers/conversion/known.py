"""Which of the built-in architectures a state dict is of, by the names and shapes of its tensors."""

import re
from collections.abc import Iterator, Mapping
from typing import Any

import torch
from torch import Tensor

from seatrial.contracts.models import ModelManifest
from workers.conversion.errors import ConversionError
from workers.errors import TargetError
from workers.models.architectures import build_architecture, check_shapes
from workers.models.state_dicts import fit_state

Architecture = dict[str, Any]
SIDES = {"lenet": 28, "torchvision": 224, "timm": 224}
"""Rows and columns of the images an architecture is for; 32 where nothing else is said."""


def recognise(
    state: Mapping[str, Tensor], manifest: dict[str, Any], wanted: Architecture | None = None
) -> ModelManifest:
    """Return the manifest with the architecture whose tensors these are.

    Args:
        state: Prefixes stripped.
        manifest: All else; ``input`` and ``labels`` may be missing, and are then filled in from shapes.
        wanted: The architecture, where it is known: nothing else is tried.

    Raises:
        ConversionError: None fits, with what each that was tried lacks.
    """
    reasons = []
    for architecture in [wanted] if wanted is not None else candidates(state):
        described = ModelManifest.model_validate(_filled(manifest, architecture, state))
        try:
            with torch.device("meta"):
                module = build_architecture(described, set(state))
            check_shapes(module, described)
            fit_state(module, dict(state), described.architecture.kind)
        except TargetError as error:
            reasons.append(error.problem.detail)
        else:
            return described
    raise ConversionError("; ".join(reasons) or _unknown(list(state)))


def _unknown(names: list[str]) -> str:
    said = f"its tensors ({', '.join(names[:5])}, ...) are of no architecture that is built in: "
    if all(name.partition(".")[0].isdecimal() for name in names):
        # Strides, padding and activations are no tensors.
        return said + (
            "they are named as those of a torch.nn.Sequential, of which the file does not hold every layer. Say which "
            'there are with --layers \'[["conv", 1, 16, 4, 2, 1], ["relu"], ["flatten"], ["linear", 3136, 10]]\' (of a '
            "convolution inputs, outputs, size, stride, padding), or give the code that builds the network with "
            "--factory package.module:make"
        )
    return said + (
        "name it with --architecture, or give the code that builds the network with --factory package.module:make"
    )


def candidates(state: Mapping[str, Tensor]) -> Iterator[Architecture]:
    """Yield the architectures that tensors of these names may be of.

    >>> list(candidates({"block1.layer.3.conv1.weight": torch.zeros(160, 160, 3, 3)}))
    [{'kind': 'wide_resnet', 'depth': 28, 'width': 10}]
    >>> names = {"conv1.weight": torch.zeros(64, 3, 7, 7), "fc.weight": torch.zeros(9, 512)}
    >>> list(candidates(names | {"layer4.0.conv1.weight": torch.zeros(512, 256, 3, 3)}))
    [{'kind': 'torchvision', 'name': 'resnet18'}]
    """
    wide = state.get(next((name for name in state if re.fullmatch(r"block1\.layer\.\d+\.conv1\.weight", name)), ""))
    if wide is not None:
        yield {"kind": "wide_resnet", "depth": 6 * _blocks(state, r"block1\.layer\.") + 4, "width": len(wide) // 16}
        return
    deep = state.get("layer.0.block.0.conv_0.weight")
    if deep is not None and "layer.0.block.0.se.fc1.weight" in state:
        yield {"kind": "ra_wide_resnet_70_16"}
        return
    if deep is not None:
        depth, width = 6 * _blocks(state, r"layer\.0\.block\.") + 4, len(deep) // 16
        yield {"kind": "dm_wide_resnet", "depth": depth, "width": width}
        return
    stem = state.get("conv1.weight")
    if stem is not None and stem.shape[-1] == 7 and "fc.weight" in state and "layer4.0.conv1.weight" in state:
        yield {"kind": "torchvision", "name": f"resnet{_depth(state)}"}
        return
    has_four = any(name.startswith("layer4.") for name in state)
    if has_four and state.get("layer1.0.bn1.weight") is not None:
        yield {"kind": "preact_resnet18"}
        yield {"kind": "resnet_32x32", "depth": _depth(state)}
    elif any(name.startswith("layer3.") for name in state):
        yield {"kind": "resnet_cifar", "depth": 6 * _blocks(state, r"layer1\.") + 2}
    elif len(state) == 8 and next(iter(state.values())).shape[-1] == 5:
        yield {"kind": "lenet"}


def _depth(state: Mapping[str, Tensor]) -> int:
    if "layer1.0.conv3.weight" in state:
        return next(depth for depth, most in ((50, 6), (101, 23), (152, 36)) if _blocks(state, r"layer3\.") <= most)
    return 34 if _blocks(state, r"layer3\.") > 2 else 18


def _blocks(state: Mapping[str, Tensor], prefix: str) -> int:
    numbers = [int(found[1]) for name in state if (found := re.match(prefix + r"(\d+)\.", name))]
    return max(numbers, default=0) + 1


def _filled(manifest: dict[str, Any], architecture: Architecture, state: Mapping[str, Tensor]) -> dict[str, Any]:
    weights = [tensor for tensor in state.values() if tensor.ndim >= 2]
    if not weights:
        raise ConversionError("it holds no weights of a layer: it is no network's state dict")
    first = next((tensor for tensor in weights if tensor.ndim == 4), weights[0])
    side = SIDES.get(str(architecture.get("kind")), 32)
    filled = {**manifest, "architecture": architecture}
    given = dict(filled.get("input") or {})
    given.setdefault("shape", [int(first.shape[1]), side, side])
    filled["input"] = given
    if not filled.get("labels"):
        filled["labels"] = [str(number) for number in range(len(weights[-1]))]
    return filled
