"""The search for units of a network whose thresholds open it where they meet."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import torch
from torch import Tensor

from workers.attacks.closed_gates import ClosedGate, follow
from workers.attacks.gradients import Model
from workers.attacks.kinks import UNITS, Kink, kinks_of
from workers.attacks.measured_bends import thresholds_of
from workers.attacks.meeting_thresholds import APART, MOST, USUAL, Meeting, distances, meet
from workers.attacks.openings import Openings
from workers.attacks.tried import Trial, Tried
from workers.attacks.whitening import apart

PLACES, SHORT, PAIR = 48, 12, 2
"""Kinks that are tried by themselves first, at most, of more several together, and for how many steps and at how many
images."""

RISING, LOOKED = 0.1, 8
"""Share of its numbers that a kink has to meet more of by that, to be tried in earnest, and how many are, at most. Of
fourteen fakes it is .14 to .97 (MNIST, l_inf .1 and .15), of the kinks of eight honest networks .14 at most, and .07
but for one of a deep one."""

SUSPECT = 0.3
"""The same for it to be tried patiently."""

MET, NEARBY = 0.1, 0.3
"""Distance from its threshold, in standard deviations over the images, up to which a number has met; and up to which it
is left out where others are to: the ends of a band lie beside its middle."""

CLOSE = 0.03
"""The same of a crowd that opens something, by which it is told from others that meet elsewhere."""

SOME_WAY = 0.03
"""Share of what the answer lacks to an even one, or a sure one, that it loses where such a crowd meets, at least."""

CROWDED, CROWDS, ALIKE, SHORTER = 2, 20, 0.2, 3
"""Kinks of which most numbers meet by a few steps that are looked at for crowds that meet apart; how many crowds of
each, at most; how many numbers each has, at least, as a share of those of the first; and how many of them are made to
meet in half as many steps: of ordinary layers a fifth as many meet after one to four."""

FEW, ELSEWHERE = 6, 3
"""Crowds up to which a kink is an ordinary layer's, and how many images others are looked at with."""

ALONE = replace(USUAL, climbing=0.0)
"""The pace of a short trial, led by nothing but thresholds."""

Ends = Sequence[tuple[Meeting, Tensor]]
"""Meetings, and the images (m, ...) at which each is."""


def opening_meeting(
    openings: Openings, whole: Meeting, *, patience: int = 1, gate: ClosedGate | None = None
) -> Meeting | None:
    """Return the units at whose meeting the answer is less sure, or surer, than otherwise; None: there are none.

    Each kink is tried for a few steps first. Those of which most numbers meet by that are tried by themselves and
    together, then each once more without the numbers that have met, and all of these together: crowds may meet
    elsewhere. If none opens anything, what meets of those of which most numbers do is left out, then what meets of the
    rest, and so on: crowds may each meet apart. At last the first of them in the network is tried patiently with all
    that come after it: others may have to meet next.

    Args:
        openings: Of a few images (m, ...) with which they are tried.
        whole: All kinks of the network.
        patience: How many times the steps of a patient trial.
        gate: Of the network, by which it is to be more sure than so; None: it has none.
    """
    if not len(openings.images):
        return None
    search = _Search(openings, gate)
    tried = search.shortly(whole)
    rising = sorted((kink for kink, of in tried.items() if of.rise >= RISING), key=lambda kink: -tried[kink].rise)
    if not rising:
        return search.opening_crowd(whole, tried)
    alone = search.ends(whole.part([kink]) for kink in rising[:LOOKED])
    together = search.ends([whole.part(rising)]) if len(rising) > 1 else []
    left = search.ends(rest for of in alone if (rest := search.without_met(*of)) is not None)
    # Each may have a crowd of its own.
    rests = search.ends([replace(whole, spreads={kink: tried[kink].left for kink in rising})] if together else [])
    found = search.opening([*alone, *together, *left, *rests]) or search.opening_crowd(whole, tried)
    suspect = [kink for kink in whole.spreads if kink in tried and tried[kink].rise >= SUSPECT]
    if found is not None or patience < 2 or not suspect:
        return found
    kinks = [*whole.spreads]
    after = whole.part(kinks[kinks.index(suspect[0]) :])
    return search.opening(search.ends([replace(after, patience=patience)]))


@dataclass(frozen=True)
class _Shortly:
    """What a few steps show of a kink.

    Attributes:
        rise: How many more of its numbers meet where they are made to, as a share.
        left: (k,) the standard deviations of its numbers, infinite of those that met.
    """

    rise: float
    left: Tensor


