"""Images at which what a network computes at one place is as far as may be from what it was.

A network may hold another, weaker one, and let it speak by units that are off, without a gradient, wherever images are
as they are: by one after the other of them, among others that lead elsewhere. But what the weaker one computes moves
farther within the radius than anything of a robust one. So whatever is between it and the answer, it is other than it
was where all that goes into its place is as far as may be from where it was (Ganeshan et al. 2019, "FDA: Feature
Disruptive Attack"; Naseer et al. 2020, "A Self-supervised Approach for Adversarial Robustness", section 3.2), and what
heeds it is on. Others may stand beside it, there to move far and to be heard by next to nobody. So numbers by which the
answer changes on the way from one image to another count for more, or, what is off being heeded by nobody, those that
move farther the more they are led than at random; and what many do together counts as one of them.
"""

import heapq
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.utils._pytree import tree_leaves

from workers.attacks.altered_passes import (
    Calls,
    Place,
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
from workers.attacks.momentum import Descent, MomentumPGD
from workers.attacks.openings import Openings
from workers.attacks.regions import make_region, per_example
from workers.attacks.switching import POOLS, function_name
from workers.attacks.tried import NARROW, Trial, Tried
from workers.attacks.whitening import Whitening, apart, whitening

PLACES, AT_FIRST, SHORT, ALL_STEPS, EARNEST = 24, 3, 8, 120, 3
"""Places that are tried, of more some together that follow each other; at how many images each is at first; for how
many steps at least; how many all of them share, where each has more of these, as what is between a place and the answer
opens late; and how many are tried in earnest."""

MOST = 2**16
"""Numbers of an image of which so many, from everywhere among them, are led away, at most; of several places as many of
each."""

LED, DRAWN = 8, 4
"""Steps of a first way away, by which it is seen how far each number moves: beside some that move farther than all
others, as those of fine stripes that no image has, nothing else would be led away; and images that are drawn around
each, by which it is seen how far one moves at random."""

ALONG = 2
"""Directions in which numbers move most together, along each of which they count as one: of sixty that mix eight
stripes all move at once. With one, two or four about as many fakes are found."""

OPENED = 0.02
"""Share of what the answer lacks to an even one that it loses beyond what its own gradient does, at least: within the
steps some images are opened whole, and others not at all."""

AWAY = 0.4
"""Share of the steps that lead away; the others climb the answer's entropy from there."""

ON_THE_WAY = (0.25, 0.75)
"""How far from the numbers of one image to those of the next it is seen what the answer heeds."""

HEEDED = 0.125
"""Power of how much the answer heeds a number by which it counts. Of thirteen fakes that let a weaker network speak (16
MNIST images, l_inf .15, 30 steps) all are opened, to .34 to 1.38 nat, both ways measured so; by a power of .25 all but
four, by .5 five."""

UNHEEDED = 1e-9
"""The least that it heeds one, beside the number that it heeds most."""

STEADIER = 200.0
"""How many times as far as it moves at random a number lies apart between images, at most, where it is measured by the
former. From 50 to 600 about the same fakes are found."""

Spreads = Mapping[Place, Tensor]
"""Of each place how far its numbers (k,) lie apart: standard deviations over images, infinite of those left out."""


@dataclass(frozen=True)
class Measures:
    """Places whose numbers are led away, and what changes of these are measured by, of one after the other of them.

    Attributes:
        places: How many numbers each has.
        led: On the one way: by how far some steps lead them.
        drawn: On the other: by how far they move at random.
    """

    places: Mapping[Place, int]
    led: Whitening
    drawn: Whitening


class _Entering(Calls):
    """Keeps the first tensor that is given to some calls, and to what pools numbers that have a gradient.

    Attributes:
        found: It, by call: of one pass after the other of a program, and how many images that is of.
    """

    def __init__(self, rows: int, asked: Iterable[Number]) -> None:
        super().__init__(rows)
        self._asked = {*asked}
        self.found = defaultdict[Number, list[tuple[Tensor, int]]](list)

    def given(
        self, function: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]
    ) -> tuple[Sequence[Any], Mapping[str, Any]]:
        """Return what a function is given, as it is."""
        number, rows = self.numbered_call()
        if number in self._asked or function_name(function) in POOLS:
            first = next((leaf for leaf in tree_leaves((args, dict(kwargs))) if isinstance(leaf, Tensor)), None)
            if first is not None and (number in self._asked or first.requires_grad):
                # A copy, as it may be written into.
                self.found[number].append((first.detach().clone(), rows))
        return args, kwargs


