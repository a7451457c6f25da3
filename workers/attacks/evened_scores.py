"""Which of the scores inside a network an attack is worth: those by whose evenness its answer changes.

A network may compute much that looks like scores of the classes, so that whoever attacks the first of them attacks
decoys. But what waits for scores to be level shows when they are made so in its place, whatever an image is: the
answer becomes unsure, or another one. That of a decoy stays. And where more decide so than can be attacked, those are
worth it first that a few steps level most.
"""

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.utils._pytree import tree_map_only

from workers.attacks.gradients import Model
from workers.attacks.idle import Numbered
from workers.attacks.inner_scores import FoundScores, InnerScores, beside_answer, views_of
from workers.attacks.losses import entropy
from workers.attacks.momentum import MomentumPGD
from workers.attacks.regions import Box, Norm

HALF = 0.5
"""Of how far scores lie from their mean over the classes that is left where it is seen whether they are the answer."""

SHARES = (0.35, 0.25, 0.15, 0.1, 0.05, 0.02)
"""Of how far scores lie from their mean over the classes that are left, in turn: a network may wait for some classes to
be level, and not for more."""

ENDS = (SHARES[-1],)
"""The same of what may be no scores."""

UNSURE = 0.1
"""Share of what the answer lacks to an even one that it loses where it waits for scores, at least. Of two fakes behind
decoys the scores that they wait for take .98 and more, no decoy .01."""

EVEN = 0.75
"""The same of numbers that may be no scores: what a hidden layer knows is lost with it."""

OTHERS = 8
"""Of what may be no scores, tried at most."""

LIKE_ANSWER = 0.5
"""Share of what the answer loses when it is itself half as far apart from which on scores are its own. Of those fakes
the scores that are waited for have at most .02, the copies that speak .8 and more."""

TURNED = 0.25
"""Share of the images whose predictions change, which says the same."""

AS_IT_WAS = 0.2
"""Change of an answer, as a share of how far its logits lie apart, up to which it is still the same: of ten fakes one
changes by .02 to .1 where what it waits for says half, and by .02 at most where images exchange the numbers of a gate;
of six honest networks by .2 and more in nearly all cases."""

STEPS, NARROW = 8, 4.0
"""Of the attack that sees which can be made level, and by what the first spread of scores is divided to see how even
they are."""


@dataclass(frozen=True)
class Trial:
    """How scores are tried.

    Attributes:
        norm: Of the perturbation.
        epsilon: Radius, in pixels' units.
        box: Least and greatest valid pixel.
        check_cancelled: Called before every forward pass; may raise.
    """

    norm: Norm
    epsilon: float
    box: Box
    check_cancelled: Callable[[], None]


Group = tuple[InnerScores, ...]
"""Scores that are made even together."""


def worth_attacking(model: Model, images: Tensor, scores: FoundScores, most: int, trial: Trial) -> list[Group]:
    """Return some of the scores inside a network, first those for whose evenness its answer waits.

    By themselves, or together those that are computed of no others: it may wait until all of several are level. Where
    it waits for none, those that decide as it does.

    Args:
        model: Differentiable.
        images: (n, ...), a few.
        scores: Of it.
        most: That are returned, at most.
        trial: How they are tried.
    """
    alone: list[Group] = [(place,) for place in scores.agreeing]
    if not scores.others and len(alone) <= 1:
        return alone[:most]
    tried = _TriedScores(model, images, trial)
    agreeing = [group for group in alone if tried.waits(tried.evened(group), SHARES, UNSURE)]
    others: list[Group] = [(of,) for of in scores.others[:OTHERS] if tried.waits(tried.evened((of,)), ENDS, EVEN)]
    for groups in (agreeing, others):
        if len(groups) > 1:
            groups.sort(key=tried.movement, reverse=True)
    together: Group = tuple(of for of in scores.earliest if not tried.is_own(tried.evened((of,))))
    if len(together) > 1 and tried.waits(tried.evened(together), SHARES, UNSURE):
        # In the last place: one of them may be enough, or all it takes.
        most -= 1
    else:
        together = ()
    # In turn, as neither may be what it looks like.
    found = [group for pair in itertools.zip_longest(agreeing, others) for group in pair if group is not None]
    found = [*found, *(group for group in alone if group not in found)][:most]
    return [*found, together] if together else found


def with_evened(model: Model, group: Group, share: float, classes: int) -> Model:
    """Return a model some of whose inner scores are nearer to each other, their means over the classes the same.

    Args:
        model: Images to logits.
        group: The scores.
        share: Of how far they lie from that mean which is left.
        classes: Of the model.
    """

    def changed(images: Tensor) -> Tensor:
        with _Evened(len(images), group, share, classes):
            return model(images)

    return changed


def evened(scores: Tensor, share: float) -> Tensor:
    """Return scores (n, classes) a share as far from their mean over the classes."""
    mean = scores.mean(1, keepdim=True)
    return mean + (scores - mean) * share


def spread_of(scores: Tensor) -> Tensor:
    """Return how far scores (n, classes) of each lie apart (n,), at least the least number there is."""
    return scores.detach().double().std(1).clamp_min(torch.finfo(torch.float32).tiny)


def directions(vectors: Tensor) -> Tensor:
    """Return vectors (n, k) of length 1; of length 0 where they have none."""
    lengths: Tensor = vectors.norm(dim=1, keepdim=True)
    return vectors / lengths.clamp_min(torch.finfo(vectors.dtype).tiny)


Changed = Callable[[float], Model]
"""By the share that is left of how far something inside is from saying nothing, the model in which it is so near."""


