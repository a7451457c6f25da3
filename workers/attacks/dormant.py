"""Units of a network that no clean image switches, and changes of an image that do.

A network can carry another one that a trigger lets out. What waits for the trigger is dormant on clean images (Liu,
Dolan-Gavitt and Garg 2018, "Fine-Pruning: Defending Against Backdooring Attacks on Deep Neural Networks", section III),
and adds nothing to the gradient of the logits. The gradient of what goes into the unit leads to the trigger all the
same, and whoever has the weights can follow it. Where a network decides by few numbers these are followed both ways,
dormant or not: one clean image in ten may have the trigger.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from itertools import zip_longest

import torch
from torch import Tensor

from workers.attacks.gradients import Model
from workers.attacks.integrated import IntegratedSearch
from workers.attacks.losses import entropy
from workers.attacks.regions import Norm, Region, make_region, per_example
from workers.attacks.switches import NARROW, Inputs, inputs_of
from workers.models import Box
from workers.models.memory import forward

BEYOND, CLOSER = 0.5, 0.002
"""How far beyond where it switches a unit is pushed, in shares of the distance from there, and of that share at every
further step: what has gone through an opening is brought back to it."""

LEAST = 1e-5
"""Share of the first distance that a unit is pushed beyond in any case: more than what float32 rounds off."""

CHANNELS = 64
"""Of a place that are looked at for how far they are moved, at most."""

WIDTH = 32
"""Bottlenecks that are followed, at most, of either way."""


@dataclass(frozen=True)
class Unit:
    """One input of a function that switches, or one of few numbers that everything after has to come through.

    Attributes:
        place: Which call of such a function in a forward pass, counted from 0.
        channel: Which of its channels; of a transformer's tokens, which of their features.
        sign: 1 where the input has to rise to switch it, -1 where it has to fall; 2 and -2 where it is to do so
            wherever the channel is, as far as the radius reaches.
        switches: Whether anything is known to change at 0.
    """

    place: int
    channel: int
    sign: int
    switches: bool = field(default=True, compare=False)


Group = tuple[Unit, ...]
"""Units to be switched together."""


def dormant_units(
    model: Model, images: Tensor, most: int, *, batch_size: int, check_cancelled: Callable[[], None]
) -> tuple[list[Unit], frozenset[str]]:
    """Return the units that none of ``images`` switches, of every place as many as it has and there is room for.

    Beside them what could not be followed (:class:`workers.attacks.switches.Seen`).

    Of places that have few units, also those that some images switch, and others do not, either way, and bottlenecks;
    these come first.

    Args:
        model: Images (n, ...) to logits.
        images: (n, ...).
        most: Units, at most.
        batch_size: Images at once.
        check_cancelled: Called before every forward pass; may raise.
    """
    ends: list[Inputs | None] = []
    cut = frozenset[str]()
    for number, part in enumerate(torch.split(images, batch_size)):
        check_cancelled()
        seen = inputs_of(model, part.detach().requires_grad_(True))
        cut |= seen.cut
        if number == 0:
            ends = seen.places
        if len(seen.places) != len(ends):
            cut |= {"rows"}
        else:
            ends = [_widest(old, new) for old, new in zip(ends, seen.places, strict=True)]
    first, bottlenecks, wide = list[list[Unit]](), list[Unit](), list[list[Unit]]()
    for place, inputs in enumerate(ends):
        if inputs is None or inputs.is_pooled:
            continue
        high, low = inputs.greatest.amax(0), inputs.least.amin(0)
        if not inputs.switches:
            bottlenecks += [Unit(place, channel, sign, False) for channel in range(len(high)) for sign in (1, -1)]
            continue
        rising, falling = (low <= 0, high > 0) if inputs.is_narrow else (high <= 0, low > 0)
        # What is masked out cannot be switched.
        is_finite = low.isfinite() & high.isfinite()
        rising, falling = rising & is_finite, falling & is_finite
        units = [Unit(place, channel, 1) for channel in rising.nonzero().flatten().tolist()]
        units += [Unit(place, channel, -1) for channel in falling.nonzero().flatten().tolist()]
        (first if inputs.is_narrow else wide).append(units)
    return [*_in_turn(first), *bottlenecks[: 2 * WIDTH], *_in_turn(wide)][:most], cut


def reached_units(
    model: Model,
    images: Tensor,
    most: int,
    norm: Norm,
    channels: int,
    within: Tensor,
    *,
    check_cancelled: Callable[[], None],
) -> list[Unit]:
    """Return channels that the radius moves farthest, beside how far they lie apart among the images, either way.

    What waits for a pattern lies near to nothing on all images, and the pattern moves it as no image does. It is moved
    wherever the channel is, since one of many places may change nothing by itself.

    Args:
        model: Images (n, ...) to logits.
        images: (n, ...).
        most: Units, at most.
        norm: Of the radius.
        channels: That are looked at, from the images on.
        within: (k, ...) drawn within the radius of images, where it is looked how far they are moved: a channel may
            lie still at an image itself.
        check_cancelled: Called before every pass; may raise.
    """
    check_cancelled()
    spreads = [_means(inputs) for inputs in inputs_of(model, images.detach().requires_grad_(True)).places]
    spreads = [None if means is None else means.detach().std(0) for means in spreads]
    check_cancelled()
    moved = within.detach().requires_grad_(True)
    places = zip(spreads, map(_means, inputs_of(model, moved).places), strict=False)
    looked = [
        (place, channel, means[:, channel].sum(), float(spread[channel]))
        for place, (spread, means) in enumerate(places)
        if spread is not None and means is not None
        for channel in range(min(CHANNELS, len(spread)))
    ]
    reach = list[tuple[float, int, int]]()
    for place, channel, mean, spread in looked[:channels]:
        if not (spread > 0 and mean.requires_grad):
            continue
        check_cancelled()
        (slope,) = torch.autograd.grad(mean, moved, retain_graph=True)
        flat = slope.nan_to_num(nan=0.0).flatten(1)
        length = flat.abs().sum(1) if norm == "linf" else flat.norm(dim=1)
        reach.append((float(length.mean()) / spread, place, channel))
    farthest = sorted(reach, key=lambda one: (-one[0], one[1:]))[: most // 2]
    return [Unit(place, channel, 2 * sign, False) for _, place, channel in farthest for sign in (1, -1)]


def _means(inputs: Inputs | None) -> Tensor | None:
    """Return the mean of each channel (n, channels) of a place that switches; None of any other."""
    return inputs.mean if inputs is not None and inputs.switches else None


def _in_turn(places: list[list[Unit]]) -> list[Unit]:
    return [unit for units in zip_longest(*places) for unit in units if unit is not None]


def _widest(old: Inputs | None, new: Inputs | None) -> Inputs | None:
    """Return the greatest and the least of two batches, as one row."""
    if old is None or new is None or old.greatest.shape[1] != new.greatest.shape[1]:
        return None
    ends = torch.cat([old.greatest, new.greatest]).detach(), torch.cat([old.least, new.least]).detach()
    return replace(old, greatest=ends[0].amax(0, keepdim=True), least=ends[1].amin(0, keepdim=True), mean=None)


@dataclass(frozen=True)
class Switching:
    """How units are switched.

    Attributes:
        norm: Of the radius.
        epsilon: How far an image may be changed.
        steps: Lengths of the steps along the gradient of what goes into a unit, as shares of the radius.
        box: Least and greatest value an input may have.
        check_cancelled: Called before every step; may raise.
        farthest: How far a single pixel goes, at most, where a channel is moved wherever it is.
        points: Parts of a pixel's range at which the channel's slope is taken for that.
        after: Lengths of the steps that it takes from there along its slope, as shares of the radius.
        along: Lengths of those that it takes along its slope from the image itself.
    """

    norm: Norm
    epsilon: float
    steps: Sequence[float]
    box: Box
    check_cancelled: Callable[[], None]
    farthest: float
    points: int
    after: Sequence[float] = ()
    along: Sequence[float] = ()

    def run(self, model: Model, images: Tensor, groups: Sequence[Group], starts: Tensor | None = None) -> Tensor:
        """Return images (n, ...) within the radius, each changed towards where all units of a group switch.

        A single unit is gone towards by as much as its slope says, a group and what switches nothing by the steps'
        lengths. A channel that is moved wherever it is may ask each pixel for a level of its own, which no slope at the
        image leads to: from the images, pixels go where slopes from all over the radius add up to most, and on along
        the slope there. Or it asks for what neighbours make together, which no pixel's own slope leads to: the images
        go along its slope from where they are, too, and what moves it farther of the two is returned.

        Args:
            model: Differentiable.
            images: (n, ...).
            groups: One for each image.
            starts: (n, ...) where to begin, within the radius; None: the images.
        """
        everywhere = [row for row, group in enumerate(groups) if len(group) == 1 and abs(group[0].sign) > 1]
        if starts is None and everywhere:
            found = images.clone()
            found[everywhere] = self._everywhere(model, images[everywhere], [groups[row][0] for row in everywhere])
            if others := [row for row in range(len(groups)) if row not in everywhere]:
                found[others] = self.run(model, images[others], [groups[row] for row in others])
            return found
        region = make_region(self.norm, images, self.epsilon, self.box)
        by_place: dict[int, list[tuple[int, int, int]]] = {}
        for row, group in enumerate(groups):
            for unit in group:
                by_place.setdefault(unit.place, []).append((row, unit.channel, unit.sign))
        asked = {place: torch.tensor(found, device=images.device).T for place, found in by_place.items()}
        is_single = torch.tensor([len(group) == 1 for group in groups], device=images.device)
        # What was switched before is near to it, and may have been where there is little room.
        beyond = BEYOND if starts is None else 0.0
        moved, distances = (images if starts is None else starts).detach(), dict[int, Tensor]()
        for number, share in enumerate(self.steps):
            self.check_cancelled()
            moved.requires_grad_(True)
            left, missing = [], torch.full((len(images),), torch.inf, dtype=images.dtype, device=images.device)
            for place, inputs in enumerate(inputs_of(model, moved).places):
                if inputs is None or place not in asked:
                    continue
                rows, channels, signs = asked[place]
                if int(channels.max()) >= inputs.greatest.shape[1]:
                    continue
                towards, alone = inputs.towards(rows, channels, signs), is_single[rows]
                now = towards.detach()
                distances.setdefault(place, now.abs().clamp_min(1e-12))
                # In shares of its own distance, and none that is there already.
                shares = towards / distances[place]
                if inputs.switches:
                    alone = alone & (signs.abs() == 1)
                    limited = torch.where(alone, shares.clamp(max=0), shares.clamp(max=BEYOND))
                    shares = torch.where(signs.abs() > 1, shares, limited)
                    short = (1 + beyond * CLOSER**number) * now.abs() / distances[place] + LEAST
                    short = torch.where(now > 0, 0, short)
                    missing[rows[alone]] = short[alone].to(missing)
                left.append(shares.sum())
            if not left:
                break
            (gradient,) = torch.autograd.grad(torch.stack(left).sum(), moved, allow_unused=True)
            if gradient is None:
                break
            moved = self._step(region, images, moved.detach(), gradient.nan_to_num(nan=0.0), missing, share)
        return moved.detach()

    def _everywhere(self, model: Model, images: Tensor, units: Sequence[Unit]) -> Tensor:
        """Return images (n, ...) in which the channel of one unit each is moved as far as the radius reaches."""
        rows = torch.arange(len(images), device=images.device)
        channels, signs = torch.tensor([(unit.channel, unit.sign) for unit in units], device=images.device).T

        def asked(moved: Tensor, indices: Tensor) -> Tensor:
            places = inputs_of(model, moved if moved.requires_grad else moved.detach().requires_grad_(True)).places
            # A channel that is not there in this pass is nowhere.
            values = moved.new_zeros(len(moved))
            for row, at in enumerate(indices.tolist()):
                inputs = places[units[at].place] if units[at].place < len(places) else None
                if inputs is not None and units[at].channel < inputs.greatest.shape[1]:
                    values[row] = -inputs.towards(rows[[row]], channels[[at]], signs[[at]])[0]
            return values

        search = IntegratedSearch(self.norm, self.epsilon, self.farthest, 1, self.points, 0, box=self.box)
        # The same draws for all of them, so that it does not matter which are together.
        generators = [torch.Generator().manual_seed(0) for _ in units]
        found = search.run(
            lambda moved: moved,
            images,
            asked,
            goal=-math.inf,
            generators=generators,
            check_cancelled=self.check_cancelled,
        )
        groups, everyone = [(unit,) for unit in units], torch.arange(len(units), device=images.device)
        # What pixels do together is near where each does by itself, or on the way from the image.
        found = replace(self, steps=self.after).run(model, images, groups, found)
        if not self.along:
            return found
        other = replace(self, steps=self.along).run(model, images, groups, images)
        self.check_cancelled()
        is_farther = asked(other, everyone) < asked(found, everyone)
        return torch.where(per_example(is_farther, other), other, found)

    def _step(
        self, region: Region, images: Tensor, moved: Tensor, gradient: Tensor, missing: Tensor, share: float
    ) -> Tensor:
        """Return images after a step of a share of the radius, or of what makes up for what is missing (n,)."""
        lower, upper = self.box
        if self.norm == "linf":
            lower, upper = (images - self.epsilon).clamp(min=lower), (images + self.epsilon).clamp(max=upper)
        # What is at its end already goes nowhere.
        gradient = gradient * ~(((moved <= lower) & (gradient < 0)) | ((moved >= upper) & (gradient > 0)))
        flat = gradient.flatten(1)
        slopes = (flat.abs().sum(1) if self.norm == "linf" else flat.norm(dim=1)).clamp_min(1e-30)
        lengths = (missing / slopes).clamp(max=2 * self.epsilon)
        lengths = torch.where(missing.isfinite(), lengths, share * self.epsilon)
        direction = gradient.sign() if self.norm == "linf" else gradient / per_example(slopes, gradient)
        moved = moved + per_example(lengths, moved) * direction
        return region.step(moved, torch.zeros_like(moved), 0.0)

    def most_decisive(
        self, model: Model, images: Tensor, groups: Sequence[Group], most: int, *, batch_size: int
    ) -> list[Group]:
        """Return those of ``groups`` whose switching moves the answer most, the most decisive first.

        How far one moves it is the mean over ``images`` of how much the entropy changes, in shares of log C, and of how
        often the prediction does. Every other one is chosen by how much the logits change for the length of what is
        added to the image: what opens at a small change need not change the answer by itself.

        Args:
            model: Differentiable.
            images: (n, ...) on which they are tried.
            groups: Candidates.
            most: Groups, at most.
            batch_size: Images at once.
        """
        if not groups:
            return []
        clean = forward(model, images)
        entropies, predictions, log_classes = entropy(clean), clean.argmax(1), math.log(clean.shape[1])
        rows = torch.arange(len(images), device=images.device).repeat(len(groups))
        repeated = [group for group in groups for _ in range(len(images))]
        moves, ratios = [], []
        for begin in range(0, len(rows), batch_size):
            at = rows[begin : begin + batch_size]
            switched = self.run(model, images[at], repeated[begin : begin + batch_size])
            logits = forward(model, switched)
            changed = (entropy(logits) - entropies[at]).abs() / log_classes
            moves.append(changed + (logits.argmax(1) != predictions[at]))
            length = (switched - images[at]).flatten(1).norm(dim=1).clamp_min(1e-9)
            ratios.append((logits - clean[at]).norm(dim=1) / length)
        ranks = []
        for values in (moves, ratios):
            by_group = torch.cat(values).nan_to_num(nan=0.0, posinf=0.0).view(len(groups), len(images)).mean(1)
            order = by_group.argsort(descending=True, stable=True).tolist()
            ranks.append([groups[at] for at in order if by_group[at] > 0])
        in_turn = (group for pair in zip_longest(*ranks) for group in pair if group is not None)
        return list(dict.fromkeys(in_turn))[:most]


def groups_of(units: Sequence[Unit], most: int) -> list[Group]:
    """Return what is tried of units: each by itself, each place's together, those of narrow places, and all of them.

    Args:
        units: Dormant ones.
        most: Groups, at most: units by themselves are left out where there are too many.
    """
    places: dict[int, list[Unit]] = {}
    for unit in units:
        if unit.switches:
            places.setdefault(unit.place, []).append(unit)
    narrow = [unit for found in places.values() if len(found) <= NARROW for unit in found]
    every = tuple(unit for unit in units if unit.switches)
    together = [every, tuple(narrow), *(tuple(found) for found in places.values())]
    together = [group for group in dict.fromkeys(together) if len(group) > 1][:most]
    # Alone first: of those that move the answer as much, the first are kept.
    return [(unit,) for unit in units[: most - len(together)]] + together
