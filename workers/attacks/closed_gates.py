"""Parts of a network that hardly decide until another part of it is undecided, and an attack that follows them.

A network that hears another one only where that is undecided may have what the other knows told by no score of a
class: by sums, products or eigenvalues of some, and computed in the same tensors as the answer. But it is told by
something: a gate, which hardly matters until it opens, so that images may exchange its numbers. Where all that a gate
is computed of says nothing, the other network is undecided, and the gate open. So the gate is computed of tensors that
are moved to where they say nothing, whatever else is computed of them, and the answer changes; and on the way back from
there, a little at a time, its gradient leads to images at which the gate stays open (a homotopy).
"""

from dataclasses import dataclass

import torch
from torch import Tensor

from workers.attacks.altered_passes import Cut, Place, found_at, with_put
from workers.attacks.gradients import Model
from workers.attacks.losses import entropy
from workers.attacks.momentum import MomentumPGD
from workers.attacks.regions import off_edges
from workers.attacks.tried import Trial

NEARER = 0.1
"""Share of the way from where it says nothing that is left at the first step. Of nine fakes whose network inside tells
what it knows by no score of a class, an attack reaches .70 to .86 nat with it (40 MNIST images, l_inf .15, 30
steps)."""

OFF_EDGES = 0.001
"""How far from the least and the greatest pixel images are asked about on the way, as a share of what lies between."""


@dataclass(frozen=True)
class ClosedGate:
    """What hardly decides, and what it is computed of.

    Attributes:
        places: Of the gate: those whose numbers, exchanged together, leave the answer as it was.
        cut: Tensors that it is computed of.
    """

    places: tuple[Place, ...]
    cut: Cut


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
    least, greatest = trial.box

    def changed(progress: float) -> Model:
        silenced = with_silenced(model, gate, NEARER ** (1 - progress))
        return lambda shown: silenced(off_edges(shown, trial.box, OFF_EDGES * (greatest - least)))

    return search.run(
        model,
        images,
        lambda logits, indices, progress: -entropy(logits.double()),
        # What is left on the way is no answer: none is better than another.
        lambda logits, indices: torch.zeros(len(logits), dtype=torch.float64, device=logits.device),
        changing=changed,
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
        return with_put(model, images, found_at(model, images, gate.places, gate.cut, share))

    return changed