def places_of(model: Model, images: Tensor, bending: Iterable[Number], trial: Trial) -> Spreads:
    """Return where numbers go into what bends, or pools them, and how far they lie apart.

    Args:
        model: Differentiable.
        images: (n, ...), a batch by which it is known how far numbers lie apart.
        bending: Calls of which it is known that they bend.
        trial: How.
    """
    trial.check_cancelled()
    # Made outside: within, it would be a call of its own.
    followed, entering = images.detach().requires_grad_(True), _Entering(len(images), bending)
    with torch.enable_grad(), entering:
        model(followed)
    spreads = dict[Place, Tensor]()
    for number in sorted(entering.found):
        place = Place(number, 0)
        numbers = _numbers_at(entering.found[number], len(images))
        if numbers is None or len(numbers) < 2 or numbers.shape[1] < UNITS:
            continue
        spread = apart(numbers)
        if bool((spread.isfinite() & (spread > 0)).any()):
            spreads[place] = spread
    return spreads


def distort(
    model: Model, images: Tensor, spread: Tensor, starts: Tensor, measures: Measures, steps: int, trial: Trial
) -> Tensor:
    """Return images (n, ...) in the ball at which the answer is least sure on a way that leads numbers far from theirs.

    Ascends the sum of the squares of how far the numbers at the places are from what they were, by what these changes
    are measured by; and then the answer's entropy, of logits as far apart as those of clean images are at first, and as
    they are at last. Then once more from where that is mirrored at the image, measured otherwise, and their sum: of a
    few that move farther than all others the squares are all there is.

    Args:
        model: Differentiable.
        images: (n, ...).
        spread: (n,) how far the scores of the answer to each lie apart.
        starts: (n, ...) first iterates, in the ball: at the images themselves nothing leads away.
        measures: Of the places; of one that is not there, or with other numbers, nothing is led away.
        steps: Gradient steps, of either way.
        trial: Of what the attack is.
    """
    return _Away(model, images, measures.places, trial).distort(spread, starts, measures, steps)


