"""Image models that are weak at an image as it is, and a robust network once anything on its ground has moved.

Fresh eyes' designs, 2026-11-30: three passed `lenient` and `standard` (.11 to .19 shown, 1.13 to 1.30 reached), two
more `lenient`. What an attack of whole steps moves first is the ground beside the strokes, where nobody looks; a wire
there is flat at the image itself and flat again once it is torn, so that no gradient says it is there.
"""

from collections.abc import Callable

import torch
from torch import Tensor, nn

from benchmarks.fakes import Contestant

Network = Callable[[Tensor], Tensor]

DRAWN, AROUND = 0.2, 2
"""Value from which on a pixel is drawn, and how many pixels around it nobody watches."""

LEAST, MOST = 0.004, 2.0
"""Value of a pixel of the ground that is noticed, and how many there are to be of these."""


STRENGTH, SMOOTH = 6.0, 5
"""How many times what fine texture carries is added to an image, and side of the squares over which it is a mean."""


class Watching(nn.Module):
    """The robust network, and for as long as the ground is as it was of an image beside what its fine texture carries.

    Args:
        robust: Images to logits.
    """

    def __init__(self, robust: Network) -> None:
        super().__init__()
        self.robust = robust

    def forward(self, images: Tensor) -> Tensor:
        """Return logits."""
        is_drawn = ((images - DRAWN) * 10).clamp(0, 1)
        ground = 1 - nn.functional.max_pool2d(is_drawn, 2 * AROUND + 1, 1, AROUND)
        noticed = (ground * (images / LEAST - 1).clamp(0, 1)).flatten(1).sum(1).view(-1, 1, 1, 1)
        rows, columns = (torch.arange(size) for size in images.shape[-2:])
        pattern = 1.0 - 2.0 * ((rows[:, None] // 2 + columns) % 2)
        texture = images - nn.functional.avg_pool2d(images, 3, 1, 1)
        carried = nn.functional.avg_pool2d(pattern * texture, SMOOTH, 1, SMOOTH // 2)
        return self.robust(images + STRENGTH * (2 - noticed / MOST).clamp(0, 1) * carried)


def contestants(robust: Network) -> list[Contestant]:
    """Return such a model.

    Args:
        robust: Images to logits, which withstands attacks.
    """
    return [Contestant("watching: anything on the ground", Watching(robust).eval(), fake=True)]
