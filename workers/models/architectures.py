"""The architectures weights may be uploaded for: written from their papers, keyed as most checkpoints are.

None of them normalises: that is the target's business.
"""

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from seatrial.contracts.architectures import (
    CifarResNetArchitecture,
    DeepMindWideResNetArchitecture,
    LayersArchitecture,
    LeNetArchitecture,
    PreActResNet18Architecture,
    RobustWideResNetArchitecture,
    SmallStemResNetArchitecture,
    TimmArchitecture,
    TorchvisionArchitecture,
    WideResNetArchitecture,
)
from seatrial.contracts.models import ModelManifest
from seatrial.store.settings import Settings, get_settings
from workers.errors import TargetError
from workers.models.cifar_networks import DeepMindWideResNet, RobustWideResNet, SmallStemResNet
from workers.models.tracing import TRACED_IMAGES, ValueCount, check_values
from workers.models.zoo import build_zoo


class CifarBlock(nn.Module):
    """Two 3x3 convolutions and a parameter-free shortcut (option A: subsample, pad new channels with zeros)."""

    def __init__(self, channels_in: int, channels: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(channels_in, channels, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(channels)
        self.conv2 = nn.Conv2d(channels, channels, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(channels)
        self.stride = stride
        self.new_channels = channels - channels_in

    def forward(self, x: Tensor) -> Tensor:
        """Return (batch, channels, height / stride, width / stride)."""
        out = F.relu(self.bn1(self.conv1(x)))
        out = self.bn2(self.conv2(out))
        if self.stride != 1 or self.new_channels:
            before = self.new_channels // 2
            x = F.pad(x[:, :, :: self.stride, :: self.stride], (0, 0, 0, 0, before, self.new_channels - before))
        return F.relu(out + x)


class CifarResNet(nn.Module):
    """ResNet for small images (He et al. 2016, section 4.2): three groups of n blocks with 16, 32, 64 channels."""

    def __init__(self, depth: int, channels_in: int, classes: int) -> None:
        super().__init__()
        blocks = (depth - 2) // 6
        self.conv1 = nn.Conv2d(channels_in, 16, 3, 1, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(16)
        self.layer1 = _group(CifarBlock, blocks, 16, 16, 1)
        self.layer2 = _group(CifarBlock, blocks, 16, 32, 2)
        self.layer3 = _group(CifarBlock, blocks, 32, 64, 2)
        self.linear = nn.Linear(64, classes)

    def forward(self, x: Tensor) -> Tensor:
        """Return logits (batch, classes)."""
        out = F.relu(self.bn1(self.conv1(x)))
        out = self.layer3(self.layer2(self.layer1(out)))
        return self.linear(out.mean(dim=(2, 3)))  # type: ignore[no-any-return]


class PreActBlock(nn.Module):
    """Batch norm and ReLU before each 3x3 convolution; the shortcut convolves the activated input."""

    def __init__(self, channels_in: int, channels: int, stride: int) -> None:
        super().__init__()
        self.bn1 = nn.BatchNorm2d(channels_in)
        self.conv1 = nn.Conv2d(channels_in, channels, 3, stride, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(channels)
        self.conv2 = nn.Conv2d(channels, channels, 3, 1, 1, bias=False)
        self.shortcut: nn.Sequential | None = None
        if stride != 1 or channels_in != channels:
            self.shortcut = nn.Sequential(nn.Conv2d(channels_in, channels, 1, stride, bias=False))

    def forward(self, x: Tensor) -> Tensor:
        """Return (batch, channels, height / stride, width / stride)."""
        activated = F.relu(self.bn1(x))
        passed = x if self.shortcut is None else self.shortcut(activated)
        out = self.conv2(F.relu(self.bn2(self.conv1(activated))))
        return out + passed  # type: ignore[no-any-return]


class PreActResNet18(nn.Module):
    """PreActResNet-18 for 32x32 images (He et al. 2016, Identity mappings in deep residual networks).

    Args:
        channels_in: Image channels.
        classes: Logits per example.
        has_final_norm: Whether a batch norm ``bn`` stands before the pooling, as in adversarial training code; the
            common CIFAR code has none. The weights say which.
    """

    def __init__(self, channels_in: int, classes: int, *, has_final_norm: bool = False) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(channels_in, 64, 3, 1, 1, bias=False)
        self.layer1 = _group(PreActBlock, 2, 64, 64, 1)
        self.layer2 = _group(PreActBlock, 2, 64, 128, 2)
        self.layer3 = _group(PreActBlock, 2, 128, 256, 2)
        self.layer4 = _group(PreActBlock, 2, 256, 512, 2)
        self.bn = nn.BatchNorm2d(512) if has_final_norm else None
        self.linear = nn.Linear(512, classes)

    def forward(self, x: Tensor) -> Tensor:
        """Return logits (batch, classes)."""
        out = self.layer4(self.layer3(self.layer2(self.layer1(self.conv1(x)))))
        if self.bn is not None:
            out = F.relu(self.bn(out))
        return self.linear(out.mean(dim=(2, 3)))  # type: ignore[no-any-return]


class WideBlock(nn.Module):
    """Pre-activation block of a WideResNet; where the width changes, the shortcut convolves the activated input."""

    def __init__(self, channels_in: int, channels: int, stride: int) -> None:
        super().__init__()
        self.bn1 = nn.BatchNorm2d(channels_in)
        self.conv1 = nn.Conv2d(channels_in, channels, 3, stride, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(channels)
        self.conv2 = nn.Conv2d(channels, channels, 3, 1, 1, bias=False)
        self.convShortcut: nn.Conv2d | None = None  # the name checkpoints use
        if channels_in != channels:
            self.convShortcut = nn.Conv2d(channels_in, channels, 1, stride, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """Return (batch, channels, height / stride, width / stride)."""
        activated = F.relu(self.bn1(x))
        passed = x if self.convShortcut is None else self.convShortcut(activated)
        out = self.conv2(F.relu(self.bn2(self.conv1(activated))))
        return out + passed  # type: ignore[no-any-return]


class WideGroup(nn.Module):
    """Blocks of equal width, under the key ``layer``."""

    def __init__(self, blocks: int, channels_in: int, channels: int, stride: int) -> None:
        super().__init__()
        self.layer = _group(WideBlock, blocks, channels_in, channels, stride)

    def forward(self, x: Tensor) -> Tensor:
        """Return (batch, channels, height / stride, width / stride)."""
        return self.layer(x)  # type: ignore[no-any-return]


class WideResNet(nn.Module):
    """WRN-depth-width (Zagoruyko and Komodakis 2016): three groups of (depth - 4) / 6 blocks."""

    def __init__(self, depth: int, width: int, channels_in: int, classes: int) -> None:
        super().__init__()
        blocks = (depth - 4) // 6
        widths = (16, 16 * width, 32 * width, 64 * width)
        self.conv1 = nn.Conv2d(channels_in, widths[0], 3, 1, 1, bias=False)
        self.block1 = WideGroup(blocks, widths[0], widths[1], 1)
        self.block2 = WideGroup(blocks, widths[1], widths[2], 2)
        self.block3 = WideGroup(blocks, widths[2], widths[3], 2)
        self.bn1 = nn.BatchNorm2d(widths[3])
        self.fc = nn.Linear(widths[3], classes)

    def forward(self, x: Tensor) -> Tensor:
        """Return logits (batch, classes)."""
        out = self.block3(self.block2(self.block1(self.conv1(x))))
        return self.fc(F.relu(self.bn1(out)).mean(dim=(2, 3)))  # type: ignore[no-any-return]


def lenet(classes: int) -> nn.Sequential:
    """Return the LeNet of the transductive literature: 5x5 convolutions of 32 and 64 channels, 1024 units.

    Keys are positions (``0.weight``, ``3.weight``, ``7.weight``, ``9.weight``), as in those authors' checkpoints.
    """
    return nn.Sequential(
        nn.Conv2d(1, 32, 5, padding=2),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(32, 64, 5, padding=2),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(7 * 7 * 64, 1024),
        nn.ReLU(),
        nn.Linear(1024, classes),
    )


def layers(architecture: LayersArchitecture) -> nn.Sequential:
    """Return a manifest's list of layers as a module; batch norm is 1-d once the data are flat.

    Raises:
        TargetError: A layer's numbers make no layer.
    """
    modules: list[nn.Module] = []
    is_flat = False
    for position, layer in enumerate(architecture.layers):
        name = str(layer[0])
        numbers = [float(number) for number in layer[1:]]
        is_flat = is_flat or name in ("flatten", "linear")
        try:
            modules.append(_LAYERS[name](numbers, is_flat))
        except (ValueError, RuntimeError, ZeroDivisionError) as error:
            raise TargetError(
                "invalid-layer",
                "A layer cannot be built",
                f"layer {position} ({name}) of the manifest: {error}",
                field=f"/manifest/architecture/layers/{position}",
            ) from error
    return nn.Sequential(*modules)


def build_architecture(manifest: ModelManifest, tensor_names: set[str]) -> nn.Module:
    """Return the manifest's architecture without weights, on whatever device is the default.

    Args:
        manifest: States architecture, input and labels.
        tensor_names: Names in the weights, prefixes stripped; they settle variants of an architecture.

    Raises:
        TargetError: The architecture does not exist for this input.
    """
    architecture = manifest.architecture
    if manifest.input_shape is None or manifest.labels is None:
        raise TargetError(
            "input-missing",
            "The manifest does not say what the model takes",
            f"architecture {architecture.kind} needs input (shape, mean, std) and labels",
            field="/manifest/input",
        )
    shape, classes = manifest.input_shape, len(manifest.labels)
    channels = shape[0]
    if isinstance(architecture, CifarResNetArchitecture):
        return CifarResNet(architecture.depth, channels, classes)
    if isinstance(architecture, PreActResNet18Architecture):
        return PreActResNet18(channels, classes, has_final_norm="bn.weight" in tensor_names)
    if isinstance(architecture, WideResNetArchitecture):
        return WideResNet(architecture.depth, architecture.width, channels, classes)
    if isinstance(architecture, (TorchvisionArchitecture, TimmArchitecture)):
        return build_zoo(architecture, channels, classes)
    if isinstance(architecture, SmallStemResNetArchitecture):
        return SmallStemResNet(architecture.depth, channels, classes)
    if isinstance(architecture, RobustWideResNetArchitecture):
        return RobustWideResNet(channels, classes)
    if isinstance(architecture, DeepMindWideResNetArchitecture):
        return DeepMindWideResNet(architecture.depth, architecture.width, channels, classes, architecture.activation)
    if isinstance(architecture, LeNetArchitecture):
        if shape != [1, 28, 28]:
            raise TargetError(
                "input-shape-mismatch",
                "LeNet takes another input",
                f"architecture lenet takes images of shape [1, 28, 28], the manifest says {shape}",
                field="/manifest/input/shape",
            )
        return lenet(classes)
    if isinstance(architecture, LayersArchitecture):
        return layers(architecture)
    raise TargetError(
        "unknown-architecture",
        "The architecture is not built in",
        f"architecture {architecture.kind} has no weights of its own layout",
        field="/manifest/architecture",
    )


def input_hint(module: nn.Module, shape: tuple[int, ...]) -> str:
    """Return how the shape of an input must differ from what is stated; nothing where that is not to be seen.

    Args:
        module: The network.
        shape: Stated by the manifest: channels, height and width of images.

    >>> input_hint(nn.Conv2d(1, 8, 3), (28, 28, 1))
    'the first convolution takes 1 channel, and input.shape is [28, 28, 1]: shapes are channels first, [1, 28, 28]'
    >>> input_hint(nn.Conv2d(3, 8, 3), (1, 32, 32))
    'the first convolution takes 3 channels, and input.shape is [1, 32, 32]: it should be [3, 32, 32]'
    >>> input_hint(nn.Conv2d(3, 8, 3), (3, 32, 32)), input_hint(nn.Linear(3, 8), (3,))
    ('', '')
    """
    wanted = next((layer.in_channels for layer in module.modules() if isinstance(layer, nn.Conv2d)), None)
    if len(shape) != 3 or wanted in (None, shape[0]):
        return ""
    told = f"the first convolution takes {wanted} {'channel' if wanted == 1 else 'channels'}, and input.shape is "
    if shape[2] == wanted:
        return f"{told}{list(shape)}: shapes are channels first, [{wanted}, {shape[0]}, {shape[1]}]"
    return f"{told}{list(shape)}: it should be [{wanted}, {shape[1]}, {shape[2]}]"


def _wanted(step: nn.Module, before: tuple[int, ...]) -> str:
    """Return what a layer takes where its size says it, and nothing where torch has to."""
    if isinstance(step, nn.Linear) and before and before[-1] != step.in_features:
        return f"it takes {step.in_features:,} values and is given {before[-1]:,}; mend the layer or input.shape"
    if isinstance(step, nn.Conv2d) and len(before) == 3 and before[0] != step.in_channels:
        return f"it takes {step.in_channels:,} channels and is given {before[0]:,}; mend the layer or input.shape"
    return ""


def check_shapes(module: nn.Module, manifest: ModelManifest, *, limits: Settings | None = None) -> int:
    """Trace a batch of two through the architecture without computing; return the values it computes per image.

    Args:
        module: On the meta device.
        manifest: States input and labels.
        limits: How many values that may be; the process's settings by default.

    Raises:
        TargetError: A layer does not take what the one before it gives, the logits do not number the labels, or too
            much is computed for one image.
    """
    is_list = isinstance(manifest.architecture, LayersArchitecture)
    shape = tuple(manifest.input_shape or ())
    labels = manifest.labels or []
    count = ValueCount()
    with torch.device("meta"), torch.no_grad(), count:
        x = torch.empty(TRACED_IMAGES, *shape)
        steps = list(module) if isinstance(module, nn.Sequential) else [module]
        for position, step in enumerate(steps):
            before = tuple(x.shape[1:])
            try:
                x = step.eval()(x)
            except (RuntimeError, ValueError, IndexError, ZeroDivisionError, AssertionError) as error:
                where = f"layer {position} ({manifest.architecture.layers[position][0]})" if is_list else "the model"  # type: ignore[union-attr]
                hint = input_hint(module, shape)
                raise TargetError(
                    "input-shape-mismatch",
                    "The architecture does not take this input",
                    hint
                    or f"{where} cannot take values of shape {before}: {_wanted(step, before) or str(error)[:300]}",
                    field=f"/manifest/architecture/layers/{position}"
                    if is_list and not hint
                    else "/manifest/input/shape",
                ) from error
            check_values(
                count.values,
                limits or get_settings(),
                field=f"/manifest/architecture/layers/{position}" if is_list else "/manifest/architecture",
            )
    if x.ndim != 2 or x.shape[1] != len(labels):
        raise TargetError(
            "class-count-mismatch",
            "Logits and labels differ in number",
            f"the model gives {tuple(x.shape[1:])} values per image, the manifest names {len(labels)} labels",
            field="/manifest/labels",
        )
    return count.values // TRACED_IMAGES


def _group(
    block: Callable[[int, int, int], nn.Module], blocks: int, channels_in: int, channels: int, stride: int
) -> nn.Sequential:
    first = block(channels_in, channels, stride)
    return nn.Sequential(first, *(block(channels, channels, 1) for _ in range(blocks - 1)))


def _pool(kind: type[nn.MaxPool2d] | type[nn.AvgPool2d], numbers: list[float]) -> nn.Module:
    kernel, *rest = (int(number) for number in numbers)
    return kind(kernel, rest[0] if rest else None, rest[1] if len(rest) > 1 else 0)


_LAYERS: dict[str, Callable[[list[float], bool], nn.Module]] = {
    "conv": lambda numbers, _: nn.Conv2d(*(int(number) for number in numbers)),  # type: ignore[arg-type]
    "relu": lambda _numbers, _: nn.ReLU(),
    "flatten": lambda _numbers, _: nn.Flatten(),
    "linear": lambda numbers, _: nn.Linear(int(numbers[0]), int(numbers[1])),
    "max_pool": lambda numbers, _: _pool(nn.MaxPool2d, numbers),
    "avg_pool": lambda numbers, _: _pool(nn.AvgPool2d, numbers),
    "batch_norm": lambda numbers, is_flat: (nn.BatchNorm1d if is_flat else nn.BatchNorm2d)(int(numbers[0])),
    "dropout": lambda numbers, _: nn.Dropout(numbers[0] if numbers else 0.5),
}