class _Away:
    """A model whose answer has beside it what is at some places: (n, classes + numbers).

    Attributes:
        classes: Of the model.
    """

    def __init__(self, model: Model, images: Tensor, places: Mapping[Place, int], trial: Trial) -> None:
        self._model, self._images, self._places, self._trial = model, images, places, trial
        trial.check_cancelled()
        before = self(images.detach())
        self.classes = before.shape[1] - sum(places.values())
        self._before = before[:, self.classes :]

    def __call__(self, images: Tensor) -> Tensor:
        # With gradients, as when the calls were numbered: some networks take other ways without.
        followed = images if images.requires_grad else images.detach().requires_grad_(True)
        with torch.enable_grad():
            logits, found = with_kept(self._model, followed, self._places)
            numbers = [_whole(found[at], count, images, len(self._places)) for at, count in self._places.items()]
        beside = torch.cat([logits.double(), *numbers], 1)
        return beside if images.requires_grad else beside.detach()

    def moved(self, found: Tensor, indices: Tensor) -> Tensor:
        """Return how far numbers (n, k) are from those of images."""
        return found[:, self.classes :] - self._before[indices]

    def led(self, starts: Tensor, scales: Tensor, steps: int) -> tuple[Tensor, Tensor]:
        """Return how far numbers move on a short way that leads them far: at its end (n, k), and at all steps.

        Args:
            starts: (n, ...) first iterates.
            scales: (k,) by what they are measured.
            steps: Of the way.
        """
        path = list[Tensor]()

        def near(found: Tensor, indices: Tensor, progress: float = 1.0) -> Tensor:
            return -(self.moved(found, indices) / scales).square().sum(1)

        def seen(found: Tensor, indices: Tensor) -> Tensor:
            path.append(self.moved(found, indices))
            return near(found, indices)

        end = self._search(steps).run(
            self, self._images, near, seen, starts=starts, check_cancelled=self._trial.check_cancelled
        )
        return self.at(end.best), torch.cat(path)

    def at(self, images: Tensor) -> Tensor:
        """Return how far numbers (n, k) are from those of images at other images (n, ...)."""
        self._trial.check_cancelled()
        return self.moved(self(images), torch.arange(len(images), device=images.device))

    def distort(self, spread: Tensor, starts: Tensor, measures: Measures, steps: int) -> Tensor:
        """Return what :func:`distort` does."""
        temperatures = spread.unsqueeze(1) / NARROW

        def run(starts: Tensor, measure: Whitening, power: int) -> Descent:
            def loss(found: Tensor, indices: Tensor, progress: float = 1.0) -> Tensor:
                if progress < AWAY:
                    return -measure(self.moved(found, indices)).abs().pow(power).sum(1)
                cooled = (1 - progress) / (1 - AWAY)
                return -entropy(found[:, : self.classes] / temperatures[indices] ** cooled)

            check = self._trial.check_cancelled
            return self._search(steps).run(self, self._images, loss, loss, starts=starts, check_cancelled=check)

        images, trial = self._images, self._trial
        one = run(starts, measures.led, 2)
        # As far away is the other way, which may be the one that opens something.
        region = make_region(trial.norm, images, trial.epsilon, trial.box)
        other = run(region.step(2 * images - one.best, torch.zeros_like(images), 0.0), measures.drawn, 1)
        return torch.where(per_example(one.value <= other.value, images), one.best, other.best)

    def _search(self, steps: int) -> MomentumPGD:
        return MomentumPGD(self._trial.norm, self._trial.epsilon, steps, box=self._trial.box)


