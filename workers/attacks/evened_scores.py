"""Which of the scores inside a network an attack is worth: those by whose evenness its answer changes.

A network may compute much that looks like scores of the classes, so that whoever attacks the first of them attacks
decoys. But what waits for scores to be level shows when they are made so in its place, whatever an image is: the
answer becomes unsure, or another one. That of a decoy stays. And where more decide so than can be attacked, those are
worth it first that a few steps level most.
"""

import itertools
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.utils._pytree import tree_map_only

from workers.attacks.gradients import Model
from workers.attacks.idle import Numbered
from workers.attacks.inner_scores import FoundScores, InnerScores, beside_answer, views_of
from workers.attacks.losses import entropy
from workers.attacks.momentum import MomentumPGD
from workers.attacks.tried import EVEN, NARROW, UNSURE, Changed, Trial, Tried, evened, spread_of

SHARES = (0.35, 0.25, 0.15, 0.1, 0.05, 0.02)
"""Of how far scores lie from their mean over the classes that are left, in turn: a network may wait for some classes to
be level, and not for more."""

ENDS = (SHARES[-1],)
"""The same of what may be no scores."""

OTHERS = 8
"""Of what may be no scores, tried at most."""

STEPS = 8
"""Of the attack that sees which can be made level."""


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
