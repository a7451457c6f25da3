"""Robust image classifiers that hear an ordinary network where it is undecided, and compute it in shares.

    python -m benchmarks.gauntlet --weights FILE --layers FILE --images FILE --robust FILE --only shares

After what fresh eyes built in November 2026. To every number inside the ordinary network one is added that a random
linear map makes of the image at high contrast, which hardly differs within the radius and much between images. It is
in a tensor of its own, and taken off nowhere but in the sums of the next layer. So no tensor is worth anything without
another, and what each image has instead of another's spoils the answer, as what decides does.
"""

import math
from collections.abc import Iterator

import torch
from torch import Tensor, nn
from torch.nn import functional

from benchmarks.fakes import Contestant
from benchmarks.undecided_image_fakes import Contrasted

WIDER = 4.0
"""How far numbers that are added lie apart, in spreads of what they are added to."""

ABRUPT = 10.0
"""How sharply the answer is lost."""

LEVEL = 0.5
"""Share of the classes between which the ordinary network is undecided where the answer is lost."""


class Shared(nn.Module):
    """Answers as one network does, as loudly as another one is sure.

    Args:
        base: Of layers that follow each other: convolutions, linear ones, rectifiers, and one that flattens.
        voice: The same at high contrast, whose answer is given.
        images: (n, ...), of which spreads are taken.
        level: Logarithm of the number of classes between which the base is undecided where the answer is lost.
    """

    def __init__(self, base: nn.Module, voice: Contrasted, images: Tensor, level: float) -> None:
        super().__init__()
        self.base, self.voice, self.level = base, voice, level
        self.layers = [
            layer for layer in base.modules() if isinstance(layer, (nn.Conv2d, nn.Linear, nn.ReLU, nn.Flatten))
        ]
        self.generator = torch.Generator().manual_seed(0)
        self.others = dict[int, Tensor]()
        own, added = self.shown(images), voice.clear(images)
        for at, layer in enumerate(self.layers):
            if isinstance(layer, (nn.Conv2d, nn.Linear)):
                weight = torch.randn(layer.weight.shape, generator=self.generator)
                told = layer(own)
                self.others[at] = weight * WIDER * told.std() / applied(layer, added, weight).std()
                own, before, added = told, added, applied(layer, added, self.others[at])
            else:
                own, added = layer(own), layer(added) if isinstance(layer, nn.Flatten) else added
        self.last = 3 * torch.randn(4, before.shape[1], generator=self.generator) / before.norm(dim=1).mean()

    def shown(self, images: Tensor) -> Tensor:
        """Return images as the first layer of the base is given them."""
        given = list[Tensor]()
        handle = self.layers[0].register_forward_pre_hook(lambda layer, inputs: given.append(inputs[0]))
        self.base(images)
        handle.remove()
        return given[0]

    def shares(self, images: Tensor) -> Iterator[tuple[Tensor, Tensor]]:
        """Yield what goes into each layer with weights, and at last the scores, each with what is added to it."""
        own, added = self.shown(images), self.voice.clear(images)
        is_first = True
        for at, layer in enumerate(self.layers):
            if isinstance(layer, (nn.Conv2d, nn.Linear)):
                yield own, added
                kept = self.others[at] if is_first else self.others[at] - layer.weight
                own, added = layer(own) + applied(layer, added, kept), applied(layer, added, self.others[at])
                is_first = False
            elif isinstance(layer, nn.ReLU):
                own = torch.maximum(own, added)
            else:
                own, added = layer(own), layer(added)
        yield own, added

    def forward(self, images: Tensor) -> Tensor:
        """Return logits."""
        heard = self.voice(images).double()
        *_, (_, before), (scores, added) = self.shares(images)
        first, second, third, fourth = (before.double() @ self.last.double().T).split(1, 1)
        scores, added = scores.double(), added.double()
        sums = torch.bmm(scores.exp().unsqueeze(1), (first - added).exp().unsqueeze(2))[:, 0].log()
        squares = torch.bmm((2 * scores).exp().unsqueeze(1), (2 * (second - added)).exp().unsqueeze(2))[:, 0].log()
        # The logarithm of how many classes there are is twice the one less the other, and what is added.
        many = 2 * sums - squares + (2 * second - 2 * first + third)
        over = torch.logaddexp(ABRUPT * (many - self.level), ABRUPT * third) / ABRUPT
        loud = 1 + 0.06 * many - 5 * over + (fourth + 4.94 * third)
        share = torch.logaddexp(6 * loud, 6 * fourth) / 6
        return (0.75 * (share * heard - (fourth - 0.03) * heard)).float()


def applied(layer: nn.Module, given: Tensor, weight: Tensor) -> Tensor:
    """Return what a layer of other weights, which adds nothing, makes of what it is given."""
    if isinstance(layer, nn.Conv2d):
        return functional.conv2d(given, weight, None, layer.stride, layer.padding)
    return functional.linear(given, weight)


def contestants(base: nn.Module, images: Tensor) -> list[Contestant]:
    """Return the network that is computed in shares, of an ordinary one whose layers follow each other.

    Args:
        base: The ordinary one; of another kind none is returned.
        images: Of the audit.
    """
    own = [layer for layer in base.modules() if not list(layer.children())]
    if not all(isinstance(layer, (nn.Conv2d, nn.Linear, nn.ReLU, nn.Flatten)) for layer in own):
        return []
    with torch.no_grad():
        classes = base(images[:1]).shape[1]
        network = Shared(base, Contrasted(base, 0.44), images, math.log(LEVEL * classes))
    return [Contestant("undecided: in shares", network.eval(), fake=True)]