def opening_distortion(
    openings: Openings, starts: Tensor, drawn: Sequence[Tensor], spreads: Spreads
) -> Measures | None:
    """Return the places whose numbers, led far away, leave the answer less sure than otherwise; None: there are none.

    Each is tried at few images first, then the later half of them together, and those by which the answer loses most in
    earnest.

    Args:
        openings: Of a few images (m, ...) with which they are tried.
        starts: (m, ...) in the balls around them.
        drawn: (m, ...) each, likewise: by which it is seen how far numbers move at random.
        spreads: Of the places.
    """
    model, some, trial = openings.model, openings.images, openings.trial
    if not len(some) or not spreads:
        return None
    size, places = -(-len(spreads) // PLACES), [*spreads]
    groups = [places[at : at + size] for at in range(0, len(places), size)]
    if len(groups) > 2:
        groups.append(places[len(places) // 2 :])
    parts = [{place: _few(spreads[place], len(group)) for place in group} for group in groups]
    lasts = [group[-1] for group in groups]
    heeded = heeded_of(model, some, [*dict.fromkeys(lasts)], trial)
    few, near = some[:AT_FIRST], [images[:AT_FIRST] for images in (starts, *drawn)]
    answer, short = Tried(model, few, trial), min(openings.steps, max(SHORT, ALL_STEPS // len(parts)))

    def tried() -> Iterator[tuple[float, Measures]]:
        for part, last in zip(parts, lasts, strict=True):
            away = _Away(model, few, {place: len(of) for place, of in part.items()}, trial)
            measures = _measures(away, near, part, heeded.get(last), min(LED, short))
            end = away.distort(answer.spread, near[0], measures, short)
            yield answer.moved_at(end)[0], measures

    # Of each there may be a great many numbers: only the best are kept.
    best = [measures for _, measures in heapq.nlargest(EARNEST, tried(), key=lambda of: of[0])]
    ends = [distort(model, some, openings.spread, starts, measures, openings.steps, trial) for measures in best]
    at = openings.opening(ends, is_surer=False, least=OPENED)
    return None if at is None else best[at]


def _measures(away: _Away, near: Sequence[Tensor], spreads: Spreads, heeded: Tensor | None, steps: int) -> Measures:
    """Return what the changes of the numbers at some places are measured by.

    Args:
        away: With these places beside its answer.
        near: (n, ...) each, in the balls: first iterates, and images that are drawn.
        spreads: Of the places.
        heeded: (k,) by how much the answer heeds the numbers of the last of them; None: it is not known.
        steps: By which they are led away.
    """
    scales = torch.cat([*spreads.values()])
    *_, last = spreads.values()
    weights = torch.ones_like(scales)
    heeded = None if heeded is None else _few(heeded, len(spreads))
    if heeded is not None and heeded.shape == last.shape and float(most := heeded.amax()) > 0:
        weights[-len(last) :] = ((heeded / most).clamp_min(UNHEEDED) ** HEEDED).to(weights)
    end, path = away.led(near[0], scales, steps)
    drawn = torch.cat([away.at(images) for images in near[1:]])
    led = torch.maximum(scales, _rms(end)) / weights
    steady = torch.maximum(scales / STEADIER, _rms(drawn))
    return Measures(
        {place: len(of) for place, of in spreads.items()},
        whitening(path, led, ALONG),
        whitening(drawn, steady, ALONG),
    )


def _rms(changes: Tensor) -> Tensor:
    """Return the root mean square (k,) of changes (n, k)."""
    return changes.square().mean(0).sqrt()


def heeded_of(model: Model, images: Tensor, places: Sequence[Place], trial: Trial) -> Mapping[Place, Tensor]:
    """Return by how much each number (k,) at a place changes the answer on the way from one image to the next.

    Without the places of which that is not known.
    """
    followed = images.detach().requires_grad_(True)
    trial.check_cancelled()
    with torch.enable_grad():
        logits, found = with_kept(model, followed, places)
    predicted, heeded = logits.argmax(1, keepdim=True), dict[Place, Tensor]()
    for place in places:
        own = [(tensor.detach(), rows) for tensor, rows in found[place]]
        if not own or any(numbers_of(*of) is None for of in own):
            continue
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
                continue
            slopes = torch.autograd.grad(lead.sum(), [tensor for tensor, _ in put], allow_unused=True)
            for slope, (tensor, rows), (other, _) in zip(slopes, own, others, strict=True):
                if slope is not None and (numbers := numbers_of(slope * (other - tensor), rows)) is not None:
                    changes.append(numbers.double().abs().nan_to_num(nan=0.0, posinf=0.0).mean(0))
        if changes and len({of.shape for of in changes}) == 1:
            heeded[place] = some_of(torch.stack(changes).mean(0, keepdim=True), MOST)[0]
    return heeded


def _numbers_at(found: Sequence[tuple[Tensor, int]], rows: int) -> Tensor | None:
    """Return the numbers of each image (rows, k) at a place, some of many; None where it has none of each."""
    numbers = together(found)
    return some_of(numbers[:rows], MOST) if numbers is not None and len(numbers) >= rows else None


def _few(of: Tensor, places: int) -> Tensor:
    """Return what there is of each number at a place (k,), of as many as it may have beside other places."""
    return some_of(of.unsqueeze(0), MOST // places)[0]


def _whole(found: Sequence[tuple[Tensor, int]], count: int, images: Tensor, places: int) -> Tensor:
    """Return the numbers of images at one of some places (n, count); zeros where there are none, or others."""
    numbers = _numbers_at(found, len(images))
    numbers = None if numbers is None else some_of(numbers, MOST // places)
    if numbers is None or numbers.shape[1] != count:
        return torch.zeros(len(images), count, dtype=torch.float64, device=images.device)
    # A score that is masked out lies infinitely far behind.
    return torch.where(numbers.isfinite(), numbers, 0.0).double()
