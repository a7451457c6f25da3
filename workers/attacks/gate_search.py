"""The search for a gate of a network (:mod:`workers.attacks.closed_gates`), and for what it is computed of."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import islice
from typing import TypeVar

import torch
from torch import Tensor

from workers.attacks.altered_passes import Cut, Numbers, Place, found_at, numbers_of, of_one, rolled, together, with_put
from workers.attacks.closed_gates import NEARER, ClosedGate, follow, with_silenced
from workers.attacks.evened_scores import SHARES
from workers.attacks.gradients import Model
from workers.attacks.idle import Number, leading_tensors
from workers.attacks.joint_gates import Effect, cancelling, effects
from workers.attacks.regions import Box
from workers.attacks.tried import AS_IT_WAS, UNSURE, Trial, Tried

Item = TypeVar("Item")

WIDEST = 16384
"""Numbers of an image that each place of a gate has, at most, and each tensor that is moved."""

NARROW = 1024
"""Numbers of an image up to which a place is like a gate: more are it only where they matter half as much."""

HARDLY, ASKED = 0.5, 160
"""First-order effect from which on a place is no gate, and how many are asked about, at most."""

NOTHING = (SHARES[-1], NEARER)
"""Shares of the way from where it says nothing at which it is seen whether the answer waits for it."""

GATES, LOOKED, FIRST_CUTS, FOLLOWED, CUTS, TRIED = 8, 40, 6, 2, 6, 6
"""Of gates of either kind, tried at most, and of the last two kinds half as many; of cuts through what one is computed
of, looked at whether they are whole, and tried until the answer waits for one; of gates that it waits for; of the cuts
of each, tried of those that are whole and of others; and of the cuts of all followed."""

MIXED = 8
"""Images that are mixed, at most."""

UNSURE_OF_UNITS = 0.4
"""Share of what the answer lacks to an even one that it loses at least, where units of a tensor are the gate: of most
networks some units hardly turn the answer, and may do so far from any image."""

DEPENDING = 1e-3
"""Of how far a gate's numbers differ between images, the share up to which they do not, behind a cut through all."""


@dataclass(frozen=True, eq=False)
class _Computed:
    """A tensor: its number, its bit, those of all it is computed of, and its numbers (images, ...)."""

    number: Number
    bit: int
    origins: int
    numbers: Tensor


@dataclass(frozen=True, eq=False)
class _Shut:
    """What may be a gate: its places, the tensors they are computed of, and its numbers (images, ...)."""

    places: tuple[Place, ...]
    origins: frozenset[Number]
    numbers: Tensor

    @classmethod
    def of(cls, effects: Sequence[Effect]) -> "_Shut":
        """Return several places as one."""
        origins = frozenset[Number]().union(*(one.origins for one in effects))
        return cls(tuple(one.place for one in effects), origins, torch.cat([one.numbers for one in effects], 1))


def closed_gate(model: Model, images: Tensor, some: Tensor, steps: int, trial: Trial) -> ClosedGate | None:
    """Return the gate, and the cut, that lead to where the answer is least sure; None where it waits for none.

    Args:
        model: Differentiable.
        images: (n, ...), a batch in which the tensors are looked at.
        some: (m, ...), a few with which it is seen what waits.
        steps: For which a gate is followed: by fewer than an attack takes most do not open, and chance chooses.
        trial: How.
    """
    if len(some) < 2:
        # One image exchanges its numbers with itself.
        return None
    search = _Search(model, images, some, steps, trial)
    best = [found for gates in search.shut() if (found := search.opened(gates)) is not None]
    return search.farthest(best) if best else None


