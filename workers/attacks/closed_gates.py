"""Parts of a network that hardly decide until another part of it is undecided, and an attack that follows them.

A network that hears another one only where that is undecided may have what the other knows told by no score of a
class: by sums, products or eigenvalues of some, and computed in the same tensors as the answer. But it is told by
something: a gate, which hardly matters until it opens, so that images may exchange its numbers. Where all that a gate
is computed of says nothing, the other network is undecided, and the gate open. So the gate is computed of tensors that
are moved to where they say nothing, whatever else is computed of them, and the answer changes; and on the way back from
there, a little at a time, its gradient leads to images at which the gate stays open (a homotopy).
"""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

import torch
from torch import Tensor
from torch.utils._pytree import tree_map_only

from workers.attacks.evened_scores import AS_IT_WAS, SHARES, Trial, Tried
from workers.attacks.gradients import Model
from workers.attacks.idle import Followed, Number, Numbered
from workers.attacks.inner_scores import images_axis
from workers.attacks.losses import entropy
from workers.attacks.momentum import MomentumPGD

Item = TypeVar("Item")

NARROW_ENOUGH, WIDEST = 1024, 16384
"""Numbers of an image that a gate has, at most, and each tensor that is moved."""

NEARER = 0.1
"""Share of the way from where it says nothing that is left at the first step. Of nine fakes whose network inside tells
what it knows by no score of a class, an attack reaches .70 to .86 nat with it (40 MNIST images, l_inf .15, 30
steps)."""

NOTHING = (SHARES[-1], NEARER)
"""Shares of that way at which it is seen whether the answer waits for it."""

GATES, FIRST_CUTS, LOOKED, CUTS, TRIED = 16, 6, 160, 16, 12
"""Of gates, tried at most; of cuts through what one is computed of, tried of each gate until the answer waits for one;
of that gate looked at whether they are whole, and tried of either kind; and of those cuts the ones that are followed
for a few steps."""

DEPENDING = 1e-3
"""Of how far a gate's numbers differ between images, the share up to which they do not, behind a cut through all."""

STEPS, BEST = 12, 2
"""Of those, and how many are followed for as many times more."""


@dataclass(frozen=True)
class ClosedGate:
    """A tensor that hardly decides, and what it is computed of.

    Attributes:
        number: Of the gate.
        cut: Tensors that it is computed of, by number, and what each is moved to: (numbers of an image,), or None for
            the mean of an image's own.
    """

    number: Number
    cut: Mapping[Number, Tensor | None]


@dataclass(frozen=True, eq=False)
class _Computed:
    """A tensor: its number, its bit, those of all it is computed of, and its numbers (images, ...)."""

    number: Number
    bit: int
    origins: int
    numbers: Tensor


def closed_gate(model: Model, images: Tensor, some: Tensor, trial: Trial) -> ClosedGate | None:
    """Return the gate, and the cut, that lead to where the answer is least sure; None where it waits for none.

    Args:
        model: Differentiable.
        images: (n, ...), a batch in which the tensors are looked at.
        some: (m, ...), a few with which it is seen what waits.
        trial: How.
    """
    if len(some) < 2:
        # One image exchanges its numbers with itself.
        return None
    computed, tried = _computed(model, images, trial), Tried(model, some, trial)
    shut = [
        one
        for one in computed
        if one.numbers.shape[1] <= NARROW_ENOUGH and tried.change(_exchanged(model, one.number)) < AS_IT_WAS
    ]
    for gate in _spread(shut[::-1], GATES):
        cuts = _cuts(computed, gate)
        if (first := next(_waiting(model, tried, gate, _spread(cuts, FIRST_CUTS)), None)) is None:
            continue
        whole = [cut for cut in _spread(cuts, LOOKED) if _is_whole(model, some, gate, cut, trial)]
        asked = [*_spread(whole, CUTS), *_spread([cut for cut in cuts if cut not in whole], CUTS)]
        best = list(_spread([*_waiting(model, tried, gate, asked)] or [first], TRIED))
        # What leads far in few steps need not in more.
        for steps, most in ((STEPS, BEST), (BEST * STEPS, 1)):
            ends = [tried.unsureness(follow(model, some, one, steps, trial)) for one in best]
            best = [best[at] for at in sorted(range(len(best)), key=ends.__getitem__, reverse=True)[:most]]
        return best[0]
    return None


