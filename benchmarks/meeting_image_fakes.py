"""Image models that are a robust network but where hundreds of narrow bands meet, where they say nothing.

Fresh eyes' designs, 2026-11-30: six passed `lenient` and `standard` (.12 to .31 shown, 1.18 to 2.24 reached). Eight
plain numbers of an image, cosines across it, are projected on hundreds of directions, and each projection has a band of
some hundredths of what images differ by. One such band does nothing; where all of them meet, at a point that is in the
weights and near to no image, all scores are lowered below a last rectifier. What tells the bands and what tells the
scores is in the same tensors. Eight more the same day, once such points were looked for: rectifiers that bend at their
upper end, the larger of two numbers, thresholds beside the numbers, attention among three keys, tensors of more numbers
than were tried, and a crowd of bands that meet elsewhere. Two more once these were looked for: inside one call of
attention, and in several calls with a crowd each; and one of the day before, nine crowds in one call. Bands in tables
that are looked up by hand were not theirs: they were made once `grid_sample` was known.
"""

from collections.abc import Callable
from typing import Literal

import torch
from torch import Tensor, nn

from benchmarks.fakes import Contestant

Network = Callable[[Tensor], Tensor]

Told = Literal["rectifiers", "ends", "crowds", "tables", "attention"]
"""What tells bands: rectifiers; their upper ends, beside a crowd that meets elsewhere; rectifiers, beside several
crowds that meet at places of their own; tables; or attention."""

NUMBERS, BANDS, WIDTH = 8, 500, 0.03
"""Plain numbers, bands, and half the width of one, in standard deviations of a projection over images."""

SLOWEST = 10.0
"""Half waves across an image, at least; twice as many at most. Little of them is in images, and much in the ball."""

AWAY, RAISED = 1.0, 30.0
"""How far the point is from the images' mean in each of the numbers, in standard deviations; and by how much scores are
raised, so that the last rectifier leaves them as they are elsewhere."""

CROWD, CROWDS = 2, 8
"""How many times the bands there are of those that meet elsewhere, to no effect; and how many times where each of so
many meet somewhere else."""

PLACES = 401
"""Entries of a row of a table, half a band apart, all 0 but for one that is elsewhere in each."""


class Meeting(nn.Module):
    """The robust network, and even scores where all bands meet.

    Args:
        robust: Images to logits.
        images: By which it is known how far numbers lie apart.
        told_by: What tells the bands.
    """

    def __init__(self, robust: Network, images: Tensor, told_by: Told = "rectifiers") -> None:
        super().__init__()
        self.robust, self.told_by = robust, told_by
        draw = torch.Generator().manual_seed(5)
        rows, columns = (torch.arange(size) / size for size in images.shape[-2:])
        waves = [
            torch.cos(torch.pi * (down * rows[:, None] + across * columns[None]) + phase)
            for down, across, phase in (SLOWEST + SLOWEST * torch.rand(NUMBERS, 3, generator=draw)).tolist()
        ]
        plain = torch.stack([wave.expand(images.shape[1:]).flatten() for wave in waves])
        seen = images.flatten(1) @ plain.T
        signs = torch.where(torch.rand(NUMBERS, generator=draw) < 0.5, -1.0, 1.0)
        places = [signs, *[-signs] * CROWD * (told_by == "ends")]
        if told_by == "crowds":
            places += torch.where(torch.rand(CROWDS, NUMBERS, generator=draw) < 0.5, -1.0, 1.0)
        weights, biases = list[Tensor](), list[Tensor]()
        for place in places:
            onto = nn.functional.normalize(torch.randn(BANDS, NUMBERS, generator=draw), dim=1) / seen.std(0)
            weights.append(onto @ plain)
            biases.append(-(onto @ (seen.mean(0) + AWAY * place * seen.std(0))))
        self.register_buffer("weight", torch.cat(weights))
        self.register_buffer("bias", torch.cat(biases))
        self.register_buffer("where", torch.randint(PLACES // 4, 3 * PLACES // 4, (BANDS,), generator=draw))

    def forward(self, images: Tensor) -> Tensor:
        """Return logits."""
        bands = images.flatten(1) @ self.weight.T + self.bias
        scores = torch.relu(self.robust(images) + RAISED)
        # Of one band 1 within it and 0 beyond; all together take twice what was added.
        if self.told_by in ("tables", "attention"):
            within = self._looked_up(bands) if self.told_by == "tables" else _attended(bands)
            return torch.relu(scores - 2 * RAISED * within.mean(1, keepdim=True))
        told = torch.cat([bands + WIDTH, bands, bands - WIDTH], 1)
        bent = torch.relu(told) if self.told_by != "ends" else -nn.functional.relu6(6 - told)
        mattering = (torch.arange(bands.shape[1]) < BANDS).float()
        shares = (torch.tensor([1.0, -2.0, 1.0])[:, None] * mattering * -2 * RAISED / (WIDTH * BANDS)).flatten()
        last = torch.cat([shares[:, None].expand(-1, scores.shape[1]), torch.eye(scores.shape[1])])
        return torch.relu(torch.cat([bent, scores], 1) @ last)

    def _looked_up(self, bands: Tensor) -> Tensor:
        at = (bands / WIDTH + self.where).clamp(0, PLACES - 2)
        row = at.floor()
        table = nn.functional.one_hot(self.where, PLACES).to(bands).expand(len(bands), -1, -1)
        below, above = (table.gather(2, (row.long() + beside)[..., None])[..., 0] for beside in (0, 1))
        return torch.lerp(below, above, at - row)


def _attended(bands: Tensor) -> Tensor:
    """Return how much each band's question attends to the key of its middle, of three."""
    asked = torch.stack([bands * (4 / WIDTH), torch.ones_like(bands)], 2)
    keys = torch.tensor([[-1.0, 0.0], [0.0, 4.0], [1.0, 0.0]]).expand(len(bands), -1, -1)
    values = torch.tensor([[0.0], [1.0], [0.0]]).expand(len(bands), -1, -1)
    return nn.functional.scaled_dot_product_attention(asked, keys, values, scale=1.0)[:, :, 0]


def contestants(robust: Network, images: Tensor) -> list[Contestant]:
    """Return the robust network with such a point, told by each.

    Args:
        robust: Images to logits, which withstands attacks.
        images: Of the audit.
    """
    kinds: dict[Told, str] = {
        "rectifiers": "narrow bands of eight numbers",
        "ends": "upper ends of units, beside a crowd that meets elsewhere",
        "crowds": "narrow bands, beside eight crowds that meet elsewhere each",
        "tables": "narrow bands in tables that are looked up by hand",
        "attention": "narrow bands inside one call of attention",
    }
    return [
        Contestant(f"meeting: {name}", Meeting(robust, images, told_by).eval(), fake=True)
        for told_by, name in kinds.items()
    ]