class _Search:
    """Looks for gates, and for the cuts through what they are computed of."""

    def __init__(self, model: Model, images: Tensor, some: Tensor, steps: int, trial: Trial) -> None:
        self._model, self._images, self._some, self._steps, self._trial = model, images, some, steps, trial
        self._tried, self._mixed = Tried(model, some, trial), mixtures(images[:MIXED], trial.box)

    @cached_property
    def _all(self) -> Tried:
        return Tried(self._model, self._images, self._trial)

    @cached_property
    def _computed(self) -> Sequence[_Computed]:
        return _computed(self._model, self._images, self._trial)

    @cached_property
    def _of_mixed(self) -> Mapping[Number, Tensor]:
        """What the tensors hold of mixtures, by number."""
        return {one.number: one.numbers for one in _computed(self._model, self._mixed, self._trial)}

    def shut(self) -> Iterator[Sequence[_Shut]]:
        """Yield what hardly decides: single places, such as do so together, such as decide how long it is, and units.

        What is added to a gate makes an answer longer or shorter, where what is taken off is another image's; and of a
        tensor that both the gate and the answer are in, some of the units are the gate's.
        """
        self._trial.check_cancelled()
        places = effects(self._model, self._some, WIDEST)
        others = rolled(self._found([of.place for of in places], {}, 1.0))

        def exchanged(of: Sequence[Effect]) -> Model:
            put = {one.place: others[one.place] for one in of}
            return lambda images: with_put(self._model, images, put)

        parts = [one for one in places if one.place.units is not None]
        places = [one for one in places if one.place.units is None]
        small = spread_out([one for one in places if one.turn < HARDLY], ASKED)
        hardly = [one for one in small if self._tried.change(exchanged([one])) < _least(one)]
        yield spread_out([_Shut.of([one]) for one in reversed(hardly)], GATES)
        deciding = [one for one in places if one not in hardly]
        yield [_Shut.of(of) for of in cancelling(deciding, GATES) if self._tried.change(exchanged(of)) < AS_IT_WAS]
        longer = [one for one in small if one not in hardly and self._tried.redirection(exchanged([one])) < _least(one)]
        yield spread_out([_Shut.of([one]) for one in reversed(longer)], GATES // 2)
        quiet = [one for one in spread_out(parts, ASKED) if self._tried.redirection(exchanged([one])) < _least(one)]
        yield spread_out([_Shut.of([one]) for one in reversed(quiet)], GATES // 2)

    def opened(self, gates: Sequence[_Shut]) -> ClosedGate | None:
        """Return a gate that the answer waits for, with the cut that leads farthest."""
        waiting = (found for gate in _parted(gates) if (found := self._opening(gate)))
        # Of two gates on the same way one cut leads as far.
        ways = {_way(one): one for of in islice(waiting, FOLLOWED) for one in of}
        return self.farthest(spread_out([*ways.values()], TRIED)) if ways else None

    def _opening(self, gate: _Shut) -> Sequence[ClosedGate]:
        """Return the cuts that the answer waits for behind a gate; none where it seems to wait for none."""
        cuts, mixed = self._cuts(gate), self._opened_by(gate)
        # Where all that a gate is computed of says nothing, it is as open as it will be.
        whole = [cut for cut in spread_out(cuts, LOOKED) if self._is_whole(gate, cut)]
        if (first := next(self._waiting(gate, spread_out(whole or cuts, FIRST_CUTS), mixed), None)) is None:
            return []
        tried = [*spread_out(whole, CUTS), *spread_out([cut for cut in cuts if cut not in whole], CUTS)]
        return [*self._waiting(gate, tried, mixed)] or [first]

    def farthest(self, some: Sequence[ClosedGate]) -> ClosedGate:
        """Return the one that leads farthest."""
        if len(some) == 1:
            return some[0]
        found = (follow(self._model, self._images, one, self._steps, self._trial) for one in some)
        ends = [self._all.moved_at(end)[0] for end in found]
        return some[max(range(len(some)), key=ends.__getitem__)]

    def _opened_by(self, gate: _Shut) -> int | None:
        """Return which of the mixtures a gate is most open for; None where for none."""
        found = self._found(gate.places, {}, 1.0, self._mixed)

        def gain(which: int) -> float:
            put = of_one(found, which, len(self._some))
            return 0.0 if put is None else self._tried.gain(lambda images: with_put(self._model, images, put))

        gains = [gain(which) for which in range(len(self._mixed))]
        return max(range(len(gains)), key=gains.__getitem__) if max(gains) >= UNSURE else None

    def _waiting(self, gate: _Shut, cuts: Sequence[Sequence[_Computed]], mixed: int | None) -> Iterator[ClosedGate]:
        """Yield the cuts that the answer waits for, by each way in which a tensor may say nothing.

        As rectified numbers do at their least, whatever is added to each of them; others at the mean of all; and
        whatever is added to them, and however they are turned, as they are where the gate is open for a mixture.
        """
        least = UNSURE_OF_UNITS if any(place.units is not None for place in gate.places) else UNSURE
        for cut in cuts:
            ways: list[Cut] = [{one.number: one.numbers.amin(0) for one in cut}, {one.number: None for one in cut}]
            if mixed is not None and all(one.number in self._of_mixed for one in cut):
                ways.append({one.number: self._of_mixed[one.number][mixed] for one in cut})
            for silent in ways:
                found = ClosedGate(gate.places, silent)
                if self._tried.hears_nothing_else(partial(with_silenced, self._model, found), NOTHING, least):
                    yield found

    def _is_whole(self, gate: _Shut, cut: Sequence[_Computed]) -> bool:
        """Return whether a gate is of nothing but a cut: it differs between no images where that says nothing."""
        found = self._found(gate.places, {one.number: one.numbers.amin(0) for one in cut}, 0.0)
        parts = [part for place in gate.places if (part := together(found[place])) is not None]
        if len(parts) < len(gate.places):
            return False
        numbers, usual = torch.cat(parts, 1).detach().double(), gate.numbers.double()
        apart = float((usual - usual.mean(0)).norm(dim=1).mean())
        return float((numbers - numbers[:1]).norm(dim=1).amax()) <= DEPENDING * apart

    def _found(self, places: Sequence[Place], cut: Cut, share: float, images: Tensor | None = None) -> Numbers:
        """Return what is at some places, computed with gradients, as when the tensors were numbered."""
        self._trial.check_cancelled()
        asked = self._some if images is None else images
        with torch.enable_grad():
            found = found_at(self._model, asked.detach().requires_grad_(True), places, cut, share)
        return {place: [(tensor.detach(), rows) for tensor, rows in of] for place, of in found.items()}

    def _cuts(self, gate: _Shut) -> list[list[_Computed]]:
        """Return what a gate is computed of at every point on the way: the last tensors, none of them of another."""
        found, last = list[list[_Computed]](), list[_Computed]()
        own = {place.number for place in gate.places if place.given is None}
        for one in self._computed:
            if one.number not in gate.origins or one.number in own:
                continue
            last = [*(before for before in last if not one.origins & before.bit), one]
            found.append(last)
        return found


def mixtures(images: Tensor, box: Box) -> Tensor:
    """Return images that are of no class, or of several: three of one value, and means of all, of halves and of two.

    Args:
        images: (n, ...).
        box: Least and greatest valid pixel.
    """
    least, greatest = box
    plain = [torch.zeros_like(images[0]) + least + share * (greatest - least) for share in (0.0, 0.5, 1.0)]
    half = max(1, len(images) // 2)
    means = [images.mean(0), images[:half].mean(0), images[half:].mean(0) if len(images) > half else images[0]]
    return torch.cat([torch.stack([*plain, *means]), (images + images.roll(1, 0)) / 2])


def _way(gate: ClosedGate) -> tuple[object, ...]:
    """Return what tells the tensors that are moved, and where to, from others."""
    return tuple((number, None if silent is None else float(silent.sum())) for number, silent in gate.cut.items())


def _computed(model: Model, images: Tensor, trial: Trial) -> list[_Computed]:
    """Return the tensors that lead to the answer and have numbers of each image, in order."""
    trial.check_cancelled()
    tensors = list[_Computed]()
    for one in leading_tensors(model, images)[1]:
        numbers = [numbers_of(*of) for of in one.found]
        narrow = [of for of in numbers if of is not None and of.shape[1] <= WIDEST]
        if narrow:
            tensors.append(_Computed(one.number, one.bits, one.origins, torch.cat(narrow)[: len(images)]))
    return tensors


def _parted(some: Sequence[Item]) -> Iterator[Item]:
    """Yield the first and the middle one, then those in the middle of what is left, and so on: far apart each time."""
    step = 1 << max(len(some) - 1, 0).bit_length()
    seen = set[int]()
    while step:
        for at in range(0, len(some), step):
            if at not in seen:
                seen.add(at)
                yield some[at]
        step //= 2


def _least(effect: Effect) -> float:
    """Return the change from which on a place decides: of the wide layers of honest networks some hardly do."""
    return AS_IT_WAS if effect.numbers.shape[1] <= NARROW else AS_IT_WAS / 2


def spread_out(some: Sequence[Item], most: int) -> Sequence[Item]:
    """Return some of many, from everywhere among them: what comes first may be there to be taken."""
    return [some[at * len(some) // most] for at in range(most)] if len(some) > most else some
