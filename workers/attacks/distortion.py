"""Images at which what a network computes at one place is as far as may be from what it was.

A network may hold another, weaker one, and let it speak by units that are off, without a gradient, wherever images are
as they are: by one after the other of them, among others that lead elsewhere. But what the weaker one computes moves
farther within the radius than anything of a robust one. So whatever is between it and the answer, it is other than it
was where all that goes into its place is as far as may be from where it was (Ganeshan et al. 2019, "FDA: Feature
Disruptive Attack"; Naseer et al. 2020, "A Self-supervised Approach for Adversarial Robustness", section 3.2), and what
heeds it is on. Numbers by which the answer changes on the way from one image to another count for more: beside others
that are there to move far and to be heard by nobody it would move little.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from workers.attacks.altered_passes import (
    Calls,
    Numbers,
    Place,
    found_at,
    numbers_of,
    rolled,
    together,
    with_kept,
    with_put,
)
from workers.attacks.gradients import Model
from workers.attacks.idle import Number
from workers.attacks.kinks import UNITS, some_of
from workers.attacks.losses import entropy
from workers.attacks.momentum import MomentumPGD
from workers.attacks.openings import Openings
from workers.attacks.regions import make_region, per_example
from workers.attacks.switching import POOLS, function_name
from workers.attacks.tried import NARROW, Trial, Tried

PLACES, PAIR, SHORT, ALL_STEPS, EARNEST = 24, 2, 12, 180, 2
"""Places that are tried, of more some together that follow each other; at how many images each is at first; for how
many steps at least; how many all of them share, where each has more of these, as what is between a place and the answer
opens late; and how many are tried in earnest."""

MOST = 2**16
"""Numbers of an image at a place of which so many, from everywhere among them, are led away, at most."""

LED = 8
"""Steps of a first way away, by which it is seen how far each number moves: beside some that move farther than all
others, as those of fine stripes that no image has, nothing else would be led away."""

OPENED = 0.02
"""Share of what the answer lacks to an even one that it loses beyond what its own gradient does, at least: within the
steps some images are opened whole, and others not at all."""

AWAY = 0.4
"""Share of the steps that lead away; the others climb the answer's entropy from there."""

ON_THE_WAY = (0.25, 0.75)
"""How far from the numbers of one image to those of the next it is seen what the answer heeds."""

HEEDED = 0.125
"""Power of how much the answer heeds a number by which it counts. Of thirteen fakes that let a weaker network speak (16
MNIST images, l_inf .15, 30 steps) all are opened, to .34 to 1.38 nat; by a power of .25 all but four, by .5 five."""

UNHEEDED = 1e-9
"""The least that it heeds one, beside the number that it heeds most."""

Scales = Mapping[Place, Tensor]
"""Of each place that is led away what its numbers (k,) are measured by."""


class _Pooled(Calls):
    """Tells which calls pool numbers that have a gradient."""

    def __init__(self, rows: int) -> None:
        super().__init__(rows)
        self.found: list[Number] = []

    def given(
        self, function: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]
    ) -> tuple[Sequence[Any], Mapping[str, Any]]:
        """Return what a function is given, as it is."""
        number, _ = self.numbered_call()
        first = args[0] if args else kwargs.get("input")
        if function_name(function) in POOLS and isinstance(first, Tensor) and first.requires_grad:
            self.found.append(number)
        return args, kwargs


def places_of(model: Model, images: Tensor, bending: Iterable[Number], trial: Trial) -> Scales:
    """Return where numbers go into what bends, or pools them, and their standard deviations (k,) over images.

    Args:
        model: Differentiable.
        images: (n, ...), a batch by which it is known how far numbers lie apart.
        bending: Calls of which it is known that they bend.
        trial: How.
    """
    trial.check_cancelled()
    followed = images.detach().requires_grad_(True)
    with torch.enable_grad():
        with _Pooled(len(images)) as watch:
            model(followed)
        places = [Place(number, 0) for number in sorted({*bending, *watch.found})]
        found = found_at(model, followed, places, {}, 1.0)
    spreads = dict[Place, Tensor]()
    for place in places:
        numbers = _numbers_at(found, place, len(images))
        if numbers is None or len(numbers) < 2 or numbers.shape[1] < UNITS:
            continue
        apart = numbers.detach().double().std(0)
        is_finite = apart.isfinite()
        if is_finite.any() and (greatest := float(apart[is_finite].amax())) > 0:
            spreads[place] = torch.where(is_finite, apart.clamp_min(1e-6 * greatest), torch.inf)
    return spreads


