"""A network in which something is moved to where it says nothing, to see by a few images whether its answer waits."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from workers.attacks.gradients import Model
from workers.attacks.losses import entropy
from workers.attacks.regions import Box, Norm

HALF = 0.5
"""Of how far scores lie from their mean over the classes that is left where it is seen whether they are the answer."""

UNSURE = 0.1
"""Share of what the answer lacks to an even one that it loses where it waits for scores, at least. Of two fakes behind
decoys the scores that they wait for take .98 and more, no decoy .01."""

EVEN = 0.75
"""The same of numbers that may be no scores: what a hidden layer knows is lost with it."""

LIKE_ANSWER = 0.5
"""Share of what the answer loses when it is itself half as far apart from which on scores are its own. Of those fakes
the scores that are waited for have at most .02, the copies that speak .8 and more."""

TURNED = 0.25
"""Share of the images whose predictions change, which says the same."""

AS_IT_WAS = 0.2
"""Change of an answer, as a share of how far its logits lie apart, up to which it is still the same: of ten fakes one
changes by .02 to .1 where what it waits for says half, and by .02 at most where images exchange the numbers of a gate;
of six honest networks by .2 and more in nearly all cases."""

NARROW = 4.0
"""By what the first spread of scores is divided to see how even they are."""


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
    """A network in which something is moved to where it says nothing, to see with a few images who waits for that.

    Attributes:
        spread: (n,) how far the scores of the answer to each image lie apart.
    """

    def __init__(self, model: Model, images: Tensor, trial: Trial) -> None:
        self._model, self._images, self._trial = model, images, trial
        self._clean = self._answer(model)
        self.spread = spread_of(self._clean)
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

    def hears_nothing_else(self, changed: Changed, shares: Sequence[float], least: float = UNSURE) -> bool:
        """Return whether the answer is less sure where something says next to nothing, and as it was at half of it.

        Args:
            changed: What is moved.
            shares: That are next to nothing, of which any will do.
            least: Share of what the answer lacks to an even one that it has to lose.
        """
        if not any(self._gained(self._answer(changed(share))) >= least * self._lacking for share in shares):
            return False
        return self.change(changed(HALF)) < AS_IT_WAS

    def gain(self, model: Model) -> float:
        """Return the share of what the answer lacks to an even one that it loses in another model."""
        return self._share(self._answer(model))

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

    def moved_at(self, images: Tensor) -> tuple[float, float]:
        """Return the shares that the answer loses at other images of what it lacks to an even one, and to a sure one.

        Args:
            images: (n, ...), one for each of those that it is tried with.
        """
        answer = self._answer(self._model, images)
        unsure = self._unsureness(self._clean)
        surer = -self._gained(answer) / unsure if unsure > 0 else 0.0
        return self._share(answer), surer if math.isfinite(surer) else 0.0

    def _answer(self, model: Model, images: Tensor | None = None) -> Tensor:
        self._trial.check_cancelled()
        asked = self._images if images is None else images
        # With gradients, as when the tensors were numbered: some networks take other ways without.
        with torch.enable_grad():
            return model(asked.detach().requires_grad_(True)).detach().double()

    def _turned(self, answer: Tensor) -> bool:
        return bool((answer.argmax(1) != self._clean.argmax(1)).double().mean() >= TURNED)

    def _share(self, answer: Tensor) -> float:
        gained = self._gained(answer) / self._lacking if self._lacking > 0 else 0.0
        return gained if math.isfinite(gained) else 0.0

    def _gained(self, answer: Tensor) -> float:
        return self._unsureness(answer) - self._unsureness(self._clean)

    def _unsureness(self, answer: Tensor) -> float:
        """Return the mean entropy of logits (n, classes), as far apart as the margins of clean ones are.

        However far a softmax is saturated: what makes every answer a hundred times as large hides nothing.
        """
        return float(entropy(answer * NARROW / self.spread.unsqueeze(1)).mean())
