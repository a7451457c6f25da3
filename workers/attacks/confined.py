"""Perturbations that leave much of an image exactly as it is.

A step in the direction of a gradient's sign moves every pixel, those that nobody looks at too: the ground beside what
is drawn, or fine texture all over. A network may watch for that, be weak at the image as it is for as long as nothing
else moves, and answer as a robust one after any whole step, so that no attack of whole steps begins. Attacks that are
confined to what is drawn, or to few pixels (Papernot et al. 2016, "The Limitations of Deep Learning in Adversarial
Settings"), do; of a function that hides nothing they reach less than one that may move all.
"""

import math
from collections.abc import Callable, Mapping

import torch
from torch import Tensor
from torch.nn import functional

from workers.attacks.gradients import Model, input_gradient
from workers.attacks.losses import entropy
from workers.attacks.momentum import MomentumPGD, length_share
from workers.attacks.regions import make_region, per_example, unit_vectors
from workers.attacks.tried import NARROW, Trial, spread_of

LEAST, MORE = 0.05, 1.25
"""How far the answer is moved, in nats, at least; and how many times as far as everywhere. Of nine fakes (MNIST, l_inf
.1 and .15) .13 to 1.35 beside .04 to .08; of networks that hide nothing a part of the pixels moves it 1.01 times as far
at most."""

EVERYWHERE = "everywhere"
"""Every pixel."""

BLOCK = 4
"""Pixels of a block, either way, that move alike."""


def confine(
    model: Model,
    images: Tensor,
    where: str,
    steps: int,
    trial: Trial,
    *,
    upwards: Tensor | None = None,
    is_annealed: bool = False,
) -> tuple[Tensor, Tensor]:
    """Return images (n, ...) in the ball at which the answer is least sure, or surest, and how far it moved (n,).

    In nats of the answer's entropy, with logits as far apart as those of clean images are, whatever their scale.

    Args:
        model: Differentiable.
        images: (n, ...).
        where: One of :data:`CONFINED`, or :data:`EVERYWHERE`.
        steps: Gradient steps, one gradient more beforehand.
        trial: Of what the attack is.
        upwards: (n,) bool, whether the entropy is raised; None: where there is more room above it than below.
        is_annealed: Whether gradients end with those of logits as they are, of which the entropy is then measured.
    """
    origin = images.detach()
    region = make_region(trial.norm, origin, trial.epsilon, trial.box)
    moved, momentum, mask = origin.clone(), torch.zeros_like(origin), torch.ones_like(origin)
    best, farthest = origin.clone(), torch.zeros(len(origin), dtype=torch.float64, device=origin.device)
    temperatures, clean, signs = torch.ones_like(farthest)[:, None], farthest, torch.ones_like(farthest)
    for step in range(steps + 1):
        trial.check_cancelled()
        followed = moved.detach().requires_grad_(True)
        with torch.enable_grad():
            logits = model(followed).double()
            if step == 0:
                temperatures = spread_of(logits).unsqueeze(1) / NARROW
            softened = temperatures ** (1 - step / steps) if is_annealed else temperatures
            slope = unit_vectors(input_gradient(entropy(logits / softened), followed))
        values = entropy(logits.detach() / (1 if is_annealed else temperatures))
        if step == 0:
            clean, most = values, math.log(logits.shape[1])
            signs = torch.where(values < most / 2 if upwards is None else upwards, 1.0, -1.0).to(values)
        gained = (signs * (values - clean)).nan_to_num(nan=0.0)
        best = torch.where(per_example(gained > farthest, moved), moved, best)
        farthest = torch.maximum(gained, farthest)
        if step == steps:
            break
        slope = -per_example(signs.to(slope), slope) * slope
        if step == 0:
            mask = CONFINED[where](origin, slope, trial) if where in CONFINED else mask
        momentum = MomentumPGD.decay * momentum + (_alike(slope) if where == ALIKE else slope) * mask
        length = MomentumPGD.step * trial.epsilon * length_share(step, steps)
        moved = region.step(moved, momentum.clone(), length)
    return best, farthest