class Tried:
    """A network in which something is moved to where it says nothing, to see with a few images who waits for that."""

    def __init__(self, model: Model, images: Tensor, trial: Trial) -> None:
        self._model, self._images, self._trial = model, images, trial
        self._clean = self._answer(model)
        self._spread = spread_of(self._clean).unsqueeze(1)
        self._half = self._gained(evened(self._clean, HALF))
        self._lacking = math.log(self._clean.shape[1]) - self._unsureness(self._clean)

    def waits(self, changed: Changed, shares: Sequence[float], least: float) -> bool:
        """Return whether the answer changes, and what is moved is not its own.

        Args:
            changed: What is moved.
            shares: That are left, of which each is looked at.
            least: Share of what the answer lacks to an even one that it has to lose.
        """
        for share in shares:
            answer = self._answer(changed(share))
            # What a hidden layer knows is lost with it: what may be no scores has to make the answer even.
            if self._gained(answer) >= least * self._lacking or (least < EVEN and self._turned(answer)):
                return not self.is_own(changed)
        return False

    def hears_nothing_else(self, changed: Changed, shares: Sequence[float]) -> bool:
        """Return whether the answer is less sure where something says next to nothing, and as it was at half of it.

        Args:
            changed: What is moved.
            shares: That are next to nothing, of which any will do.
        """
        if not any(self._gained(self._answer(changed(share))) >= UNSURE * self._lacking for share in shares):
            return False
        return self.change(changed(HALF)) < AS_IT_WAS

    def gain(self, model: Model) -> float:
        """Return the share of what the answer lacks to an even one that it loses in another model."""
        gained = self._gained(self._answer(model)) / self._lacking if self._lacking > 0 else 0.0
        return gained if math.isfinite(gained) else 0.0

    def change(self, model: Model) -> float:
        """Return by how much another model's answer differs, as a share of how far its logits lie apart, on average."""
        other, clean = (logits - logits.mean(1, keepdim=True) for logits in (self._answer(model), self._clean))
        change = float(((other - clean).norm(dim=1) / clean.norm(dim=1)).mean())
        return change if math.isfinite(change) else math.inf

    def redirection(self, model: Model) -> float:
        """Return by how much another model's answer points elsewhere, whatever its length: 0 to 2, on average."""
        other, clean = (logits - logits.mean(1, keepdim=True) for logits in (self._answer(model), self._clean))
        change = float((directions(other) - directions(clean)).norm(dim=1).mean())
        return change if math.isfinite(change) else math.inf

    def is_own(self, changed: Changed) -> bool:
        """Return whether it is the answer's own: half as far, it does to it about what that itself would.

        Then its gradient follows it.
        """
        return self._gained(self._answer(changed(HALF))) >= LIKE_ANSWER * self._half

    def unsureness(self, images: Tensor) -> float:
        """Return the mean entropy of the answers to other images, one for each of those."""
        return self._unsureness(self._answer(self._model, images))

    def _answer(self, model: Model, images: Tensor | None = None) -> Tensor:
        self._trial.check_cancelled()
        asked = self._images if images is None else images
        # With gradients, as when the tensors were numbered: some networks take other ways without.
        with torch.enable_grad():
            return model(asked.detach().requires_grad_(True)).detach().double()

    def _turned(self, answer: Tensor) -> bool:
        return bool((answer.argmax(1) != self._clean.argmax(1)).double().mean() >= TURNED)

    def _gained(self, answer: Tensor) -> float:
        return self._unsureness(answer) - self._unsureness(self._clean)

    def _unsureness(self, answer: Tensor) -> float:
        """Return the mean entropy of logits (n, classes), as far apart as the margins of clean ones are.

        However far a softmax is saturated: what makes every answer a hundred times as large hides nothing.
        """
        return float(entropy(answer * NARROW / self._spread).mean())


class _TriedScores(Tried):
    """The same with scores."""

    def evened(self, group: Group) -> Changed:
        """Return the model with scores that are nearer to each other."""
        return lambda share: with_evened(self._model, group, share, self._clean.shape[1])

    def movement(self, group: Group) -> float:
        """Return how much more even a few steps make scores: what their mean entropy gains, at their first spread."""
        classes, images = self._clean.shape[1], self._images
        spread, first = torch.ones(2, len(images), dtype=torch.float64, device=images.device)

        def unevenness(logits: Tensor, indices: Tensor, progress: float) -> Tensor:
            scores = logits[:, classes:].double()
            if progress == 0:
                spread[indices] = spread_of(scores) / NARROW
                first[indices] = -entropy(scores.detach() / spread[indices].unsqueeze(1))
            return -entropy(scores / spread[indices].unsqueeze(1))

        found = MomentumPGD(self._trial.norm, self._trial.epsilon, STEPS, box=self._trial.box).run(
            beside_answer(self._model, *group),
            images,
            unevenness,
            lambda logits, indices: unevenness(logits, indices, 1.0),
            check_cancelled=self._trial.check_cancelled,
        )
        return float((first - found.value).mean())


class _Evened(Numbered):
    """Moves scores in some tensors towards their mean over the classes."""

    def __init__(self, rows: int, group: Group, share: float, classes: int) -> None:
        super().__init__(rows)
        self._group, self._share, self._classes = group, share, classes

    def computed(self, name: str, given: Sequence[Tensor], found: Any) -> Any:
        """Return what was found, those tensors changed."""
        return tree_map_only(Tensor, self._alter, found)

    def _alter(self, tensor: Tensor) -> Tensor:
        number, rows = self.numbered()
        asked = [place.view for place in self._group if place.number == number]
        if not asked:
            return tensor
        altered = tensor.detach().clone()
        views = views_of(altered, rows, self._classes)
        for view in asked:
            if view < len(views):
                views[view].copy_(evened(views[view], self._share))
        return altered.requires_grad_(tensor.requires_grad)
