"""Hyper-parameters of the shipped defences, and the presets they come in; what adapts by them is ``workers.defences``.

``mnist`` and ``cifar10`` are those of the authors' code, ``small`` takes minutes on a CPU. Requests change them within
the ranges of :mod:`seatrial.families.shared.defence_params`; costs are counted with them.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

Preset = Literal["small", "mnist", "cifar10"]
Variant = Literal["official", "paper"]
OptimizerName = Literal["adam", "sgd"]


@dataclass(frozen=True)
class IdentityParams:
    """Hyper-parameters of no defence.

    Attributes:
        batch_size: Test points of a round; they have no influence on each other.
    """

    batch_size: int = 128

    def __post_init__(self) -> None:
        if self.batch_size < 1:
            raise ValueError(f"a round has at least one point: {self.batch_size=}")


IDENTITY: Mapping[str, IdentityParams] = {
    "mnist": IdentityParams(),
    "cifar10": IdentityParams(),
    "small": IdentityParams(),
}


@dataclass(frozen=True)
class TentParams:
    """Hyper-parameters; the defaults are those of the official configuration for CIFAR-10-C.

    Attributes:
        batch_size: Test points of a round.
        steps: Updates per round.
        learning_rate: Learning rate of Adam.
        is_episodic: Every round starts from the base; otherwise from where the last one ended (official).

    Raises:
        ValueError: A number is out of range.
    """

    batch_size: int = 200
    steps: int = 1
    learning_rate: float = 1e-3
    is_episodic: bool = False

    def __post_init__(self) -> None:
        if not (self.batch_size >= 1 and self.steps >= 1 and self.learning_rate > 0):
            raise ValueError(f"not an adaptation: {self}")


TENT: Mapping[str, TentParams] = {"mnist": TentParams(), "cifar10": TentParams(), "small": TentParams(batch_size=64)}


@dataclass(frozen=True)
class DentParams:
    """Hyper-parameters; the defaults are those of the official configuration.

    Attributes:
        batch_size: Test points of a round, coupled through the mean of their answers.
        steps: Updates per round.
        learning_rate: Learning rate of AdaMod.
        beta1: Decay of the mean of the gradient. It and the other two are only in the configuration, not in Chen et al.
        beta2: Decay of the mean of its square.
        beta3: Decay of the mean of the step sizes.
        weight_decay: Weight decay of AdaMod.
        variant: Which objective, see :func:`objective`.

    Raises:
        ValueError: A number is out of range.
    """

    batch_size: int = 128
    steps: int = 6
    learning_rate: float = 6e-3
    beta1: float = 0.99
    beta2: float = 0.999
    beta3: float = 0.6
    weight_decay: float = 0.0
    variant: Variant = "official"

    def __post_init__(self) -> None:
        if not (self.batch_size >= 1 and self.steps >= 1 and self.learning_rate > 0 and self.weight_decay >= 0):
            raise ValueError(f"not an adaptation: {self}")
        if not all(0 <= beta < 1 for beta in (self.beta1, self.beta2, self.beta3)):
            raise ValueError(f"decays are in [0, 1): {self}")


# The method was published for CIFAR-10 only; its settings hold for MNIST too, for want of others.
DENT: Mapping[str, DentParams] = {"mnist": DentParams(), "cifar10": DentParams(), "small": DentParams(batch_size=64)}


@dataclass(frozen=True)
class RmcParams:
    """Hyper-parameters; the defaults are the official code's for CIFAR-10.

    Attributes:
        adversarial_passes: Attacked copies of every training example.
        epsilon: Radius of those attacks, l_inf.
        step_size: Step size of those attacks.
        attack_steps: Steps of those attacks; they start at a random point.
        is_augmented: The training images are cropped and flipped.
        pool_seed: Seed of all that. The pool is known to the attacker, as the files made beforehand by the official
            code are: the same for every defender with these parameters, and no part of the private randomness.
        neighbours: K, training examples found for a point; also how many each calibration draws.
        nearest_share: Fraction of the neighbours that are the nearest, some of which are held out.
        held_out_share: Fraction of the nearest that say when to stop.
        calibration_held_out_share: The same of a calibration's examples.
        learning_rate: Learning rate of the one Adam of a defender's life.
        batch_size: Examples of a training step.
        epochs: At most, for a point and for a calibration.
        patience: Epochs without a new least held-out loss before it may stop.
        stop_below: Mean training loss, in nats, above which it does not stop early; official only.
        variant: See the module.

    Raises:
        ValueError: A number is out of range.
    """

    adversarial_passes: int = 4
    epsilon: float = 8 / 255
    step_size: float = 1 / 255
    attack_steps: int = 40
    is_augmented: bool = True
    pool_seed: int = 0
    neighbours: int = 1024
    nearest_share: float = 0.2
    held_out_share: float = 0.25
    calibration_held_out_share: float = 0.125
    learning_rate: float = 2.5e-5
    batch_size: int = 128
    epochs: int = 100
    patience: int = 5
    stop_below: float = 0.01
    variant: Variant = "official"

    def __post_init__(self) -> None:
        fractions = (self.nearest_share, self.held_out_share, self.calibration_held_out_share)
        counts = (self.neighbours, self.batch_size, self.epochs, self.patience)
        if not (self.adversarial_passes >= 0 and self.learning_rate > 0 and min(counts) >= 1):
            raise ValueError(f"not an adaptation: {self}")
        if not all(0 < fraction < 1 for fraction in fractions) or int(self.neighbours * self.nearest_share) < 2:
            raise ValueError(f"shares are in (0, 1), and the nearest are at least two: {self}")


RMC: Mapping[str, RmcParams] = {
    "mnist": RmcParams(
        adversarial_passes=1,
        epsilon=0.3,
        step_size=0.01,
        attack_steps=100,
        is_augmented=False,
        learning_rate=2e-4,
    ),
    "cifar10": RmcParams(),
    # A fifth of the neighbours and a twentieth of the epochs, at a rate that makes up for some of them.
    "small": RmcParams(
        adversarial_passes=1,
        epsilon=0.3,
        step_size=0.03,
        attack_steps=20,
        is_augmented=False,
        neighbours=200,
        learning_rate=1e-3,
        batch_size=64,
        epochs=5,
    ),
}


@dataclass(frozen=True)
class DannParams:
    """Hyper-parameters; the defaults are the official code's for MNIST.

    Attributes:
        network: ``convolutional`` (MNIST), ``resnet18`` (CIFAR-10), or ``small``: the first with fewer layers, at
            a quarter of its width.
        mean: Subtracted from the images' channels; None: that of the training images.
        std: They are divided by it; None: that of the training images.
        epochs: Each as many steps as the smaller of the two samples has batches.
        batch_size: Training examples, and as many test points, of a step.
        alpha: Largest weight of the reversed gradient, see :func:`alpha_at`.
        optimizer: Adam, or SGD with Nesterov momentum 0.9.
        learning_rate: At the first step.
        weight_decay: Weight decay of the optimiser.
        milestones: Epochs from which on the rate is a tenth of what it was.

    Raises:
        ValueError: A number is out of range.
    """

    network: Literal["convolutional", "resnet18", "small"] = "convolutional"
    mean: tuple[float, ...] | None = (0.1307,)
    std: tuple[float, ...] | None = (0.3015,)
    epochs: int = 100
    batch_size: int = 128
    alpha: float = 0.1
    optimizer: OptimizerName = "adam"
    learning_rate: float = 1e-3
    weight_decay: float = 0.0
    milestones: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        if not (self.epochs >= 1 and self.batch_size >= 2 and self.learning_rate > 0):
            raise ValueError(f"not a training: {self}")
        if not (self.alpha >= 0 and self.weight_decay >= 0 and all(value > 0 for value in self.std or ())):
            raise ValueError(f"not a training: {self}")
        if (self.mean is None) != (self.std is None):
            raise ValueError("give both the mean and the standard deviation of the images, or neither")


DANN: Mapping[str, DannParams] = {
    "mnist": DannParams(),
    "cifar10": DannParams(
        network="resnet18",
        mean=None,
        std=None,
        batch_size=64,
        alpha=1.0,
        optimizer="sgd",
        learning_rate=0.1,
        weight_decay=1e-4,
        milestones=(50, 75, 90),
    ),
    # A quarter of the width and fewer layers. Not fewer epochs: they are as short as the test sample.
    "small": DannParams(network="small", mean=None, std=None, batch_size=64),
}


@dataclass(frozen=True)
class TadvParams:
    """Hyper-parameters; the defaults are the official code's for MNIST.

    Attributes:
        network: ``lenet`` (MNIST), ``resnet20`` (CIFAR-10), or ``small``: LeNet at a quarter of its width, an eighth
            of its hidden units.
        epsilon: Radius of the attacks trained against, l_inf.
        step_size: Step size of those attacks.
        attack_steps: Steps of those attacks; they start at a random point or at the image, as a coin says for each
            batch.
        epochs: Passes over the training data.
        batch_size: Examples of a step, half of them attacked.
        is_augmented: The training images are cropped and flipped.
        optimizer: Adam, or SGD with momentum 0.9.
        learning_rate: At the first step.
        weight_decay: Weight decay of the optimiser.
        milestones: Epochs from which on the rate is a tenth of what it was.
        variant: See the module.

    Raises:
        ValueError: A number is out of range.
    """

    network: Literal["lenet", "resnet20", "small"] = "lenet"
    epsilon: float = 0.3
    step_size: float = 0.01
    attack_steps: int = 40
    epochs: int = 100
    batch_size: int = 128
    is_augmented: bool = False
    optimizer: OptimizerName = "adam"
    learning_rate: float = 1e-3
    weight_decay: float = 0.0
    milestones: tuple[int, ...] = ()
    variant: Variant = "official"

    def __post_init__(self) -> None:
        if not (self.epochs >= 1 and self.batch_size >= 2 and self.learning_rate > 0 and self.weight_decay >= 0):
            raise ValueError(f"not a training: {self}")
        if not (self.epsilon >= 0 and self.step_size > 0 and self.attack_steps >= 0):
            raise ValueError(f"not an attack to train against: {self}")


TADV: Mapping[str, TadvParams] = {
    "mnist": TadvParams(),
    "cifar10": TadvParams(
        network="resnet20",
        epsilon=8 / 255,
        step_size=2 / 255,
        attack_steps=10,
        epochs=110,
        is_augmented=True,
        optimizer="sgd",
        learning_rate=0.1,
        weight_decay=5e-4,
        milestones=(100, 105),
    ),
    # Small batches: what robustness a minute can buy grows with the number of steps. At four times the rate a training
    # on MNIST ended at chance: from where all answers are equal no attack has a gradient to start from.
    "small": TadvParams(network="small", step_size=0.1, attack_steps=7, epochs=8, batch_size=32),
}


@dataclass(frozen=True)
class URejectronParams:
    """Hyper-parameters; the defaults are the official code's.

    Attributes:
        network: The discriminator: ``resnet18``, or ``small``, a LeNet of 16 and 32 channels.
        epochs: Passes over training data and test points together.
        batch_size: Examples of a step.
        learning_rate: Learning rate of Adam.
        threshold: tau, in [0, 1]; the paper shows all of them.

    Raises:
        ValueError: A number is out of range.
    """

    network: Literal["resnet18", "small"] = "resnet18"
    epochs: int = 10
    batch_size: int = 128
    learning_rate: float = 1e-3
    threshold: float = 0.5

    def __post_init__(self) -> None:
        if not (self.epochs >= 1 and self.batch_size >= 2 and self.learning_rate > 0 and 0 <= self.threshold <= 1):
            raise ValueError(f"not a discriminator's training: {self}")


# Chen et al. evaluate it on GTSRB only; those settings hold for the others too, for want of their own.
UREJECTRON: Mapping[str, URejectronParams] = {
    "mnist": URejectronParams(),
    "cifar10": URejectronParams(),
    "small": URejectronParams(network="small", batch_size=64),
}


PRESETS: Mapping[str, Mapping[str, Any]] = {
    "identity": IDENTITY,
    "tent": TENT,
    "dent": DENT,
    "rmc": RMC,
    "dann": DANN,
    "tadv": TADV,
    "urejectron": UREJECTRON,
}
"""By defence and name."""
