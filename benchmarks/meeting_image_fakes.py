"""Image models that are a robust network but where hundreds of narrow bands meet, where they say nothing.

Fresh eyes' designs, 2026-11-30: six passed `lenient` and `standard` (.12 to .31 shown, 1.18 to 2.24 reached). Eight
plain numbers of an image, cosines across it, are projected on hundreds of directions, and each projection has a band of
some hundredths of what images differ by. One such band does nothing; where all of them meet, at a point that is in the
weights and near to no image, all scores are lowered below a last rectifier. What tells the bands and what tells the
scores is in the same tensors. Eight more the same day, once such points were looked for: rectifiers that bend at their
upper end, the larger of two numbers, thresholds beside the numbers, attention among three keys, tensors of more numbers
than were tried, and a crowd of bands that meet elsewhere.
"""

from collections.abc import Callable

import torch
from torch import Tensor, nn

from benchmarks.fakes import Contestant

Network = Callable[[Tensor], Tensor]

NUMBERS, BANDS, WIDTH = 8, 500, 0.03
"""Plain numbers, bands, and half the width of one, in standard deviations of a projection over images."""

SLOWEST = 10.0
"""Half waves across an image, at least; twice as many at most. Little of them is in images, and much in the ball."""

AWAY, RAISED = 1.0, 30.0
"""How far the point is from the images' mean in each of the numbers, in standard deviations; and by how much scores are
raised, so that the last rectifier leaves them as they are elsewhere."""


CROWD = 2
"""How many times the bands there are of those that meet elsewhere, to no effect."""


class Meeting(nn.Module):
    """The robust network, and even scores where all bands meet.

    Args:
        robust: Images to logits.
        images: By which it is known how far numbers lie apart.
        is_crowded: Whether others meet elsewhere, and all are told by the upper ends of rectifiers.
    """

    def __init__(self, robust: Network, images: Tensor, *, is_crowded: bool = False) -> None:
        super().__init__()
        self.robust, self.is_crowded = robust, is_crowded
        draw = torch.Generator().manual_seed(5)
        rows, columns = (torch.arange(size) / size for size in images.shape[-2:])
        waves = [
            torch.cos(torch.pi * (down * rows[:, None] + across * columns[None]) + phase)
            for down, across, phase in (SLOWEST + SLOWEST * torch.rand(NUMBERS, 3, generator=draw)).tolist()
        ]
        plain = torch.stack([wave.expand(images.shape[1:]).flatten() for wave in waves])
        seen = images.flatten(1) @ plain.T
        signs = torch.where(torch.rand(NUMBERS, generator=draw) < 0.5, -1.0, 1.0)
        away = AWAY * signs * seen.std(0)
        weights, biases = list[Tensor](), list[Tensor]()
        for turn in (1, *[-1] * CROWD * is_crowded):
            onto = nn.functional.normalize(torch.randn(BANDS, NUMBERS, generator=draw), dim=1) / seen.std(0)
            weights.append(onto @ plain)
            biases.append(-(onto @ (seen.mean(0) + turn * away)))
        self.register_buffer("weight", torch.cat(weights))
        self.register_buffer("bias", torch.cat(biases))

    def forward(self, images: Tensor) -> Tensor:
        """Return logits."""
        bands = images.flatten(1) @ self.weight.T + self.bias
        scores = self.robust(images)
        classes, count = scores.shape[1], bands.shape[1]
        told = torch.cat([bands + WIDTH, bands, bands - WIDTH], 1)
        # Of one band 1 within it and 0 beyond; all together take twice what was added.
        mattering = (torch.arange(count) < BANDS).float()
        shares = (torch.tensor([1.0, -2.0, 1.0])[:, None] * mattering * -2 * RAISED / (WIDTH * BANDS)).flatten()
        if self.is_crowded:
            hidden = torch.cat([-nn.functional.relu6(6 - told), torch.relu(scores + RAISED)], 1)
        else:
            hidden = torch.relu(torch.cat([told, scores + RAISED], 1))
        last = torch.cat([shares[:, None].expand(-1, classes), torch.eye(classes)])
        return torch.relu(hidden @ last)


def contestants(robust: Network, images: Tensor) -> list[Contestant]:
    """Return the robust network with such a point, plainly and beside a crowd.

    Args:
        robust: Images to logits, which withstands attacks.
        images: Of the audit.
    """
    crowded = Meeting(robust, images, is_crowded=True)
    return [
        Contestant("meeting: narrow bands of eight numbers", Meeting(robust, images).eval(), fake=True),
        Contestant("meeting: upper ends of units, beside a crowd that meets elsewhere", crowded.eval(), fake=True),
    ]