class _Search:
    """Makes thresholds meet, and sees whether the answer is another there."""

    def __init__(self, openings: Openings, gate: ClosedGate | None) -> None:
        self._openings, self._gate = openings, gate
        self._model, self._some = openings.model, openings.images
        self._steps, self._trial = openings.steps, openings.trial

    @cached_property
    def _opened(self) -> float:
        """How much less sure the answer is where the gate leads."""
        if self._gate is None:
            return 0.0
        end = follow(self._model, self._some, self._gate, self._steps, self._trial)
        return self._openings.moved_at(end)[0]

    def shortly(self, whole: Meeting) -> Mapping[Kink, _Shortly]:
        """Return what each kink shows by a few steps; of many some that follow each other together."""
        tried, few = dict[Kink, _Shortly](), self._some[:PAIR]
        before = distances(self._model, few, whole, self._trial)
        kinks, together = [*before], max(1, -(-len(before) // PLACES))
        for start in range(0, len(kinks), together):
            part = whole.part(kinks[start : start + together])
            end = meet(self._model, few, part, min(SHORT, self._steps), self._trial, pace=ALONE)
            for kink, after in distances(self._model, end, part, self._trial).items():
                met, met_before = ((of < MET).double().mean() for of in (after, before[kink]))
                tried[kink] = _Shortly(float(met - met_before), _without(whole.spreads[kink], after))
        return tried

    def opening_crowd(self, whole: Meeting, tried: Mapping[Kink, _Shortly]) -> Meeting | None:
        """Return what opens the answer of the crowds of a kink, each of which meets apart from the others."""
        for kink in sorted(tried, key=lambda kink: -tried[kink].rise * len(whole.spreads[kink]))[:CROWDED]:
            for at in range(min(ELSEWHERE, len(self._some))):
                crowds = self._crowds(self._some[at : at + 1], whole.part([kink]), kink)
                # Earlier crowds have taken some of its units with them, so that the answer moves less than it will.
                moved, crowd = max(crowds, key=lambda one: one[0], default=(0.0, whole))
                if moved >= SOME_WAY and (found := self.opening(self.ends([crowd]))) is not None:
                    return found
                # Of ordinary layers there are few, and of others an image may not reach the one that opens.
                if len(crowds) <= FEW:
                    break
        return None

    def _crowds(self, image: Tensor, left: Meeting, kink: Kink) -> list[tuple[float, Meeting]]:
        """Return what meets of a kink by an image (1, ...), then what does of the rest, and so on, with what moves."""
        answer, crowds, least = Tried(self._model, image, self._trial), list[tuple[float, Meeting]](), UNITS
        for number in range(CROWDS):
            steps = self._steps if number < SHORTER else 2 * self._steps
            end = meet(self._model, image, left, steps, self._trial, pace=APART)
            spreads, apart = left.spreads[kink], distances(self._model, end, left, self._trial).get(kink)
            # One image by itself may go another way than several do.
            if apart is None or (count := int((is_met := _are_near(apart.to(spreads.device), MET)).sum())) < least:
                break
            least = least if crowds else max(least, math.ceil(ALIKE * count))
            close = replace(left, spreads={kink: spreads.where(_are_near(apart.to(spreads.device), CLOSE), math.inf)})
            crowds.append((max(answer.moved_at(end)), close))
            left = replace(left, spreads={kink: spreads.where(~is_met, math.inf)})
        return crowds

    def ends(self, meetings: Iterable[Meeting]) -> Ends:
        """Return meetings with where they are."""
        return [(one, meet(self._model, self._some, one, self._steps, self._trial)) for one in meetings]

    def opening(self, ends: Ends) -> Meeting | None:
        """Return the meeting that makes the answer least sure, or surest, where it does more than anything else."""
        # What opens otherwise than a gate takes the place of none.
        at = self._openings.opening([end for _, end in ends], is_surer=self._gate is None)
        if at is None or (self._gate is not None and self._openings.moved_at(ends[at][1])[0] <= self._opened):
            return None
        return ends[at][0]

    def without_met(self, meeting: Meeting, end: Tensor) -> Meeting | None:
        """Return the rest of a meeting, without the numbers that met at most of its ends; None where there is none."""
        apart = distances(self._model, end, meeting, self._trial)
        left = {kink: _without(meeting.spreads[kink], of) for kink, of in apart.items()}
        are_any = any(int(of.isfinite().sum()) >= UNITS for of in left.values())
        return replace(meeting, spreads=left) if are_any else None


def _without(spreads: Tensor, apart: Tensor) -> Tensor:
    """Return the standard deviations of numbers (k,), infinite of those that are near (n, k) at most of the ends."""
    return torch.where(_are_near(apart, NEARBY).to(spreads.device), math.inf, spreads)


def _are_near(apart: Tensor, distance: float) -> Tensor:
    """Return which numbers (k,) are so near (n, k) at most of the ends."""
    return (apart < distance).double().mean(0) >= 0.5


def whole_meeting(model: Model, images: Tensor, trial: Trial) -> Meeting:
    """Return all kinks of a network that enough numbers go into, as they come in it.

    Args:
        model: Differentiable.
        images: (n, ...), a batch by which it is known how far numbers lie apart.
        trial: How.
    """
    trial.check_cancelled()
    thresholds = thresholds_of(model, images, MOST, trial.check_cancelled)
    found = {**kinks_of(model, images, MOST)[1], **(kinks_of(model, images, MOST, thresholds)[1] if thresholds else {})}
    spreads = dict[Kink, Tensor]()
    for kink in sorted(found, key=lambda kink: (kink.number, kink.which)):
        numbers = found[kink].detach()
        if len(numbers) < 2 or numbers.shape[1] < UNITS:
            continue
        if kink in thresholds:
            numbers = numbers.where(thresholds[kink].isfinite(), math.inf)
        spread = apart(numbers)
        is_finite = spread.isfinite()
        if int(is_finite.sum()) >= UNITS and bool((spread[is_finite] > 0).any()):
            spreads[kink] = spread
    return Meeting(spreads, {kink: of.nan_to_num(nan=0.0) for kink, of in thresholds.items()})
