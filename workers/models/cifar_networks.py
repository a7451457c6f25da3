"""Networks for 32x32 images that published robust models are: ResNets with a small stem, and DeepMind's WideResNet."""

from collections.abc import Callable, Sequence

import torch.nn.functional as F
from torch import Tensor, nn

ACTIVATIONS: dict[str, Callable[[], nn.Module]] = {"relu": nn.ReLU, "silu": nn.SiLU}
BLOCKS = {18: (2, 2, 2, 2), 34: (3, 4, 6, 3), 50: (3, 4, 6, 3), 101: (3, 4, 23, 3), 152: (3, 8, 36, 3)}
"""Blocks of each group, by depth (He et al. 2016, table 1)."""


class _Shortcut(nn.Sequential):
    """Brings what passes a block by to the block's width; the identity where it has that already."""

    def __init__(self, channels_in: int, channels: int, stride: int) -> None:
        if stride == 1 and channels_in == channels:
            super().__init__()
        else:
            super().__init__(
                nn.Conv2d(channels_in, channels, 1, stride, bias=False),
                nn.BatchNorm2d(channels),
            )


class BasicBlock(nn.Module):
    """Two 3x3 convolutions, each followed by batch norm."""

    widening = 1

    def __init__(self, channels_in: int, width: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(channels_in, width, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(width)
        self.conv2 = nn.Conv2d(width, width, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(width)
        self.shortcut = _Shortcut(channels_in, width, stride)

    def forward(self, x: Tensor) -> Tensor:
        """Return (batch, width, height / stride, width / stride)."""
        out = self.bn2(self.conv2(F.relu(self.bn1(self.conv1(x)))))
        return F.relu(out + self.shortcut(x))


class Bottleneck(nn.Module):
    """A 1x1, a 3x3 and a widening 1x1 convolution, each followed by batch norm."""

    widening = 4

    def __init__(self, channels_in: int, width: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(channels_in, width, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(width)
        self.conv2 = nn.Conv2d(width, width, 3, stride, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(width)
        self.conv3 = nn.Conv2d(width, 4 * width, 1, bias=False)
        self.bn3 = nn.BatchNorm2d(4 * width)
        self.shortcut = _Shortcut(channels_in, 4 * width, stride)

    def forward(self, x: Tensor) -> Tensor:
        """Return (batch, 4 width, height / stride, width / stride)."""
        out = F.relu(self.bn1(self.conv1(x)))
        out = self.bn3(self.conv3(F.relu(self.bn2(self.conv2(out)))))
        return F.relu(out + self.shortcut(x))


class SmallStemResNet(nn.Module):
    """ResNet-18 to 152 (He et al. 2016, table 1) with a 3x3 stem and without its pooling, for 32x32 images."""

    def __init__(self, depth: int, channels_in: int, classes: int) -> None:
        super().__init__()
        block = Bottleneck if depth >= 50 else BasicBlock
        self.conv1 = nn.Conv2d(channels_in, 64, 3, 1, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(64)
        channels = 64
        for number, (width, count) in enumerate(zip((64, 128, 256, 512), BLOCKS[depth], strict=True), start=1):
            group, channels = _group(block, count, channels, width, 1 if number == 1 else 2)
            self.add_module(f"layer{number}", group)
        self.linear = nn.Linear(channels, classes)

    def forward(self, x: Tensor) -> Tensor:
        """Return logits (batch, classes)."""
        out = F.relu(self.bn1(self.conv1(x)))
        for number in range(1, 5):
            out = self.get_submodule(f"layer{number}")(out)
        return self.linear(out.mean(dim=(2, 3)))  # type: ignore[no-any-return]


def _group(
    block: type[BasicBlock] | type[Bottleneck], count: int, channels_in: int, width: int, stride: int
) -> tuple[nn.Sequential, int]:
    channels = width * block.widening
    blocks = [block(channels_in, width, stride), *(block(channels, width, 1) for _ in range(count - 1))]
    return nn.Sequential(*blocks), channels


class _SqueezeExcitation(nn.Module):
    """Scales each channel by a gate that a bottleneck makes of all channels' means (Hu et al. 2018)."""

    def __init__(self, channels: int, squeezed: int) -> None:
        super().__init__()
        self.fc1 = nn.Conv2d(channels, squeezed, 1)
        self.fc2 = nn.Conv2d(squeezed, channels, 1)

    def forward(self, x: Tensor) -> Tensor:
        """Return (batch, channels, height, width)."""
        gates = self.fc2(F.relu(self.fc1(x.mean(dim=(2, 3), keepdim=True))))
        return x * gates.sigmoid()  # type: ignore[no-any-return]


class _DeepMindBlock(nn.Module):
    """Pre-activation block; strided convolutions are padded at the far side alone, as JAX's "SAME" does.

    With ``squeeze``, its result is scaled channel by channel, by gates of that share of its channels.
    """

    def __init__(
        self,
        channels_in: int,
        channels: int,
        stride: int,
        activation: Callable[[], nn.Module],
        squeeze: float | None = None,
    ) -> None:
        super().__init__()
        self.batchnorm_0 = nn.BatchNorm2d(channels_in)
        self.conv_0 = nn.Conv2d(channels_in, channels, 3, stride, bias=False)
        self.batchnorm_1 = nn.BatchNorm2d(channels)
        self.conv_1 = nn.Conv2d(channels, channels, 3, 1, 1, bias=False)
        self.shortcut: nn.Conv2d | None = None
        if channels_in != channels:
            self.shortcut = nn.Conv2d(channels_in, channels, 1, stride, bias=False)
        self.se = _SqueezeExcitation(channels, round(squeeze * channels)) if squeeze is not None else None
        self._activation = activation()
        self._padding: Sequence[int] = (1, 1, 1, 1) if stride == 1 else (0, 1, 0, 1)

    def forward(self, x: Tensor) -> Tensor:
        """Return (batch, channels, height / stride, width / stride)."""
        activated = self._activation(self.batchnorm_0(x))
        passed = x if self.shortcut is None else self.shortcut(activated)
        out = self.conv_0(F.pad(activated, list(self._padding)))
        out = self.conv_1(self._activation(self.batchnorm_1(out)))
        return (out if self.se is None else self.se(out)) + passed  # type: ignore[no-any-return]


class _DeepMindGroup(nn.Module):
    def __init__(
        self,
        blocks: int,
        channels_in: int,
        channels: int,
        stride: int,
        activation: Callable[[], nn.Module],
        squeeze: float | None = None,
    ) -> None:
        super().__init__()
        first = _DeepMindBlock(channels_in, channels, stride, activation, squeeze)
        self.block = nn.Sequential(
            first, *(_DeepMindBlock(channels, channels, 1, activation, squeeze) for _ in range(blocks - 1))
        )

    def forward(self, x: Tensor) -> Tensor:
        """Return (batch, channels, height / stride, width / stride)."""
        return self.block(x)  # type: ignore[no-any-return]


class DeepMindWideResNet(nn.Module):
    """WRN-depth-width as Gowal et al. (2020, Uncovering the limits of adversarial training) train it.

    Args:
        depth: Layers, 6n + 4.
        width: Widening factor.
        channels_in: Image channels.
        classes: Logits per example.
        activation: ``relu`` or ``silu`` (Swish), which most of their models and those after them use.
    """

    def __init__(self, depth: int, width: int, channels_in: int, classes: int, activation: str) -> None:
        super().__init__()
        make = ACTIVATIONS[activation]
        widths = (16, 16 * width, 32 * width, 64 * width)
        blocks = (depth - 4) // 6
        self.init_conv = nn.Conv2d(channels_in, widths[0], 3, 1, 1, bias=False)
        self.layer = nn.Sequential(
            _DeepMindGroup(blocks, widths[0], widths[1], 1, make),
            _DeepMindGroup(blocks, widths[1], widths[2], 2, make),
            _DeepMindGroup(blocks, widths[2], widths[3], 2, make),
        )
        self.batchnorm = nn.BatchNorm2d(widths[3])
        self.logits = nn.Linear(widths[3], classes)
        self._activation = make()

    def forward(self, x: Tensor) -> Tensor:
        """Return logits (batch, classes)."""
        out = self._activation(self.batchnorm(self.layer(self.init_conv(x))))
        return self.logits(out.mean(dim=(2, 3)))  # type: ignore[no-any-return]


class RobustWideResNet(nn.Module):
    """Ra-WRN-70-16 (Peng et al. 2023, Robust principles: design principles for adversarially robust CNNs).

    A wider stem, 30, 31 and 10 blocks of 216, 432 and 864 channels, SiLU, and squeeze-and-excitation by a quarter.
    """

    def __init__(self, channels_in: int, classes: int) -> None:
        super().__init__()
        self.init_conv = nn.Conv2d(channels_in, 96, 3, 1, 1, bias=False)
        self.layer = nn.Sequential(
            _DeepMindGroup(30, 96, 216, 1, nn.SiLU, 0.25),
            _DeepMindGroup(31, 216, 432, 2, nn.SiLU, 0.25),
            _DeepMindGroup(10, 432, 864, 2, nn.SiLU, 0.25),
        )
        self.batchnorm = nn.BatchNorm2d(864)
        self.logits = nn.Linear(864, classes)

    def forward(self, x: Tensor) -> Tensor:
        """Return logits (batch, classes)."""
        out = F.silu(self.batchnorm(self.layer(self.init_conv(x))))
        return self.logits(out.mean(dim=(2, 3)))  # type: ignore[no-any-return]