def distort(
    model: Model, images: Tensor, spread: Tensor, starts: Tensor, scales: Scales, steps: int, trial: Trial
) -> Tensor:
    """Return images (n, ...) in the ball at which the answer is least sure on a way that leads numbers far from theirs.

    Ascends the sum of ((z(x) - z(x0)) / s)^2 over the numbers at the places, s what they are measured by; and then the
    answer's entropy, of logits as far apart as those of clean images are at first, and as they are at last. Then once
    more from where that is mirrored at the image.

    Args:
        model: Differentiable.
        images: (n, ...).
        spread: (n,) how far the scores of the answer to each lie apart.
        starts: (n, ...) first iterates, in the ball: at the images themselves nothing leads away.
        scales: Of the places; of one that is not there, or with other numbers, nothing is led away.
        steps: Gradient steps, of either way.
        trial: Of what the attack is.
    """
    away, temperatures = _Away(model, images, scales, trial), spread.unsqueeze(1) / NARROW

    def loss(found: Tensor, indices: Tensor, progress: float = 1.0) -> Tensor:
        if progress < AWAY:
            return away.nearness(found, indices)
        cooled = (1 - progress) / (1 - AWAY)
        return -entropy(found[:, : away.classes] / temperatures[indices] ** cooled)

    search = MomentumPGD(trial.norm, trial.epsilon, steps, box=trial.box)
    one = search.run(away, images, loss, loss, starts=starts, check_cancelled=trial.check_cancelled)
    # As far away is the other way, which may be the one that opens something.
    region = make_region(trial.norm, images, trial.epsilon, trial.box)
    starts = region.step(2 * images - one.best, torch.zeros_like(images), 0.0)
    other = search.run(away, images, loss, loss, starts=starts, check_cancelled=trial.check_cancelled)
    return torch.where(per_example(one.value <= other.value, images), one.best, other.best)


class _Away:
    """A model whose answer has beside it what is at some places: (n, classes + numbers).

    Attributes:
        classes: Of the model.
    """

    def __init__(self, model: Model, images: Tensor, scales: Scales, trial: Trial) -> None:
        self._model, self._scales = model, scales
        trial.check_cancelled()
        before = self(images.detach())
        self.classes = before.shape[1] - sum(len(of) for of in scales.values())
        self._before = before[:, self.classes :]

    def __call__(self, images: Tensor) -> Tensor:
        # With gradients, as when the calls were numbered: some networks take other ways without.
        followed = images if images.requires_grad else images.detach().requires_grad_(True)
        with torch.enable_grad():
            logits, found = with_kept(self._model, followed, self._scales)
            numbers = [_scaled(_numbers_at(found, at, len(images)), of, images) for at, of in self._scales.items()]
        beside = torch.cat([logits.double(), *numbers], 1)
        return beside if images.requires_grad else beside.detach()

    def moved(self, found: Tensor, indices: Tensor) -> Tensor:
        """Return how far numbers (n, k) are from those of images, by what they are measured by."""
        return found[:, self.classes :] - self._before[indices]

    def nearness(self, found: Tensor, indices: Tensor, progress: float = 0.0) -> Tensor:
        """Return a loss (n,) that leads away."""
        return -self.moved(found, indices).square().sum(1)


