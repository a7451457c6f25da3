"""Architectures of torchvision and timm by name; their packages are an extra, and weights are the upload's."""

import importlib
import sys
from typing import Any

import torch
from torch import nn

from seatrial.contracts.architectures import TimmArchitecture, TorchvisionArchitecture
from workers.errors import TargetError, log_fault

# Of torchvision's operators, those its import asks for where its compiled library is absent.
_ASKED_FOR = tuple(f"{name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor" for name in ("nms", "qnms"))
_libraries: list[torch.library.Library] = []


def build_zoo(architecture: TorchvisionArchitecture | TimmArchitecture, channels: int, classes: int) -> nn.Module:
    """Return a network of torchvision or timm without weights, on whatever device is the default.

    Raises:
        TargetError: The package is not installed, does not know the name, or builds no such network.
    """
    try:
        if isinstance(architecture, TorchvisionArchitecture):
            return _of_torchvision(architecture.name, channels, classes)
        return _of_timm(architecture.name, channels, classes)
    except ImportError as error:
        raise TargetError(
            "zoo-missing",
            f"The worker has no {architecture.kind}",
            f"architecture {architecture.kind} needs the packages of `pip install 'seatrial[zoo]'` where the worker "
            f"runs ({log_fault(error)}); an exported program needs none of them",
            field="/manifest/architecture",
        ) from error


def import_torchvision() -> Any:
    """Return torchvision, also beside a torch that its compiled operators do not fit.

    The wheel that package indexes carry is built for CUDA. Beside a CPU build of torch its library does not load, and
    its import then fails over operators of detection that nobody has declared. They are declared here, without code,
    where that happens and nowhere else: classification needs none of them.
    """
    try:
        return importlib.import_module("torchvision")
    except RuntimeError as error:
        if "torchvision::" not in str(error) or _libraries:
            raise
    for name in [name for name in sys.modules if name.partition(".")[0] == "torchvision"]:
        del sys.modules[name]
    library = torch.library.Library("torchvision", "DEF")  # type: ignore[no-untyped-call]
    for schema in _ASKED_FOR:
        library.define(schema)  # type: ignore[no-untyped-call]
    _libraries.append(library)
    return importlib.import_module("torchvision")


def _of_torchvision(name: str, channels: int, classes: int) -> nn.Module:
    models = import_torchvision().models
    if name not in models.list_models(module=models):
        raise _unknown("torchvision", name)
    if channels != 3:
        raise _refused(f"torchvision's {name} takes images of 3 channels, the manifest says {channels}", "input/shape")
    # These two warn that they draw their first weights slowly, unless told not to draw them in their own way.
    more = {"init_weights": False} if name in ("googlenet", "inception_v3") else {}
    return models.get_model(name, weights=None, num_classes=classes, **more)  # type: ignore[no-any-return]


def _of_timm(name: str, channels: int, classes: int) -> nn.Module:
    # timm imports torchvision.
    import_torchvision()
    timm = importlib.import_module("timm")
    if not timm.is_model(name):
        raise _unknown("timm", name)
    try:
        return timm.create_model(  # type: ignore[no-any-return]
            name, pretrained=False, num_classes=classes, in_chans=channels
        )
    except (RuntimeError, ValueError, TypeError, AssertionError) as error:
        raise _refused(f"timm builds no {name} of {channels} channels ({log_fault(error)})", "architecture") from error


def _unknown(package: str, name: str) -> TargetError:
    version = importlib.import_module(package).__version__
    return _refused(f"{package} {version} has no classifier called {name}", "architecture/name")


def _refused(detail: str, field: str) -> TargetError:
    return TargetError("unknown-architecture", "The architecture cannot be built", detail, field=f"/manifest/{field}")