def follow(model: Model, images: Tensor, gate: ClosedGate, steps: int, trial: Trial) -> Tensor:
    """Return where the answer is made unsure with what a gate is computed of near to saying nothing, and ever less so.

    Args:
        model: Differentiable.
        images: (n, ...).
        gate: Of it.
        steps: Gradient steps.
        trial: Of what the attack is.
    """
    search = MomentumPGD(trial.norm, trial.epsilon, steps, step=0.25, box=trial.box)
    return search.run(
        model,
        images,
        lambda logits, indices, progress: -entropy(logits.double()),
        # What is left on the way is no answer: none is better than another.
        lambda logits, indices: torch.zeros(len(logits), dtype=torch.float64, device=logits.device),
        changing=lambda progress: with_silenced(model, gate, NEARER ** (1 - progress)),
        check_cancelled=trial.check_cancelled,
    ).final


def with_silenced(model: Model, gate: ClosedGate, share: float) -> Model:
    """Return a model whose gate is computed of what is nearer to saying nothing; all else is as it is.

    Args:
        model: Images to logits.
        gate: Of it.
        share: Of how far that is from there which is left.
    """

    def changed(images: Tensor) -> Tensor:
        with _Moved(len(images), gate, share) as moved:
            model(images)
        with _Replaced(len(images), gate.number, moved.found):
            return model(images)

    return changed


def _exchanged(model: Model, number: Number) -> Model:
    """Return a model in which the next image has the numbers of a tensor."""

    def changed(images: Tensor) -> Tensor:
        with _Moved(len(images), ClosedGate(number, {}), 1.0) as moved:
            model(images)
        rolled = [tensor.roll(1, images_axis(tensor, rows)) for tensor, rows in moved.found]
        with _Replaced(len(images), number, list(zip(rolled, [rows for _, rows in moved.found], strict=True))):
            return model(images)

    return changed


def _waiting(model: Model, tried: Tried, gate: _Computed, cuts: Sequence[Sequence[_Computed]]) -> Iterator[ClosedGate]:
    """Yield the cuts that the answer waits for, by each way in which a tensor may say nothing.

    As rectified numbers do at their least, whatever is added to each of them; others at the mean of all.
    """
    for cut in cuts:
        for silent in ({one.number: one.numbers.amin(0) for one in cut}, {one.number: None for one in cut}):
            found = ClosedGate(gate.number, silent)
            if tried.hears_nothing_else(partial(with_silenced, model, found), NOTHING):
                yield found


def _is_whole(model: Model, images: Tensor, gate: _Computed, cut: Sequence[_Computed], trial: Trial) -> bool:
    """Return whether a gate is computed of nothing but a cut: it differs between no images where that says nothing."""
    trial.check_cancelled()
    silent = ClosedGate(gate.number, {one.number: one.numbers.amin(0) for one in cut})
    with torch.enable_grad(), _Moved(len(images), silent, 0.0) as moved:
        model(images.detach().requires_grad_(True))
    found = [numbers for of in moved.found if (numbers := _numbers(of[0].detach(), of[1])) is not None]
    if not found:
        return False
    numbers, usual = torch.cat(found).double(), gate.numbers.double()
    apart = float((usual - usual.mean(0)).norm(dim=1).mean())
    return float((numbers - numbers[:1]).norm(dim=1).amax()) <= DEPENDING * apart


