"""Images at which units of a network are on that are off at images of their class, and on at those of others.

A network may have a robust one's answer vetoed by units that hear another, weaker one. They are on wherever that sees
another class, so that nothing is dormant and nothing is idle; and off, without a gradient, at every image of the class
that they veto and all around it, but for images that are made on purpose. What goes into them has a gradient. Of a
network that hides nothing it leads nowhere that the answer's own does not.
"""

from collections.abc import Mapping

import torch
from torch import Tensor

from workers.attacks.gradients import Model
from workers.attacks.kinks import UNITS, Kink, kinks_of
from workers.attacks.meeting_thresholds import MOST, Meeting, in_spreads
from workers.attacks.momentum import MomentumPGD, length_share
from workers.attacks.openings import Openings
from workers.attacks.regions import make_region, unit_vectors
from workers.attacks.tried import Trial

ON = 0.1
"""Share of the images at which a unit is on that is to be opened where it is off, at least."""

PLACES, SHORT, PAIR = 48, 12, 2
"""Parts of a network that are tried by themselves first, at most, for how many steps and at how many images."""


def open_units(model: Model, images: Tensor, units: Meeting, steps: int, trial: Trial) -> Tensor:
    """Return images (n, ...) in the ball at which units that are off at the images are as far on as may be.

    Climbs the sum of what goes into them, in standard deviations.

    Args:
        model: Differentiable.
        images: (n, ...).
        units: Which, with how far what goes into them differs between images, less where they are more often on.
        steps: Gradient steps.
        trial: Of what the attack is.
    """
    region = make_region(trial.norm, images.detach(), trial.epsilon, trial.box)
    moved, momentum = images.detach().clone(), torch.zeros_like(images)
    are_off = dict[Kink, Tensor]()
    for step in range(steps):
        trial.check_cancelled()
        followed = moved.detach().requires_grad_(True)
        with torch.enable_grad():
            scaled = in_spreads(kinks_of(model, followed, MOST, units.spreads)[1], units)
            if step == 0:
                are_off = {kink: of.detach() < 0 for kink, of in scaled.items()}
            parts = [(of * are_off[kink]).mean(1) for kink, of in scaled.items() if kink in are_off]
            if not parts:
                return moved
            (slope,) = torch.autograd.grad(torch.stack(parts).sum(), followed, allow_unused=True)
        if slope is None:
            return moved
        momentum = MomentumPGD.decay * momentum + unit_vectors(slope)
        length = MomentumPGD.step * trial.epsilon * length_share(step, steps)
        moved = region.step(moved, -momentum, length)
    return moved


def units_to_open(model: Model, images: Tensor, some: Tensor, steps: int, trial: Trial) -> Meeting | None:
    """Return units by whose opening the answer is less sure than by as many steps up its entropy; None: there are none.

    The units of each call are tried for a few steps first, and those that move the answer most, and all together, in
    earnest.

    Args:
        model: Differentiable.
        images: (n, ...), a batch by which it is known how often units are on, and how far what goes into them differs.
        some: (m, ...), a few with which they are tried.
        steps: Of either way.
        trial: How.
    """
    trial.check_cancelled()
    whole = Meeting(_often_on(kinks_of(model, images, MOST)[1])) if len(images) > 1 else Meeting({})
    if not whole.spreads or not len(some):
        return None
    few, kinks = some[:PAIR], [*whole.spreads]
    answer, together = Openings(model, few, steps, trial), max(1, -(-len(kinks) // PLACES))
    parts = [whole.part(kinks[start : start + together]) for start in range(0, len(kinks), together)]
    moved = [answer.moved_at(open_units(model, few, part, min(SHORT, steps), trial))[0] for part in parts]
    chosen = [parts[max(range(len(parts)), key=moved.__getitem__)], whole][: len(parts)]
    ends = [open_units(model, some, part, steps, trial) for part in chosen]
    at = Openings(model, some, steps, trial).opening(ends, is_surer=False)
    return None if at is None else chosen[at]


def _often_on(found: Mapping[Kink, Tensor]) -> dict[Kink, Tensor]:
    spreads = dict[Kink, Tensor]()
    for kink, numbers in found.items():
        values = numbers.detach().double()
        share, apart = (values > 0).double().mean(0), values.std(0)
        is_told = (share >= ON) & apart.isfinite() & (apart > 0)
        if int(is_told.sum()) >= UNITS:
            spreads[kink] = torch.where(is_told, apart / share, torch.inf)
    return spreads
