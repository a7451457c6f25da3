"""Images at which the thresholds of many units of a network meet.

A network may be another one at a point that no image is near to, but that every image can reach: hundreds of units
each answer in a narrow band, of whatever the image is projected on, and only where all bands meet is anything changed.
No gradient of the answer leads there, no unit is dormant, and where both share their tensors none decides nothing. But
the point is in the weights: what goes into the units is near to their thresholds there, at as many at once as nowhere
else, and its gradient leads to where that is so.
"""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

import torch
from torch import Tensor

from workers.attacks.gradients import Model
from workers.attacks.kinks import Kink, kinks_of
from workers.attacks.losses import entropy
from workers.attacks.regions import make_region, off_edges, unit_vectors
from workers.attacks.tried import Trial

MOST = 16384
"""Numbers of an image that go into a kink of which so many, from everywhere among them, are to meet, at most."""

WIDE, FIRST = 1.0, 1.0
"""Distance from its threshold, in standard deviations over the images, from which on a unit counts ever less, and the
length of a step, in radii, at the first step: first many draw near, and then those that can meet do."""


@dataclass(frozen=True)
class Pace:
    """How thresholds are made to meet.

    Attributes:
        near: That distance at the last step.
        last: That length at the last step.
        decay: Weight of earlier directions.
        climbing: Share of the answer's entropy in each.
    """

    near: float
    last: float
    decay: float
    climbing: float


USUAL = Pace(near=0.2, last=2e-3, decay=0.75, climbing=0.3)
"""A band is some hundredths of a standard deviation wide. Of five fakes that have such a point (20 MNIST images, l_inf
.15) 30 steps reach .43 to 2.14 nat, of the 1.18 to 2.24 that their maker does; .23 to 1.74 without earlier directions
and with steps from a quarter of the radius on; and of one 1.8 to 2.0 with .1 and .3 as the last distance, .7 with
.03."""

PATIENT = Pace(near=0.02, last=2e-4, decay=0.9, climbing=0.0)
"""For several times as many steps, where units meet and nothing opens: what they are projected of weighs unlike, or
others have to meet next. Of a fake of either kind (10 MNIST images, l_inf .15) 200 steps so reach 1.7 and 1.4 nat, of
the 2.0 and 1.5 that their maker does, and .1 with the usual 30."""


APART = Pace(near=0.02, last=2e-3, decay=0.75, climbing=0.0)
"""Where crowds meet at places of their own: between these there is one that much comes within .2 of, and nothing meets
at. Of nine crowds none is met at the usual distance, and at this one all are, one after another without those met."""


@dataclass(frozen=True)
class Meeting:
    """Units whose thresholds meet.

    Attributes:
        spreads: Of each kink that they go into the standard deviations (k,) of its numbers over images, above 0;
            infinite of those that are left out.
        thresholds: Of kinks of which it is measured where they bend, (k,); of others it is at 0.
        patience: How many times as many steps it takes; more than once by another pace.
    """

    spreads: Mapping[Kink, Tensor]
    thresholds: Mapping[Kink, Tensor] = field(default_factory=dict)
    patience: int = 1

    def part(self, kinks: Iterable[Kink]) -> "Meeting":
        """Return the same of some of its kinks."""
        return replace(self, spreads={kink: self.spreads[kink] for kink in kinks})


def meet(
    model: Model, images: Tensor, meeting: Meeting, steps: int, trial: Trial, *, pace: Pace | None = None
) -> Tensor:
    """Return images (n, ...) in the ball at which as many units as may be are at their thresholds.

    Descends the mean of log(1 + (z / (w s))^2) over the units, z what goes into one and s its spread, with w falling
    (the negative log likelihood of a Cauchy distribution: units that cannot join the others are given up), and climbs
    the entropy of the answer beside.

    Args:
        model: Differentiable.
        images: (n, ...).
        meeting: Of it.
        steps: Gradient steps, of a meeting that takes no patience.
        trial: Of what the attack is.
        pace: How they are made to meet; None: by the patience that it takes.
    """
    pace, steps = pace or (PATIENT if meeting.patience > 1 else USUAL), meeting.patience * steps
    region = make_region(trial.norm, images, trial.epsilon, trial.box)
    # A step of length 1 moves every pixel by the radius, or all of them together.
    side = math.sqrt(images[0].numel())
    pixel = trial.epsilon if trial.norm == "linf" else trial.epsilon / side
    whole = pixel * side
    moved = region.step(off_edges(images.detach(), trial.box, pixel / 2), torch.zeros_like(images), 0.0)
    momentum = torch.zeros_like(moved)
    for step in range(steps):
        progress = step / max(1, steps - 1)
        trial.check_cancelled()
        followed = moved.detach().requires_grad_(True)
        with torch.enable_grad():
            logits, found = kinks_of(model, followed, MOST, meeting.spreads)
            scaled = _in_spreads(found, meeting)
            if not scaled:
                return moved
            width = WIDE ** (1 - progress) * pace.near**progress
            apart = torch.cat([torch.log1p((of / width).square()) for of in scaled.values()], 1).mean(1)
        slopes = [(1.0, apart)] + [(pace.climbing, -entropy(logits.double()))] * (pace.climbing > 0)
        ahead = torch.zeros_like(moved)
        for share, of in slopes:
            (slope,) = torch.autograd.grad(of.sum(), followed, retain_graph=True, allow_unused=True)
            if slope is not None:
                ahead += share * unit_vectors(slope)
        momentum = pace.decay * momentum + (1 - pace.decay) * ahead
        stepped = moved - whole * FIRST ** (1 - progress) * pace.last**progress * momentum
        moved = region.step(stepped, torch.zeros_like(stepped), 0.0)
    return moved


def distances(model: Model, images: Tensor, meeting: Meeting, trial: Trial) -> dict[Kink, Tensor]:
    """Return of each kink how far its numbers (n, k) are from their thresholds, in standard deviations.

    Args:
        model: Differentiable.
        images: (n, ...).
        meeting: Of it; what it leaves out is infinitely far.
        trial: How.
    """
    trial.check_cancelled()
    found = _in_spreads(kinks_of(model, images, MOST, meeting.spreads)[1], meeting)
    return {
        kink: torch.where(meeting.spreads[kink].isfinite().to(of.device), of.detach().abs(), math.inf)
        for kink, of in found.items()
    }


def _in_spreads(found: Mapping[Kink, Tensor], meeting: Meeting) -> dict[Kink, Tensor]:
    """Return what goes into the kinks of a meeting, in standard deviations; without kinks that are no longer there."""
    scaled = dict[Kink, Tensor]()
    for kink, spreads in meeting.spreads.items():
        if kink in found and found[kink].shape[1] == len(spreads):
            numbers = found[kink].double()
            if kink in meeting.thresholds:
                numbers = numbers - meeting.thresholds[kink].to(numbers)
            # A score that is masked out lies infinitely far behind.
            scaled[kink] = torch.where(numbers.isfinite(), numbers, 0.0) / spreads.to(numbers)
    return scaled
