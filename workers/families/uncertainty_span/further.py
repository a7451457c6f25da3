"""What the further attacks of a check share: their budget, the entropies they reach, their searches and records."""

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from seatrial.families.uncertainty_span.effort import COPIES, LONGER, Budget, budget
from seatrial.families.uncertainty_span.params import UncertaintySpanParams
from seatrial.families.uncertainty_span.records import CHANGED
from workers.attacks.annealed import AnnealedPGD
from workers.attacks.autoattack.square import Square
from workers.attacks.entropy_range import EntropyRange
from workers.attacks.levels import ON_GRID
from workers.attacks.losses import entropy
from workers.attacks.momentum import ChangingLoss, Descent, MomentumPGD
from workers.attacks.regions import Region, make_region
from workers.families.contexts import Batch, Columns, ImageContext
from workers.models import GREY_LEVELS, Box, box_of
from workers.models.memory import forward

SURROGATE = "surrogate"
"""The stage that fits the surrogate and the calibrated temperature."""

MARGIN = "margin"
"""Column of its records: what the largest clean logit is ahead by. Records from before it was kept have none."""

CERTAIN, LOST = 1e-4, 1e-3
"""Nats below which an example cannot be made surer, and share of log C that it may lack to the least sure: it is
finished and leaves."""

FIRST_SQUARES, PACE = 0.3, 5.0
"""Of the score-based search: the share of the image that the first squares cover, and how much faster they shrink than
in 10,000 queries. With 300 queries it reaches 0.85 nat where the published 0.8 and 1 reach 0.58 (an MNIST CNN, l_inf
0.1)."""

GAUSSIAN = 4.0
"""Radii of an l_2 ball, divided by the root of the number of pixels, that a noisy copy's unit is: as far as the l_inf
radii in use go, beside the l_2 radii in use."""


FLAT_MARGIN = 5.0
"""Nats between the two largest logits of the sample's median clean image, scaled for an ascent through narrowing noise:
the fewer, the more classes it makes likely at once. Of thirteen images of a PGD-trained MNIST model in l_2 2, eight
such ascents reach 1.51 nat with 5 to 6 and 1.49 with 4 or 7; 1.40 where each image's own margin is scaled to 5. What
counts are the logits far from the image: a clean margin of 1 leaves them as they are, one of 25 makes them flat."""

FAR, NEAR = (1.0, 0.35), (0.7, 0.35)
"""Standard deviations of the narrowing noise, from an image and from where another attack ended, as shares of what a
noisy copy's unit is (:func:`pixel_radius`)."""


