"""How much of what the gradient at an image says is left a small step away from it.

A network may be steep at the images themselves, and nowhere else: what its gradient says is true, and gone before an
attack's first step ends. Of a function that is as it seems most of it is left a sixteenth of the radius away, or
attacks get far all the same.
"""

from collections.abc import Callable

import torch
from torch import Tensor

from seatrial.statistics.exact import clopper_pearson
from workers.attacks.gradients import Model, input_gradient
from workers.attacks.momentum import MomentumPGD
from workers.attacks.regions import Box, Norm, make_region
from workers.models.memory import forward

NEAR = (1 / 16, 1 / 8, 1 / 2)
"""Lengths of steps, as shares of the radius; the longest for inputs that are rounded to levels. Of eight networks
(MNIST, CIFAR-10, standard, noise- and adversarially trained, ResNet-20 among them) at least .76 of the slope is left a
sixteenth away at three images in four."""

HALF, STEPS = 0.5, 10
"""Share that is little, and steps of an attack on the images of which so little is left: one whose prediction it
changes hides nothing, however bent the network is."""

GONE = 0.15
"""Share of images of which so little is left, lower end of the interval, from which on the network hides something. Of
24 networks and radii it is .01 at most, of inputs of 16 levels .02, of eight .11; of five that watch what every step
moves .21 to .60."""

LOST = (
    "the network does what its gradient says nowhere but at the image itself: a sixteenth, an eighth and half of the "
    "radius down it the lead of the prediction has lost less than half of what the gradient says"
)
"""What is said of so many."""


def are_gone(gone: int, images: int) -> bool:
    """Return whether so many of some images are more than a network that hides nothing has.

    >>> are_gone(2, 32), are_gone(12, 32), are_gone(0, 0)
    (False, True, False)
    """
    return images > 0 and clopper_pearson(gone, images)[0] > GONE


def slope_shares(
    model: Model, images: Tensor, norm: Norm, epsilon: float, box: Box, check_cancelled: Callable[[], None]
) -> tuple[Tensor, Tensor]:
    """Return what share of its slope the lead of each prediction keeps (n,), float64; NaN where there is none.

    The lead in logits over the runner-up, down its gradient: by how much it falls in a step, divided by what the
    gradient says, where that is most of three lengths. Below 0 where it rises.

    Args:
        model: Differentiable.
        images: (n, ...) within the box, at most a batch.
        norm: Of the perturbation.
        epsilon: Radius, in pixels' units.
        box: Smallest and largest valid pixel; the model is asked about nothing outside.
        check_cancelled: Called before every pass; may raise.

    Returns:
        The shares, and both classes of each (n, 2).
    """
    check_cancelled()
    followed = images.detach().clone().requires_grad_(True)
    with torch.enable_grad():
        logits = model(followed).double()
        ends = logits.detach().topk(2, dim=1).indices
        lead = _lead(logits, ends)
        slope = input_gradient(lead, followed).nan_to_num(nan=0.0)
    region, kept = make_region(norm, images.detach(), epsilon, box), list[Tensor]()
    for length in NEAR:
        check_cancelled()
        moved = region.step(images.detach().clone(), slope.clone(), length * epsilon)
        said = (slope.double() * (moved.double() - images.double())).flatten(1).sum(1)
        fell = _lead(forward(model, moved).double(), ends) - lead.detach()
        kept.append(torch.where(said < 0, fell / said, torch.nan))
    # A step that is rounded off moves nothing.
    shares = torch.stack(kept).nan_to_num(nan=-torch.inf).amax(0)
    return torch.where(shares.isfinite(), shares, torch.nan), ends


def kept_slopes(
    model: Model,
    images: Tensor,
    norm: Norm,
    epsilon: float,
    box: Box,
    *,
    batch_size: int,
    check_cancelled: Callable[[], None],
) -> Tensor:
    """Return the same shares (n,) of any number of images, 1 where a short attack changes the prediction in any case.

    Args:
        model: Differentiable.
        images: (n, ...) within the box.
        norm: Of the perturbation.
        epsilon: Radius, in pixels' units.
        box: Smallest and largest valid pixel.
        batch_size: Images at once.
        check_cancelled: Called before every pass; may raise.
    """
    found = list[Tensor]()
    for part in torch.split(images.detach(), batch_size) if len(images) else ():
        shares, ends = slope_shares(model, part, norm, epsilon, box, check_cancelled)
        at = (shares < HALF).nonzero().flatten()
        shares[at[_changed(model, part[at], ends[at], norm, epsilon, box, check_cancelled)]] = 1
        found.append(shares)
    return torch.cat(found).cpu() if found else torch.zeros(0, dtype=torch.float64)


def _changed(
    model: Model,
    images: Tensor,
    ends: Tensor,
    norm: Norm,
    epsilon: float,
    box: Box,
    check_cancelled: Callable[[], None],
) -> Tensor:
    """Return of which images (n,) a short attack changes the prediction."""
    if not len(images):
        return torch.zeros(0, dtype=torch.bool, device=images.device)

    def loss(logits: Tensor, indices: Tensor, progress: float = 0.0) -> Tensor:
        return _lead(logits.double(), ends[indices])

    attack = MomentumPGD(norm, epsilon, STEPS, box=box)
    return attack.run(model, images, loss, loss, check_cancelled=check_cancelled).value < 0


def _lead(logits: Tensor, ends: Tensor) -> Tensor:
    first, second = logits.gather(1, ends).unbind(1)
    return first - second