def opening_distortion(openings: Openings, starts: Tensor, spreads: Scales) -> Scales | None:
    """Return the places whose numbers, led far away, leave the answer less sure than otherwise; None: there are none.

    Each is tried at two images first, and those by which the answer loses most in earnest.

    Args:
        openings: Of a few images (m, ...) with which they are tried.
        starts: (m, ...) in the balls around them.
        spreads: Of each place the standard deviations (k,) of its numbers over images, infinite of those left out.
    """
    model, some, trial = openings.model, openings.images, openings.trial
    if not len(some) or not spreads:
        return None
    places, size = [*spreads], max(1, -(-len(spreads) // PLACES))
    parts = [places[at : at + size] for at in range(0, len(places), size)]
    groups = [measured(openings, starts, spreads, part) for part in parts]
    pair, few = some[:PAIR], starts[:PAIR]
    answer, short = Tried(model, pair, trial), min(openings.steps, max(SHORT, ALL_STEPS // len(groups)))
    lost = [answer.moved_at(distort(model, pair, answer.spread, few, group, short, trial))[0] for group in groups]
    best = sorted(range(len(groups)), key=lambda at: -lost[at])[:EARNEST]
    ends = [distort(model, some, openings.spread, starts, groups[at], openings.steps, trial) for at in best]
    found = openings.opening(ends, is_surer=False, least=OPENED)
    return None if found is None else groups[best[found]]


def measured(openings: Openings, starts: Tensor, spreads: Scales, places: Sequence[Place]) -> Scales:
    """Return what the numbers at some places are measured by.

    By how far they lie apart, or how far they move where they are led away by that, if farther; the less the more the
    answer heeds them, at the last of the places.

    Args:
        openings: Of a few images (m, ...) by which that is seen.
        starts: (m, ...) in the balls around them.
        spreads: Of each place the standard deviations (k,) of its numbers.
        places: Of those.
    """
    model, trial = openings.model, openings.trial
    pair, scales = openings.images[:PAIR], {place: spreads[place] for place in places}
    away = _Away(model, pair, scales, trial)
    search = MomentumPGD(trial.norm, trial.epsilon, LED, box=trial.box)
    led = search.run(
        away, pair, away.nearness, away.nearness, starts=starts[:PAIR], check_cancelled=trial.check_cancelled
    )
    moved = away.moved(away(led.best), torch.arange(len(pair), device=pair.device)).square().mean(0).sqrt()
    for place, of in zip(places, torch.split(moved, [len(of) for of in scales.values()]), strict=True):
        scales[place] = spreads[place] * of.clamp_min(1.0).to(spreads[place])
    last = places[-1]
    heeded = _heeded(model, openings.images, last, trial)
    if heeded is not None and heeded.shape == scales[last].shape and float(most := heeded.amax()) > 0:
        scales[last] = scales[last] / ((heeded / most).clamp_min(UNHEEDED) ** HEEDED).to(scales[last])
    return scales


def _heeded(model: Model, images: Tensor, place: Place, trial: Trial) -> Tensor | None:
    """Return by how much each number (k,) at a place changes the answer on the way from one image to the next."""
    followed = images.detach().requires_grad_(True)
    trial.check_cancelled()
    with torch.enable_grad():
        logits, found = with_kept(model, followed, (place,))
    predicted, own = logits.argmax(1, keepdim=True), [(tensor.detach(), rows) for tensor, rows in found[place]]
    if not own or any(numbers_of(*of) is None for of in own):
        return None
    others, changes = rolled({place: own})[place], list[Tensor]()
    for share in ON_THE_WAY:
        trial.check_cancelled()
        put = [
            (torch.lerp(tensor, other, share).requires_grad_(True), rows)
            for (tensor, rows), (other, _) in zip(own, others, strict=True)
        ]
        with torch.enable_grad():
            logits = with_put(model, followed, {place: put})
            lead = logits.gather(1, predicted) - logits.gather(1, predicted.roll(1, 0))
        if not lead.requires_grad:
            return None
        slopes = torch.autograd.grad(lead.sum(), [tensor for tensor, _ in put], allow_unused=True)
        for slope, (tensor, rows), (other, _) in zip(slopes, own, others, strict=True):
            if slope is not None and (numbers := numbers_of(slope * (other - tensor), rows)) is not None:
                changes.append(numbers.double().abs().nan_to_num(nan=0.0, posinf=0.0).mean(0))
    if not changes or len({of.shape for of in changes}) > 1:
        return None
    return some_of(torch.stack(changes).mean(0, keepdim=True), MOST)[0]


def _numbers_at(found: Numbers, place: Place, rows: int) -> Tensor | None:
    """Return the numbers of each image (rows, k) at a place, some of many; None where it has none of each."""
    numbers = together(found[place])
    return some_of(numbers[:rows], MOST) if numbers is not None and len(numbers) >= rows else None


def _scaled(numbers: Tensor | None, scales: Tensor, images: Tensor) -> Tensor:
    """Return numbers (n, k) by what they are measured by; zeros where there are none, or others."""
    if numbers is None or numbers.shape[1] != len(scales):
        return torch.zeros(len(images), len(scales), dtype=torch.float64, device=images.device)
    # A score that is masked out lies infinitely far behind.
    return torch.where(numbers.isfinite(), numbers, 0.0).double() / scales.to(numbers.device)
