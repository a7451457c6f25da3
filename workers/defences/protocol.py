"""What a test-time defence is: the contract between those who write defences and those who attack them.

A defence turns a base classifier and the unlabelled test points of a round into the classifier that answers them
(Gamma in Chen et al., sec. 3). The attacker knows all of it but the randomness the defender draws afterwards.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Protocol, runtime_checkable

import torch
from torch import Tensor

from workers.models.adapted import Adapted as Adapted
from workers.models.adapted import Margined as Margined
from workers.models.adapted import Rejecting as Rejecting
from workers.models.image_classifier import ImageClassifier

OPTIMIZER: Final = "optimizer."
"""How the names of an optimiser's moments begin in a state. A state without them is one with a new optimiser."""


class DefenceError(Exception):
    """A defence cannot work on this model or data; the message says why and what would be right, to whoever chose it.

    It fails the attacks on that defence with its reason, and nothing else of the audit.

    Args:
        message: The reason.
        field: What of the defence's parameters is to blame, as ``changes/steps``; None: the defence itself.
    """

    def __init__(self, message: str, *, field: str | None = None) -> None:
        super().__init__(message)
        self.field = field


@dataclass(frozen=True)
class Training:
    """Labelled examples a defence may learn from, on the CPU (D of the threat model).

    Attributes:
        images: (n, channels, height, width) float32 in [0, 1].
        labels: (n,) int64.

    Raises:
        ValueError: The two do not describe the same examples.
    """

    images: Tensor
    labels: Tensor

    def __post_init__(self) -> None:
        if self.images.ndim != 4 or self.labels.shape != (len(self.images),):
            shapes = f"images {tuple(self.images.shape)}, labels {tuple(self.labels.shape)}"
            raise ValueError(f"not a labelled sample: {shapes}")

    def __len__(self) -> int:
        return len(self.images)


@dataclass(frozen=True)
class Traits:
    """What is known of a defence before it runs; the games and the attacks are chosen by it.

    Attributes:
        is_stateful: What it answers in a round depends on the rounds before.
        is_one_round: It adapts to the whole sample at once; otherwise batch by batch.
        is_randomized: The same batch with another generator may give another classifier.
        is_differentiable: Its answers have a gradient with respect to the images once adapted.
        sees_clean_half: What it adapts to are the round's clean points and then the perturbed ones, as in the
            evaluation it was published with (URejectron's x~). Its classifiers have no parameters per example.
        ignores_points: What it adapts to has no influence: the same generator gives the same classifier (TADV).
    """

    is_stateful: bool
    is_one_round: bool
    is_randomized: bool
    is_differentiable: bool
    sees_clean_half: bool = False
    ignores_points: bool = False


@runtime_checkable
class Checking(Protocol):
    """A defence that can tell beforehand on which models it cannot work; an audit is then refused before it begins."""

    def check(self, base: ImageClassifier) -> None:
        """Do nothing, without training and in at most a few passes, where the defence can work on a model.

        Raises:
            DefenceError: It cannot, whatever the data.
        """
        ...


class Defence(Protocol):
    """A test-time defence; one instance is one defender and defends one base classifier.

    All randomness comes from the generators it is given (on the CPU), so a run is repeatable. The base is never
    changed. Long work calls the ``check_cancelled`` a defence was built with, which may raise to stop it.
    """

    @property
    def traits(self) -> Traits:
        """What it is, whatever it is run on."""
        ...

    @property
    def batch_size(self) -> int:
        """Test points of one round; a last round may have fewer. Of no meaning to one-round defences."""
        ...

    def adapt(
        self, base: ImageClassifier, training: Training | None, batch: Tensor, generator: torch.Generator
    ) -> Adapted:
        """Return the classifier that answers the points of a batch.

        Args:
            base: The model defended.
            training: Labelled examples; None where the audit has none.
            batch: (b, channels, height, width) in [0, 1], on the base's device; no labels.
            generator: On the CPU; the round's private randomness.

        Raises:
            DefenceError: The defence cannot work on this model or without training data.
        """
        ...

    def end_round(self, batch: Tensor, generator: torch.Generator) -> None:
        """Do what a defender does between having answered a batch and the next one.

        Raises:
            DefenceError: It needs a call of ``adapt`` that it has not had.
        """
        ...

    def state(self) -> dict[str, Tensor]:
        """Return a copy, on the CPU, of everything that lasts from round to round; empty for a stateless defence.

        A defender that has done nothing yet has an empty state. Left without its entries that begin with
        ``OPTIMIZER``, a state is that of a defender with the same weights and a new optimiser: what the official
        attackers' simulation goes back to.
        """
        ...

    def restore(self, state: dict[str, Tensor]) -> None:
        """Go back to a state of this or of another defender with the same hyper-parameters and base.

        Guarantee: from there on it does bit for bit what the other one would have done, on the same device.
        """
        ...


@runtime_checkable
class Preparing(Protocol):
    """A defence that begins with work which is the same for every defender of one base, as RMC's attacked examples."""

    def prepare(self, base: ImageClassifier, training: Training | None) -> dict[str, Tensor]:
        """Return all of that work as tensors by name, on the CPU: a function of the arguments and hyper-parameters.

        Raises:
            DefenceError: As ``adapt``.
        """
        ...

    def use(self, prepared: Mapping[str, Tensor]) -> None:
        """Take what ``prepare`` of an equal defender returned, which nobody may change; else ``adapt`` prepares."""
        ...


@runtime_checkable
class Remembering(Protocol):
    """A defence that can show the classifier it has between rounds: F^(0) of an attack on the next one."""

    def answering(self, base: ImageClassifier) -> Adapted:
        """Return the classifier in the state it is in, before it has seen the round's points."""
        ...
