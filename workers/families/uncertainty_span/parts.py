"""Attacks on the parts of a predictive entropy: what passes are unsure of, and what they disagree on.

The paper's future work. Each part is attacked by itself, up and down, by the gradients of the part, which the entropy's
do not follow: where two sure members begin to disagree, the entropy of each stays what it was.
"""

import math
from collections.abc import Sequence
from functools import cached_property

import torch
from torch import Tensor

from seatrial.contracts.passes import Part
from seatrial.families.uncertainty_span.effort import budget
from seatrial.families.uncertainty_span.params import UncertaintySpanParams
from seatrial.families.uncertainty_span.parts import HIGHEST, LOWEST
from workers.attacks.autoattack.square import Square
from workers.attacks.entropy_range import ANNEALED, EntropyRange, margin_temperature
from workers.attacks.gradients import Loss
from workers.attacks.levels import is_on_grid
from workers.attacks.losses import entropy, margin
from workers.attacks.momentum import ChangingLoss, Descent, MomentumPGD
from workers.attacks.objectives import Objective
from workers.attacks.parts import PARTS, largest_part
from workers.attacks.regions import Region, make_region
from workers.families.contexts import Batch, Columns, ImageContext
from workers.families.uncertainty_span.further import (
    CERTAIN,
    FIRST_SQUARES,
    LOST,
    PACE,
    level_radius,
    to_levels,
)
from workers.families.uncertainty_span.passes import logits_of_passes
from workers.families.uncertainty_span.span import attack_with, make_search
from workers.models import box_of
from workers.models.memory import forward
from workers.models.passes import mixed


def attack_part(
    part: Part, params: UncertaintySpanParams, context: ImageContext, batch: Batch
) -> tuple[Columns, Tensor]:
    """Attack one part on one batch, both ways.

    Returns:
        ``part_clean``, ``part_lowest`` and ``part_highest``; the last two with ``gradient_`` before them of what
        followed the gradients of the part, and, but for effort quick, with ``score_`` of searches that followed none;
        ``zero_gradient_share_`` of either way; ``passes`` and ``classes``. And which examples had an output that is not
        finite (batch,).
    """
    attack = PartAttack(part, params, context, batch)
    shares = attack.by_plain_gradients()
    attack.by_momentum()
    searched = attack.by_scores()
    found = {"part_clean": attack.value(attack.clean)}
    for name, reach in (("gradient_", attack.reach), ("score_", searched)):
        if reach is not None:
            found |= {f"{name}{LOWEST}": reach.lowest[0], f"{name}{HIGHEST}": reach.highest[0]}
    whole = attack.reach.copy()
    if searched is not None:
        whole.take_in(searched)
        attack.climb_from_scores(whole)
    found |= {LOWEST: whole.lowest[0], HIGHEST: whole.highest[0]} | shares
    for name, number in (("passes", attack.clean.shape[1]), ("classes", attack.clean.shape[2])):
        found[name] = torch.full_like(batch.labels, number)
    return found, whole.non_finite