def _computed(model: Model, images: Tensor, trial: Trial) -> list[_Computed]:
    """Return the tensors that lead to the answer and have numbers of each image, in order."""
    trial.check_cancelled()
    followed = images.detach().requires_grad_(True)
    with torch.enable_grad(), Followed(followed) as watch:
        logits = model(followed)
    origins, bits = watch.origins(logits), defaultdict[Number, int](int)
    before, numbers = defaultdict[Number, int](int), defaultdict[Number, list[Tensor]](list)
    for bit, one in enumerate(watch.results, 1):
        own = _numbers(one.tensor.detach(), one.rows)
        if origins >> bit & 1 and one.tensor.requires_grad and own is not None and own.shape[1] <= WIDEST:
            bits[one.number] |= 1 << bit
            before[one.number] |= watch.origins(one.tensor)
            numbers[one.number].append(own)
    return [_Computed(of, bits[of], before[of], torch.cat(numbers[of])[: len(images)]) for of in numbers]


def _cuts(computed: Sequence[_Computed], gate: _Computed) -> list[list[_Computed]]:
    """Return what a gate is computed of at every point on the way: the last tensors, none of which another is of."""
    found, last = list[list[_Computed]](), list[_Computed]()
    for one in computed:
        if not gate.origins & one.bit or one.number == gate.number:
            continue
        last = [*(before for before in last if not one.origins & before.bit), one]
        found.append(last)
    return found


def _spread(some: Sequence[Item], most: int) -> Sequence[Item]:
    """Return some of many, from everywhere among them: what comes first may be there to be taken."""
    return [some[at * len(some) // most] for at in range(most)] if len(some) > most else some


class _Moved(Numbered):
    """Moves the tensors of a cut, and keeps the gate; gradients lead on.

    Attributes:
        found: The gate, of each pass, with the rows of that.
    """

    def __init__(self, rows: int, gate: ClosedGate, share: float) -> None:
        super().__init__(rows)
        self._gate, self._share = gate, share
        self.found = list[tuple[Tensor, int]]()

    def computed(self, name: str, given: Sequence[Tensor], found: Any) -> Any:
        """Return what was found, a tensor of the cut moved."""
        return tree_map_only(Tensor, self._alter, found)

    def _alter(self, tensor: Tensor) -> Tensor:
        number, rows = self.numbered()
        if number == self._gate.number:
            self.found.append((tensor, rows))
        if number not in self._gate.cut or (numbers := _numbers(tensor, rows)) is None:
            return tensor
        silent = self._gate.cut[number]
        if silent is None:
            silent = numbers.mean(1, keepdim=True)
        elif len(silent) != numbers.shape[1]:
            return tensor
        axis = images_axis(tensor, rows)
        moved = silent.to(numbers) + (numbers - silent.to(numbers)) * self._share
        return moved.reshape(tensor.movedim(axis, 0).shape).movedim(0, axis)


class _Replaced(Numbered):
    """Puts other tensors in the place of one, in each pass the next."""

    def __init__(self, rows: int, number: Number, found: Sequence[tuple[Tensor, int]]) -> None:
        super().__init__(rows)
        self._number, self._left = number, list(found)

    def computed(self, name: str, given: Sequence[Tensor], found: Any) -> Any:
        """Return what was found, or what stands for it."""
        return tree_map_only(Tensor, self._alter, found)

    def _alter(self, tensor: Tensor) -> Tensor:
        number, _ = self.numbered()
        is_its_place = number == self._number and self._left and self._left[0][0].shape == tensor.shape
        return self._left.pop(0)[0] if is_its_place else tensor


def _numbers(tensor: Tensor, rows: int) -> Tensor | None:
    """Return the numbers of each image (rows, ...) in a tensor; None where it has none of images."""
    if not tensor.is_floating_point() or tensor.dim() == 0 or tensor.numel() == 0 or tensor.numel() % rows:
        return None
    return tensor.movedim(images_axis(tensor, rows), 0).reshape(rows, -1)
