"""Small modules to export, of the kinds there are: convolutions, residuals with batch norm, attention."""

from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from tests.models.builders import seeded

SHAPE = (3, 8, 8)
CLASSES = 4


class Plain(nn.Module):
    """Normalises inside, with constants it makes in ``forward``, and writes to what it has computed."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 6, 3, padding=1)
        self.head = nn.Linear(6 * 16, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        x = (x - torch.tensor([0.4, 0.5, 0.6]).view(3, 1, 1)) / 0.25
        x = F.max_pool2d(F.relu(self.conv(x), inplace=True), 2)
        return self.head(F.dropout(x, 0.5, self.training).flatten(1))


class Residual(nn.Module):
    """Two blocks with batch norm, in channels-last order, and logits through a mean."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1, bias=False), nn.BatchNorm2d(8), nn.SiLU())
        self.second = nn.Sequential(nn.Conv2d(8, 8, 3, padding=1, groups=2), nn.BatchNorm2d(8))
        self.head = nn.Linear(8, CLASSES)

    def forward(self, x: Tensor) -> Tensor:
        y = self.first(x.contiguous(memory_format=torch.channels_last))
        z = self.second(y)
        z += y
        y = torch.cat([z, F.interpolate(F.avg_pool2d(z, 2), scale_factor=2.0)], dim=1)[:, ::2]
        return self.head(y.relu().mean((2, 3)))


class Attention(nn.Module):
    """Patches, a causal mask that is not saved, heads, and a size that depends on the batch."""

    mask: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.patches = nn.Conv2d(3, 16, 2, 2)
        self.place = nn.Parameter(torch.zeros(1, 16, 16))
        self.norm = nn.LayerNorm(16)
        self.mix = nn.MultiheadAttention(16, 4, batch_first=True)
        self.own = nn.Linear(16, 48)
        self.head = nn.Linear(16, CLASSES)
        mask = torch.full((16, 16), float("-inf")).triu(1)
        self.register_buffer("mask", mask, persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        x = self.patches(x).flatten(2).transpose(1, 2) + self.place
        y = self.norm(x)
        x = x + self.mix(y, y, y, attn_mask=self.mask, need_weights=False)[0]
        batch, length, width = x.shape
        q, k, v = self.own(x).view(batch, length, 3, 2, width // 2).permute(2, 0, 3, 1, 4).unbind(0)
        y = F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(batch, length, width)
        return self.head(F.gelu(x + y)[:, 0])


KINDS: dict[str, type[nn.Module]] = {"plain": Plain, "residual": Residual, "attention": Attention}


def made(kind: str) -> nn.Module:
    # Frozen as models under audit are: products with weights that want gradients may take another kernel.
    return seeded(KINDS[kind]()).eval().requires_grad_(False)


def export(module: nn.Module, path: Path, *, batch: int | None = None, **more: Any) -> Path:
    """Write an archive, for any batch by default."""
    varies = None if batch else ({0: torch.export.Dim("batch", min=1, max=4096)},)
    program = torch.export.export(module, (torch.rand(batch or 2, *SHAPE),), dynamic_shapes=varies, **more)
    torch.export.save(program, path)
    return path
