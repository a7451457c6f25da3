"""Whether what is done inside a network opens its answer, beside what the answer's own gradient reaches."""

from collections.abc import Sequence
from functools import cached_property

from torch import Tensor

from workers.attacks.closed_gates import ClosedGate, follow
from workers.attacks.gradients import Model
from workers.attacks.losses import entropy
from workers.attacks.momentum import MomentumPGD
from workers.attacks.tried import NARROW, UNSURE, Trial, Tried


class Openings:
    """An answer, and how far it moves otherwise.

    Args:
        model: Differentiable.
        images: (n, ...), a few with which it is tried.
        steps: Of either way.
        trial: How.
        gate: Of the network, by which it is to be more sure than so; None: it has none.
    """

    def __init__(self, model: Model, images: Tensor, steps: int, trial: Trial, gate: ClosedGate | None = None) -> None:
        self._model, self._images, self._steps, self._trial, self._gate = model, images, steps, trial, gate
        self._least = dict[int, float]()

    def moved_at(self, images: Tensor) -> tuple[float, float]:
        """Return what :meth:`workers.attacks.tried.Tried.moved_at` does."""
        return self._tried.moved_at(images)

    def opening(self, ends: Sequence[Tensor], *, is_surer: bool = True) -> int | None:
        """Return which end makes the answer least sure, or surest, where it does more than anything else; None: none.

        Args:
            ends: (n, ...) each.
            is_surer: Whether a surer answer counts too.
        """
        moved = [self.moved_at(end) for end in ends]
        for which in range(2 if is_surer else 1):
            best = max(range(len(moved)), key=lambda at: moved[at][which])
            if moved[best][which] >= UNSURE and moved[best][which] > self._otherwise(which):
                return best
        return None

    @cached_property
    def _tried(self) -> Tried:
        return Tried(self._model, self._images, self._trial)

    def _otherwise(self, which: int) -> float:
        """Return how much less sure (0), or surer (1), it has to be: of most networks a short way does as much."""
        if which not in self._least:
            lengths, sign = (max(1, self._steps // 4), self._steps), (1, -1)[which]
            least = UNSURE + max(self.moved_at(self._along_entropy(length, sign))[which] for length in lengths)
            if self._gate is not None and which == 0:
                end = follow(self._model, self._images, self._gate, self._steps, self._trial)
                least = max(least, self.moved_at(end)[0])
            self._least[which] = least
        return self._least[which]

    def _along_entropy(self, steps: int, sign: int) -> Tensor:
        """Return where the gradient of the answer's entropy leads, up or down, however far a softmax is saturated."""
        temperatures = self._tried.spread.unsqueeze(1) / NARROW
        search = MomentumPGD(self._trial.norm, self._trial.epsilon, steps, box=self._trial.box)

        def loss(logits: Tensor, indices: Tensor, progress: float = 0.0) -> Tensor:
            return -sign * entropy(logits.double() / temperatures[indices])

        return search.run(self._model, self._images, loss, loss, check_cancelled=self._trial.check_cancelled).best
