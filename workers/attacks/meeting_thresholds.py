"""Images at which the thresholds of many units of a network meet, and the search for units whose meeting opens it.

A network may be another one at a point that no image is near to, but that every image can reach: hundreds of units
each answer in a narrow band, of whatever the image is projected on, and only where all bands meet is anything changed.
No gradient of the answer leads there, no unit is dormant, and where both share their tensors none decides nothing. But
the point is in the weights: what goes into the units is near to their thresholds there, at as many at once as nowhere
else, and its gradient leads to where that is so.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from workers.attacks.altered_passes import Place, passed, together
from workers.attacks.closed_gates import ClosedGate, follow
from workers.attacks.gate_search import spread_out
from workers.attacks.gradients import Model
from workers.attacks.idle import Number, leading_tensors
from workers.attacks.losses import entropy
from workers.attacks.momentum import MomentumPGD
from workers.attacks.regions import make_region, off_edges, unit_vectors
from workers.attacks.tried import NARROW, UNSURE, Trial, Tried

UNITS = (32, 16384)
"""Numbers of an image that a tensor has, at least and at most, whose units' thresholds may meet."""

EITHER = 0.05
"""Share of them above their thresholds, and share below, at least: what comes out of units is of one sign."""

LOOKED = 3
"""Tensors that are tried, at most."""

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
        number: Of the tensor of what goes into them.
        spreads: (k,) standard deviation of each over images, above 0.
    """

    number: Number
    spreads: Tensor


def meet(model: Model, images: Tensor, meeting: Meeting, steps: int, trial: Trial) -> Tensor:
    """Return images (n, ...) in the ball at which as many units as may be are at their thresholds.

    Descends the mean of log(1 + (z / (w s))^2) over the units, z what goes into one and s its spread, with w falling
    (the negative log likelihood of a Cauchy distribution: units that cannot join the others are given up), and climbs
    the entropy of the answer beside.

    Args:
        model: Differentiable.
        images: (n, ...).
        meeting: Of it.
        steps: Gradient steps.
        trial: Of what the attack is.
    """
    region = make_region(trial.norm, images, trial.epsilon, trial.box)
    place, spreads = Place(meeting.number), meeting.spreads.to(images.device)
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
            logits, found = passed(model, followed, [place])
            numbers = together(found[place], detached=False)
            if numbers is None or numbers.shape != (len(images), len(spreads)):
                return moved
            scaled = numbers.double() / (spreads * WIDE ** (1 - progress) * NEAR**progress)
            losses = torch.log1p(scaled.square()).mean(1), -entropy(logits.double())
        slopes = [torch.autograd.grad(of.sum(), followed, retain_graph=True, allow_unused=True)[0] for of in losses]
        to_meet, to_climb = (torch.zeros_like(moved) if slope is None else unit_vectors(slope) for slope in slopes)
        momentum = DECAY * momentum + (1 - DECAY) * (to_meet + CLIMBING * to_climb)
        ahead = moved - whole * FIRST ** (1 - progress) * LAST**progress * momentum
        moved = region.step(ahead, torch.zeros_like(ahead), 0.0)
    return moved


def opening_meeting(
    model: Model, images: Tensor, some: Tensor, steps: int, trial: Trial, gate: ClosedGate | None = None
) -> Meeting | None:
    """Return the units at whose meeting the answer is less sure than any climb of its entropy makes it; None: of none.

    Args:
        model: Differentiable.
        images: (n, ...), a batch in which the tensors are looked at.
        some: (m, ...), a few with which they are tried.
        steps: Of either way.
        trial: How.
        gate: Of the network, by which it is to be no less sure than so either; None: it has none.
    """
    if not len(some) or not (candidates := _candidates(model, images, trial)):
        return None
    tried = Tried(model, some, trial)
    ends = [meet(model, some, one, steps, trial) for one in candidates]
    gains = [tried.gain_at(end) for end in ends]
    best = max(range(len(ends)), key=gains.__getitem__)
    if gains[best] < UNSURE:
        return None
    if gate is not None and tried.gain_at(follow(model, some, gate, steps, trial)) >= gains[best]:
        return None
    # Of most networks a short climb makes as much unsure.
    climbs = (_climbed(model, some, tried.spread, length, trial) for length in (max(1, steps // 4), steps))
    return candidates[best] if all(gains[best] - tried.gain_at(one) >= UNSURE for one in climbs) else None


def _candidates(model: Model, images: Tensor, trial: Trial) -> Sequence[Meeting]:
    """Return tensors of which some numbers are above 0 and some below, such as have fewest axes."""
    trial.check_cancelled()
    found = list[tuple[int, Meeting]]()
    for one in leading_tensors(model, images)[1]:
        numbers = together(one.found)
        # Of as many numbers as an image has they are its pixels, which go into no units.
        if numbers is None or len(numbers) < 2 or numbers.shape[1] == images[0].numel():
            continue
        if not UNITS[0] <= numbers.shape[1] <= UNITS[1]:
            continue
        numbers = numbers[: len(images)]
        if min(float(of.double().mean()) for of in (numbers > 0, numbers < 0)) < EITHER:
            continue
        spreads = numbers.double().std(0)
        if bool(spreads.isfinite().all()):
            least = 1e-6 * float(spreads.amax())
            found.append((one.found[0][0].dim(), Meeting(one.number, spreads.clamp_min(least))))
    fewest = min((axes for axes, _ in found), default=0)
    return spread_out([meeting for axes, meeting in found if axes == fewest], LOOKED)


def _climbed(model: Model, images: Tensor, spread: Tensor, steps: int, trial: Trial) -> Tensor:
    """Return where the gradient of the answer's entropy leads, however far a softmax is saturated."""
    temperatures = spread.unsqueeze(1) / NARROW
    search = MomentumPGD(trial.norm, trial.epsilon, steps, box=trial.box)

    def loss(logits: Tensor, indices: Tensor, progress: float = 0.0) -> Tensor:
        return -entropy(logits.double() / temperatures[indices])

    return search.run(model, images, loss, loss, check_cancelled=trial.check_cancelled).best