@dataclass
class FurtherAttack:
    """One further attack on one batch.

    Attributes:
        params: Of the check.
        context: Of the shard.
        batch: The examples.
        budget: Steps and queries.
        temperatures: 1, and the calibrated temperature where there is one.
        clean: (batch, classes) logits.
        reach: Entropies seen, at each of the temperatures.
        flat: Temperature of ascents through narrowing noise, at least 1.
    """

    params: UncertaintySpanParams
    context: ImageContext
    batch: Batch
    budget: Budget
    temperatures: tuple[float, ...]
    clean: Tensor
    reach: EntropyRange
    flat: float

    @classmethod
    def begin(cls, params: UncertaintySpanParams, context: ImageContext, batch: Batch) -> "FurtherAttack":
        """Return the attack that has seen the clean images alone.

        Raises:
            ValueError: The effort of the parameters has no further attacks.
        """
        steps = budget(params.effort, params.steps)
        if steps is None:
            raise ValueError(f"effort {params.effort} has no further attacks")
        temperatures = temperatures_of(params, context)
        clean = forward(context.classifier.logits, batch.images)
        reach, flat = EntropyRange(clean, temperatures), flat_temperature(context)
        return cls(params, context, batch, steps, temperatures, clean, reach, flat)

    @property
    def predictions(self) -> Tensor:
        """(batch,) classes predicted of the clean images."""
        return self.clean.argmax(1)

    def likeliest(self, rank: int) -> Tensor:
        """Return the classes (batch,) at a rank of the clean logits; 0 is the predicted one."""
        return self.clean.argsort(dim=1, descending=True, stable=True)[:, rank]

    @property
    def classes(self) -> int:
        """Number of logits."""
        return self.clean.shape[1]

    @property
    def highest(self) -> float:
        """The criterion at which an attack that raises the entropy is done with an example."""
        return -(1 - LOST) * math.log(self.classes)

    def model(self, images: Tensor) -> Tensor:
        """Return the logits of the model under audit."""
        return self.context.classifier.logits(images)

    def generators(self, purpose: str) -> list[torch.Generator]:
        """Return one generator per example."""
        return self.context.generators(purpose, self.batch.example_ids)

    @property
    def box(self) -> Box:
        """Least and greatest value that an input may have."""
        return box_of(self.context.classifier)

    def region(self) -> Region:
        """Return the balls around the images."""
        return make_region(self.params.norm, self.batch.images, self.params.epsilon, self.box)

    def descend(
        self,
        steps: int,
        loss: ChangingLoss,
        criterion: Callable[[Tensor, Tensor], Tensor],
        *,
        step: float = 0.5,
        goal: float = -math.inf,
        starts: Tensor | None = None,
        noise: str | None = None,
        model: Callable[[Tensor], Tensor] | None = None,
    ) -> Descent:
        """Return what gradient steps with momentum find.

        Args:
            steps: How many.
            loss: What is descended.
            criterion: What ranks the iterates; one of :attr:`reach` sees them too.
            step: Length of the first half of the steps, as a share of the radius.
            goal: Criterion at which an example is finished.
            starts: First iterates; None: the images.
            noise: Purpose of the noisy copies whose gradients are followed; None: those of the image.
            model: Another model than the one under audit.
        """
        sigmas = tuple(share * pixel_radius(self.params, self.batch.images) for share in COPIES) if noise else ()
        search = MomentumPGD(self.params.norm, self.params.epsilon, steps, step=step, sigmas=sigmas, box=self.box)
        return search.run(
            model or self.model,
            self.batch.images,
            loss,
            criterion,
            goal=goal,
            starts=starts,
            generators=self.generators(noise) if noise else (),
            check_cancelled=self.context.check_cancelled,
        )

    def anneal(
        self, purpose: str, starts: Tensor | None = None, *, steps: int | None = None, is_longer: bool = False
    ) -> Tensor:
        """Raise the entropy through noise that narrows; return where that ends (batch, ...).

        What is as unsure as it can be stays where it starts.

        Args:
            purpose: Of the draws.
            starts: Where other attacks ended, to be left for no more than half as far; None: the images.
            steps: How many; None: those of the budget.
            is_longer: Whether to take more steps than that, and shorter ones.
        """
        found = (self.batch.images if starts is None else starts).clone()
        at = (-self.reach.highest[0] > self.highest).nonzero().squeeze(1)
        if len(at) == 0:
            return found

        def loss(logits: Tensor, indices: Tensor, progress: float) -> Tensor:
            return -entropy(logits.double() / self.flat)

        begin, end = (share * pixel_radius(self.params, found) for share in (FAR if starts is None else NEAR))
        search = AnnealedPGD(
            self.params.norm,
            self.params.epsilon,
            (steps or self.budget.anneal) * (LONGER if is_longer else 1),
            step=(0.5 if starts is None else 0.25) * (0.7 if is_longer else 1.0),
            sigmas=(begin, end),
            box=self.box,
        )
        generators = self.generators(purpose)
        found[at] = search.run(
            self.model,
            self.batch.images[at],
            loss,
            starts=found[at],
            generators=[generators[i] for i in at.tolist()],
            check_cancelled=self.context.check_cancelled,
        )
        return found

    def climb(self, steps: int, starts: Tensor, *, reach: EntropyRange | None = None) -> Descent:
        """Raise the entropy from where another attack ended; ``reach`` sees the iterates, by default the attack's."""

        def loss(logits: Tensor, indices: Tensor, progress: float) -> Tensor:
            return -entropy(logits.double())

        criterion = (reach or self.reach).raising(0)
        return self.descend(steps, loss, criterion, step=0.25, goal=self.highest, starts=starts)

    def ask_squares(
        self,
        queries: int,
        score: Callable[[Tensor, Tensor], Tensor],
        purpose: str,
        *,
        goal: float,
        starts: Tensor | None,
        levels: bool = False,
        first: float = FIRST_SQUARES,
    ) -> Tensor:
        """Return the best images of a score-based search.

        Args:
            queries: How many, of each image.
            score: What is lowered.
            purpose: Of the draws.
            goal: Score at which an example is finished.
            starts: First iterates; None: the images.
            levels: Whether the model is shown 8-bit images alone, where the audited ones are: a model that tells others
                by the grey values they lack could answer all the gradients' images by rote.
            first: Share of the image that the first squares cover.
        """
        epsilon = self.level_radius() if levels else None
        search = Square(
            self.params.norm,
            self.params.epsilon if epsilon is None else epsilon,
            queries,
            p_init=first,
            pace=PACE,
            box=self.box,
        )
        return search.search(
            self.model if epsilon is None else lambda images: self.model(to_levels(images)),
            self.batch.images,
            score,
            goal=goal,
            generators=self.generators(purpose),
            starts=starts,
            check_cancelled=self.context.check_cancelled,
        ).images

    def level_radius(self) -> float | None:
        """Return the radius within which rounding to 8 bits leaves an image in its ball; None where there is little."""
        if not self.context.records(SURROGATE)["on_grid"][0].as_py():
            return None
        return level_radius(self.params, self.batch.images)

    def columns(self, alone: EntropyRange | None = None) -> tuple[Columns, Tensor]:
        """Return what is recorded: the entropies reached, whether a prediction was changed, and which are not finite.

        The last (batch,) are examples that had an output which is not.

        Args:
            alone: What the attack had reached by itself, before plain gradients went on from there.
        """
        changed = self.reach.changed
        found = {"entropy_over": self.reach.lowest[0], "entropy_under": self.reach.highest[0]}
        if alone is not None:
            changed = changed | alone.changed
            found |= {"alone_entropy_over": alone.lowest[0], "alone_entropy_under": alone.highest[0]}
        found[CHANGED] = changed
        return found | calibrated_columns(self.reach), self.reach.non_finite