class PartAttack:
    """The attacks on one part of one batch.

    Args:
        part: Which.
        params: Of the check.
        context: Of the shard.
        batch: The examples.

    Attributes:
        clean: (batch, passes, classes) logits.
        reach: What attacks by gradients reached.
    """

    def __init__(self, part: Part, params: UncertaintySpanParams, context: ImageContext, batch: Batch) -> None:
        self._part, self._params, self._context, self._batch = part, params, context, batch
        self.value, self._model = PARTS[part], logits_of_passes(context)
        self.clean = forward(self._model, batch.images)
        self.reach = EntropyRange(self.clean, measure=self.value)
        self._budget = budget(params.effort, params.steps)
        self._found = batch.images
        """Where the search by scores raised the part most."""

    @cached_property
    def _highest(self) -> float:
        """The criterion at which a search that raises the part is done with an example."""
        _, count, classes = self.clean.shape
        return -(1 - LOST) * largest_part(self._part, count, classes)

    def by_plain_gradients(self) -> Columns:
        """Descend and ascend the part itself, as the paper's attacks do the entropy; return what gradients were 0."""
        shares: Columns = {}
        search = make_search(self._params, self._context)
        for arm, objective in (
            ("over", self._objective(1.0, self.reach.lowering(), 0.0)),
            ("under", self._objective(-1.0, self.reach.raising(), self._highest)),
        ):
            run = attack_with(search, self._context, self._batch, f"{self._part} {arm}")
            outcome = run(objective, self._model)
            shares[f"zero_gradient_share_{arm}"] = outcome.zero_gradient_steps.double() / outcome.steps.clamp_min(1)
        return shares

    def by_momentum(self) -> None:
        """Go on through temperatures that fall, from other starts, and along the decision boundary of the mean."""
        if self._budget is None:
            return
        steps, raising, lowering = self._budget, self.reach.raising(), self.reach.lowering()
        annealed = self._annealed()
        self._descend(steps.climb, annealed, raising, goal=self._highest, step=1.0)
        for start in range(steps.starts):
            drawn = self._region().draw(self._generators(f"start {start}"))
            self._descend(steps.climb, annealed, raising, goal=self._highest, starts=drawn)
        # Members part where their mean is torn between two classes.
        mean = mixed(self.clean).argmax(1)
        torn = self._descend(
            steps.cross, lambda logits, indices, progress: margin(mixed(logits), mean[indices]).abs(), raising
        )
        self._descend(steps.refine, self._plain(-1.0), raising, goal=self._highest, step=0.25, starts=torn.best)
        self._descend(steps.sure, self._plain(1.0), lowering, goal=CERTAIN)
        # What is sure has neither part.
        self._descend(steps.sure, lambda logits, indices, progress: entropy(mixed(logits)), lowering, goal=CERTAIN)

    def by_scores(self) -> EntropyRange | None:
        """Search by squares, which no model can hide its gradients from; None for effort quick."""
        if self._budget is None:
            return None
        alone, images = EntropyRange(self.clean, measure=self.value), self._batch.images
        box = box_of(self._context.classifier)
        # A model could answer by rote whatever is between the grey values of 8 bits.
        on_levels = level_radius(self._params, images) if is_on_grid(images, box) else None
        model = self._model if on_levels is None else lambda at: self._model(to_levels(at))
        for name, queries, score, goal in (
            ("under", self._budget.queries, alone.raising(), self._highest),
            ("over", max(1, self._budget.queries // 5), alone.lowering(), CERTAIN),
        ):
            found = Square(
                self._params.norm,
                self._params.epsilon if on_levels is None else on_levels,
                queries,
                p_init=FIRST_SQUARES,
                pace=PACE,
                box=box,
            ).search(
                model,
                images,
                score,
                goal=goal,
                generators=self._generators(f"squares {name}"),
                check_cancelled=self._context.check_cancelled,
            )
            if name == "under":
                self._found = found.images
        return alone

    def climb_from_scores(self, whole: EntropyRange) -> None:
        """Raise the part by its gradients from where the search by scores ended; ``whole`` sees it."""
        if self._budget is None:
            raise AssertionError("unreachable: no search by scores was run")
        self._descend(
            self._budget.refine, self._plain(-1.0), whole.raising(), goal=self._highest, step=0.25, starts=self._found
        )

    def _objective(self, sign: float, seen: Loss, floor: float) -> Objective:
        return Objective(
            loss=lambda logits, indices: sign * self.value(logits),
            criterion=lambda logits, indices: seen(logits[:, 0], indices),
            floor=floor,
        )

    def _plain(self, sign: float) -> ChangingLoss:
        return lambda logits, indices, progress: sign * self.value(logits)

    def _annealed(self) -> ChangingLoss:
        """Return the negative part of logits whose temperature falls to 1: where passes are sure it has no slope."""
        _, count, _ = self.clean.shape
        begin = margin_temperature(self.clean.flatten(0, 1)).view(-1, count).amax(1).double().clamp_min(1.0)

        def loss(logits: Tensor, indices: Tensor, progress: float) -> Tensor:
            temperatures = begin[indices] ** max(0.0, 1.0 - progress / ANNEALED)
            return -self.value(logits.double() / temperatures.view(-1, 1, 1))

        return loss

    def _region(self) -> Region:
        return make_region(
            self._params.norm, self._batch.images, self._params.epsilon, box_of(self._context.classifier)
        )

    def _generators(self, purpose: str) -> Sequence[torch.Generator]:
        return self._context.generators(f"{self._part} {purpose}", self._batch.example_ids)

    def _descend(
        self,
        steps: int,
        loss: ChangingLoss,
        seen: Loss,
        *,
        goal: float = -math.inf,
        step: float = 0.5,
        starts: Tensor | None = None,
    ) -> Descent:
        box = box_of(self._context.classifier)
        return MomentumPGD(self._params.norm, self._params.epsilon, steps, step=step, box=box).run(
            self._model,
            self._batch.images,
            loss,
            seen,
            goal=goal,
            starts=starts,
            check_cancelled=self._context.check_cancelled,
        )
