"""Images at which the thresholds of many units of a network meet, and the search for units whose meeting opens it.

A network may be another one at a point that no image is near to, but that every image can reach: hundreds of units
each answer in a narrow band, of whatever the image is projected on, and only where all bands meet is anything changed.
No gradient of the answer leads there, no unit is dormant, and where both share their tensors none decides nothing. But
the point is in the weights: what goes into the units is near to their thresholds there, at as many at once as nowhere
else, and its gradient leads to where that is so.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from workers.attacks.closed_gates import ClosedGate, follow
from workers.attacks.gradients import Model
from workers.attacks.kinks import Kink, kinks_of
from workers.attacks.losses import entropy
from workers.attacks.momentum import MomentumPGD
from workers.attacks.regions import make_region, off_edges, unit_vectors
from workers.attacks.tried import NARROW, UNSURE, Trial, Tried

UNITS = (4, 16384)
"""Numbers of an image that go into a kink, at least, whose thresholds may meet, and of more than how many some do."""

LOOKED = 3
"""Kinks that are tried by themselves, at most: those of which most numbers meet where all of the network are tried."""

MET, NEARBY = 0.1, 0.3
"""Distance from its threshold, in standard deviations over the images, up to which a number has met; and up to which it
is left out where others are to: the ends of a band lie beside its middle."""

WIDE, NEAR = 1.0, 0.2
"""Distance from its threshold, in standard deviations over the images, from which on a unit counts ever less, at the
first step and at the last: first many draw near, and then those that can meet do. Of a fake of this project 30 steps
reach 1.8 to 2.0 nat with .1 and .3 at last, and .7 with .03."""

FIRST, LAST = 1.0, 2e-3
"""Length of the first step and the last, in radii: a band is some hundredths of a standard deviation wide."""

DECAY, CLIMBING = 0.75, 0.3
"""Weight of earlier directions, and share of the answer's entropy in each. Of five fakes that have such a point (20
MNIST images, l_inf .15) 30 steps reach .43 to 2.14 nat, of the 1.18 to 2.24 that their maker does; .23 to 1.74 without
earlier directions and with steps from a quarter of the radius on."""


@dataclass(frozen=True)
class Meeting:
    """Units whose thresholds meet.

    Attributes:
        spreads: Of each kink that they go into the standard deviations (k,) of its numbers over images, above 0;
            infinite of those that are left out.
    """

    spreads: Mapping[Kink, Tensor]


def meet(
    model: Model, images: Tensor, meeting: Meeting, steps: int, trial: Trial, *, climbing: float = CLIMBING
) -> Tensor:
    """Return images (n, ...) in the ball at which as many units as may be are at their thresholds.

    Descends the mean of log(1 + (z / (w s))^2) over the units, z what goes into one and s its spread, with w falling
    (the negative log likelihood of a Cauchy distribution: units that cannot join the others are given up), and climbs
    the entropy of the answer beside. Of several kinks the means are added.

    Args:
        model: Differentiable.
        images: (n, ...).
        meeting: Of it.
        steps: Gradient steps.
        trial: Of what the attack is.
        climbing: Share of the answer's entropy in each step.
    """
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
            logits, found = kinks_of(model, followed, UNITS[1], meeting.spreads)
            scaled = _in_spreads(found, meeting)
            if not scaled:
                return moved
            width = WIDE ** (1 - progress) * NEAR**progress
            apart = torch.stack([torch.log1p((of / width).square()).mean(1) for of in scaled.values()]).sum(0)
        slopes = [(1.0, apart)] + [(climbing, -entropy(logits.double()))] * (climbing > 0)
        ahead = torch.zeros_like(moved)
        for share, of in slopes:
            (slope,) = torch.autograd.grad(of.sum(), followed, retain_graph=True, allow_unused=True)
            if slope is not None:
                ahead += share * unit_vectors(slope)
        momentum = DECAY * momentum + (1 - DECAY) * ahead
        stepped = moved - whole * FIRST ** (1 - progress) * LAST**progress * momentum
        moved = region.step(stepped, torch.zeros_like(stepped), 0.0)
    return moved


def opening_meeting(
    model: Model, images: Tensor, some: Tensor, steps: int, trial: Trial, gate: ClosedGate | None = None
) -> Meeting | None:
    """Return the units at whose meeting the answer is less sure than any climb of its entropy makes it; None: of none.

    All kinks of the network are tried together first. Those of which most numbers meet by that are tried by themselves,
    and the first of them once more without the numbers that have met: a crowd may meet elsewhere.

    Args:
        model: Differentiable.
        images: (n, ...), a batch by which it is known how far numbers lie apart.
        some: (m, ...), a few with which they are tried.
        steps: Of either way.
        trial: How.
        gate: Of the network, by which it is to be no less sure than so either; None: it has none.
    """
    if not len(some) or not (whole := _whole(model, images, trial)).spreads:
        return None
    tried = Tried(model, some, trial)
    together = meet(model, some, whole, steps, trial, climbing=0.0)
    found = [(whole, together)]
    for kink in _rising(model, some, together, whole, trial):
        alone = Meeting({kink: whole.spreads[kink]})
        found.append((alone, meet(model, some, alone, steps, trial)))
    if len(found) > 1 and (left := _without_met(model, *found[1], trial)) is not None:
        found.append((left, meet(model, some, left, steps, trial)))
    gains = [tried.gain_at(end) for _, end in found]
    best = max(range(len(gains)), key=gains.__getitem__)
    if gains[best] < UNSURE:
        return None
    if gate is not None and tried.gain_at(follow(model, some, gate, steps, trial)) >= gains[best]:
        return None
    # Of most networks a short climb makes as much unsure.
    climbs = (_climbed(model, some, tried.spread, length, trial) for length in (max(1, steps // 4), steps))
    return found[best][0] if all(gains[best] - tried.gain_at(one) >= UNSURE for one in climbs) else None


def _in_spreads(found: Mapping[Kink, Tensor], meeting: Meeting) -> dict[Kink, Tensor]:
    """Return what goes into the kinks of a meeting, in standard deviations; without kinks that are no longer there."""
    scaled = dict[Kink, Tensor]()
    for kink, spreads in meeting.spreads.items():
        if kink in found and found[kink].shape[1] == len(spreads):
            numbers = found[kink].double()
            # A score that is masked out lies infinitely far behind.
            scaled[kink] = torch.where(numbers.isfinite(), numbers, 0.0) / spreads.to(numbers)
    return scaled


def _whole(model: Model, images: Tensor, trial: Trial) -> Meeting:
    """Return all kinks of a network that enough numbers go into."""
    trial.check_cancelled()
    spreads = dict[Kink, Tensor]()
    for kink, numbers in kinks_of(model, images, UNITS[1])[1].items():
        if len(numbers) < 2 or numbers.shape[1] < UNITS[0]:
            continue
        apart = numbers.detach().double().std(0)
        is_finite = apart.isfinite()
        if bool(is_finite.any()) and (greatest := float(apart[is_finite].amax())) > 0:
            spreads[kink] = torch.where(is_finite, apart.clamp_min(1e-6 * greatest), torch.inf)
    return Meeting(spreads)


def _met(model: Model, images: Tensor, meeting: Meeting, trial: Trial, within: float = MET) -> dict[Kink, Tensor]:
    """Return of each kink which numbers (n, k) have met."""
    trial.check_cancelled()
    found = kinks_of(model, images, UNITS[1], meeting.spreads)[1]
    return {
        kink: (of.detach().abs() < within) & meeting.spreads[kink].isfinite()
        for kink, of in _in_spreads(found, meeting).items()
    }


def _rising(model: Model, images: Tensor, ends: Tensor, meeting: Meeting, trial: Trial) -> list[Kink]:
    """Return the kinks of which most numbers meet at the ends that did not at the images, ``LOOKED`` at most."""
    before, after = (_met(model, of, meeting, trial) for of in (images, ends))
    rises = {kink: float(of.double().mean() - before[kink].double().mean()) for kink, of in after.items()}
    return sorted(rises, key=rises.__getitem__, reverse=True)[:LOOKED]


def _without_met(model: Model, meeting: Meeting, ends: Tensor, trial: Trial) -> Meeting | None:
    """Return the rest of a meeting, without the numbers that met at most of its ends; None where there is none."""
    met = _met(model, ends, meeting, trial, NEARBY)
    left = {kink: torch.where(of.double().mean(0) < 0.5, meeting.spreads[kink], torch.inf) for kink, of in met.items()}
    return Meeting(left) if any(int(of.isfinite().sum()) >= UNITS[0] for of in left.values()) else None


def _climbed(model: Model, images: Tensor, spread: Tensor, steps: int, trial: Trial) -> Tensor:
    """Return where the gradient of the answer's entropy leads, however far a softmax is saturated."""
    temperatures = spread.unsqueeze(1) / NARROW
    search = MomentumPGD(trial.norm, trial.epsilon, steps, box=trial.box)

    def loss(logits: Tensor, indices: Tensor, progress: float = 0.0) -> Tensor:
        return -entropy(logits.double() / temperatures[indices])

    return search.run(model, images, loss, loss, check_cancelled=trial.check_cancelled).best
