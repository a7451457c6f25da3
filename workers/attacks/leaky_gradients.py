"""Gradients that go through units that are off, a little, as of leaky rectifiers.

A network may have a robust one's answer vetoed by units that hear another, weaker one. They are on wherever that sees
another class, so that nothing is dormant and nothing is idle; and off, without a gradient, at every image of the class
that they veto and all around it, but for images that are made on purpose. With some of the gradient let through, the
answer's own leads there, by as much as each unit would change it: units beside that change next to nothing mislead
nobody. Of a network that hides nothing it leads nowhere that its own gradient does not.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from torch import Tensor

from workers.attacks.gradients import Model
from workers.attacks.idle import Numbered
from workers.attacks.leak import let_through
from workers.attacks.openings import Openings, climb
from workers.attacks.switching import CLIPPING, RECTIFIERS, function_name
from workers.attacks.tried import Trial

SLOPES = (0.02, 0.1)
"""Shares of a gradient that are let through, each tried. Of five fakes with such a veto (16 MNIST images, l_inf .15, 30
steps) .02 reaches 1.14 to 1.65 nat and .1 .23 to .95, of a PGD-trained network .04 as without."""


class _Leaking(Numbered):
    """Lets a share of the gradients of functions that bend through, whatever they return."""

    def __init__(self, rows: int, slope: float) -> None:
        super().__init__(rows)
        self._slope = slope
        self._before: Tensor | None = None

    def given(
        self, function: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]
    ) -> tuple[Sequence[Any], Mapping[str, Any]]:
        """Return what a function is given, as it is."""
        first = args[0] if args else kwargs.get("input")
        is_bent = function_name(function) in RECTIFIERS | CLIPPING
        # A copy, as it may be written into.
        self._before = first.clone() if is_bent and isinstance(first, Tensor) and first.requires_grad else None
        return args, kwargs

    def computed(self, name: str, given: Sequence[Tensor], found: Any) -> Any:
        """Return what was found, with a gradient of what was given."""
        before, self._before = self._before, None
        if before is None or not isinstance(found, Tensor) or found.shape != before.shape:
            return found
        return let_through(found, before, self._slope)


def leaky(model: Model, slope: float) -> Model:
    """Return a model with the same outputs whose gradients go through units that are off."""

    def logits(images: Tensor) -> Tensor:
        if not images.requires_grad:
            return model(images)
        with _Leaking(len(images), slope):
            return model(images)

    return logits


def climb_leaking(model: Model, images: Tensor, spread: Tensor, slope: float, steps: int, trial: Trial) -> Tensor:
    """Return images (n, ...) in the ball at which the answer is least sure, by such gradients of its entropy.

    Args:
        model: Differentiable.
        images: (n, ...).
        spread: (n,) how far the scores of the answer to each lie apart.
        slope: Share of a gradient that is let through.
        steps: Gradient steps.
        trial: Of what the attack is.
    """
    return climb(leaky(model, slope), images, spread, steps, trial, is_cooled=True)


def leaking_slope(openings: Openings) -> float | None:
    """Return the share by which the answer is less sure than by as many steps up its entropy; None: there is none.

    Args:
        openings: Of a few images with which it is tried.
    """
    if not len(openings.images):
        return None
    model, some, spread = openings.model, openings.images, openings.spread
    ends = [climb_leaking(model, some, spread, slope, openings.steps, openings.trial) for slope in SLOPES]
    at = openings.opening(ends, is_surer=False)
    return None if at is None else SLOPES[at]