def level_radius(params: UncertaintySpanParams, images: Tensor) -> float | None:
    """Return the radius within which rounding 8-bit images (n, ...) leaves them in their balls; None: too little."""
    if params.norm == "linf":
        found = math.floor(params.epsilon * GREY_LEVELS + ON_GRID) / GREY_LEVELS
        return found if found > 0 else None
    found = params.epsilon - 0.5 / GREY_LEVELS * math.sqrt(images[0].numel())
    return found if found >= params.epsilon / 2 else None


def to_levels(images: Tensor) -> Tensor:
    """Return images with every pixel at the nearest of the 256 levels of 8 bits."""
    return (images * GREY_LEVELS).round() / GREY_LEVELS


def pixel_radius(params: UncertaintySpanParams, images: Tensor) -> float:
    """Return how far a single pixel may be expected to go: what noise, and the period of a mask, is measured against.

    Args:
        params: Of the check.
        images: (n, ...).
    """
    if params.norm == "linf":
        return params.epsilon
    return min(1.0, GAUSSIAN * params.epsilon / math.sqrt(images[0].numel()))


def reached_columns(reach: EntropyRange) -> Columns:
    """Return what an attack is recorded with that has seen images in but one way."""
    found = {"entropy_over": reach.lowest[0], "entropy_under": reach.highest[0], CHANGED: reach.changed}
    return found | calibrated_columns(reach)


def calibrated_columns(reach: EntropyRange) -> Columns:
    """Return the entropies reached at the calibrated temperature, where there is one."""
    if len(reach.lowest) < 2:
        return {}
    return {"calibrated_entropy_over": reach.lowest[1], "calibrated_entropy_under": reach.highest[1]}


def flat_temperature(context: ImageContext) -> float:
    """Return the temperature that brings the median clean margin to ``FLAT_MARGIN``, at least 1.

    It is that of the examples the surrogate learns from, the same at every look and however a sample is cut.
    """
    fitted = context.records(SURROGATE)
    kept = fitted[MARGIN] if MARGIN in fitted.column_names else context.records("attack")["margin_clean"]
    margins = kept.drop_null().to_numpy()
    return max(1.0, float(np.median(margins)) / FLAT_MARGIN) if len(margins) else 1.0


def temperatures_of(params: UncertaintySpanParams, context: ImageContext) -> tuple[float, ...]:
    """Return 1 and the temperature fitted to the clean logits, where there is one: none is with effort quick."""
    if params.effort == "quick":
        return (1.0,)
    fitted = context.records(SURROGATE)["temperature"][0].as_py()
    return (1.0,) if fitted is None else (1.0, float(fitted))
