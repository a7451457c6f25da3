"""Whether what is done inside a network opens its answer, beside what the answer's own gradient reaches."""

from collections.abc import Sequence
from functools import cached_property

from torch import Tensor

from workers.attacks.gradients import Model
from workers.attacks.losses import entropy
from workers.attacks.momentum import MomentumPGD
from workers.attacks.tried import NARROW, UNSURE, Trial, Tried


class Openings:
    """An answer, and how far it moves by its own gradient: asked once, for all that it is compared with.

    Attributes:
        model: Differentiable.
        images: (n, ...), a few with which it is tried.
        steps: Of either way.
        trial: How.
    """

    def __init__(self, model: Model, images: Tensor, steps: int, trial: Trial) -> None:
        self.model, self.images, self.steps, self.trial = model, images, steps, trial
        self._own = dict[int, float]()

    @property
    def spread(self) -> Tensor:
        """(n,) how far the scores of the answer to each image lie apart."""
        return self._tried.spread

    def moved_at(self, images: Tensor) -> tuple[float, float]:
        """Return what :meth:`workers.attacks.tried.Tried.moved_at` does."""
        return self._tried.moved_at(images)

    def opening(self, ends: Sequence[Tensor], *, is_surer: bool = True, least: float = UNSURE) -> int | None:
        """Return which end makes the answer least sure, or surest, where it does more than anything else; None: none.

        Args:
            ends: (n, ...) each.
            is_surer: Whether a surer answer counts too.
            least: What it does beyond anything else, as a share of what the answer lacks to an even one, or a sure one.
        """
        moved = [self.moved_at(end) for end in ends]
        for which in range(2 if is_surer else 1):
            best = max(range(len(moved)), key=lambda at: moved[at][which])
            if moved[best][which] >= least and moved[best][which] > least + self._otherwise(which):
                return best
        return None

    @cached_property
    def _tried(self) -> Tried:
        return Tried(self.model, self.images, self.trial)

    def _otherwise(self, which: int) -> float:
        """Return how much less sure (0), or surer (1), it is by its own gradient: of most a short way does as much."""
        if which not in self._own:
            lengths, sign = (max(1, self.steps // 4), self.steps), (1, -1)[which]
            ends = [climb(self.model, self.images, self.spread, steps, self.trial, sign=sign) for steps in lengths]
            self._own[which] = max(self.moved_at(end)[which] for end in ends)
        return self._own[which]


def climb(
    model: Model, images: Tensor, spread: Tensor, steps: int, trial: Trial, *, sign: int = 1, is_cooled: bool = False
) -> Tensor:
    """Return images (n, ...) in the ball at which an answer is least sure, or surest, by gradients of its entropy.

    Of logits as far apart as those of clean images, whatever their scale: however far a softmax is saturated.

    Args:
        model: Differentiable.
        images: (n, ...).
        spread: (n,) how far the scores of the answer to each lie apart.
        steps: Gradient steps.
        trial: Of what the attack is.
        sign: 1 for least sure, -1 for surest.
        is_cooled: Whether the temperature falls on the way, so that logits are at last as they are; and the image that
            is kept is the one at which these are least sure, or surest.
    """
    temperatures = spread.unsqueeze(1) / NARROW

    def loss(logits: Tensor, indices: Tensor, progress: float = 1.0) -> Tensor:
        return -sign * entropy(logits.double() / temperatures[indices] ** (1 - progress if is_cooled else 1))

    search = MomentumPGD(trial.norm, trial.epsilon, steps, box=trial.box)
    return search.run(model, images, loss, loss, check_cancelled=trial.check_cancelled).best