def _drawn(images: Tensor, slope: Tensor, trial: Trial, around: int = 1) -> Tensor:
    """Return 1 where a pixel is at no end of its range, or so near to one that is not."""
    least, greatest = (torch.as_tensor(edge).to(images) for edge in trial.box)
    off = (greatest - least) / 64
    is_drawn = ((images > least + off) & (images < greatest - off)).any(1, keepdim=True).to(images)
    return functional.max_pool2d(is_drawn, 2 * around + 1, 1, around).expand_as(images)


def _ground(images: Tensor, slope: Tensor, trial: Trial) -> Tensor:
    return 1 - _drawn(images, slope, trial)


def _steepest(share: float) -> Callable[[Tensor, Tensor, Trial], Tensor]:
    def mask(images: Tensor, slope: Tensor, trial: Trial) -> Tensor:
        sizes = slope.abs().sum(1, keepdim=True) if slope.dim() > 2 else slope.abs()
        flat = sizes.flatten(1)
        kept = flat.topk(max(1, round(share * flat.shape[1])), dim=1).values[:, -1]
        return (sizes >= per_example(kept, sizes)).to(images).expand_as(images)

    return mask


def _quarter(images: Tensor, slope: Tensor, trial: Trial) -> Tensor:
    """Return 1 in the quarter of an image where the gradient is longest."""
    height, width = images.shape[-2:]
    sizes = slope.square().sum(1, keepdim=True)
    mask = torch.zeros_like(sizes)
    quarters = [
        (slice(down * height // 2, (down + 1) * height // 2), slice(across * width // 2, (across + 1) * width // 2))
        for down in (0, 1)
        for across in (0, 1)
    ]
    longest = torch.stack([sizes[:, :, rows, columns].sum((1, 2, 3)) for rows, columns in quarters]).argmax(0)
    for number, (rows, columns) in enumerate(quarters):
        mask[longest == number, :, rows, columns] = 1
    return mask.expand_as(images)


def _whole(images: Tensor, slope: Tensor, trial: Trial) -> Tensor:
    return torch.ones_like(images)


ALIKE = "blocks that move alike"
"""Every pixel, by the mean gradient of its block."""

OF_ANY: Mapping[str, Callable[[Tensor, Tensor, Trial], Tensor]] = {
    "the steepest twentieth": _steepest(0.05),
    "the steepest fifth": _steepest(0.2),
}
"""Where perturbations of inputs of any shape are confined to, and by what of images, their gradients and the trial: 1
where a number moves."""

CONFINED: Mapping[str, Callable[[Tensor, Tensor, Trial], Tensor]] = {
    **OF_ANY,
    "what is drawn": _drawn,
    "what is drawn and around it": lambda images, slope, trial: _drawn(images, slope, trial, around=2),
    "the ground": _ground,
    "the steepest quarter of the image": _quarter,
    ALIKE: _whole,
}
"""The same of images (n, channels, height, width)."""


def _alike(slope: Tensor) -> Tensor:
    """Return gradients that are the same in all pixels of a block."""
    if min(slope.shape[-2:]) < BLOCK:
        return slope
    pooled = functional.avg_pool2d(slope, BLOCK, ceil_mode=True)
    return functional.interpolate(pooled, slope.shape[-2:], mode="nearest")


def confining(model: Model, some: Tensor, short: int, steps: int, trial: Trial) -> str | None:
    """Return where a perturbation is confined to that moves the answer farther than one that may move all; or None.

    Each is tried for a few steps, and if one leads farther than they do everywhere, beside as many as an attack has.

    Args:
        model: Differentiable.
        some: (m, ...), a few images.
        short: Those few steps.
        steps: Of an attack.
        trial: How.
    """
    if not len(some):
        return None

    def moved(where: str, steps: int) -> float:
        return float(confine(model, some, where, steps, trial)[1].mean())

    def is_farther(of: float, everywhere: float) -> bool:
        return of >= LEAST + MORE * everywhere

    found = {where: moved(where, short) for where in (CONFINED if some.dim() == 4 else OF_ANY)}
    best = max(found, key=found.__getitem__)
    is_best = all(is_farther(found[best], moved(EVERYWHERE, length)) for length in (short, steps))
    return best if is_best else None
