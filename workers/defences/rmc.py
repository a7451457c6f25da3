"""RMC, runtime masking and cleansing: before every answer, train on what resembles the point asked about.

Wu et al., "Adversarial Robustness via Runtime Masking and Cleansing" (ICML 2020), as Chen et al. evaluate it (app.
A.4): the model moves from point to point and never starts over. ``variant = "official"`` is the code behind Chen et
al.'s tables, ``"paper"`` the text and its authors' own code. They differ in three things: to stop early the former
also waits until the training loss is below 0.01; it calibrates on clean examples only; it trains with batch norm and
dropout in training mode.
"""

import math
from collections.abc import Callable, Mapping

import torch
import torch.nn.functional as F
from torch import Tensor

from seatrial.families.shared.defence_presets import RMC as PRESETS
from seatrial.families.shared.defence_presets import RmcParams
from workers.attacks.pgd import PGD
from workers.defences.copies import Frozen, copied, frozen_copy, penultimate, seeded
from workers.defences.fresh import shuffled_batches
from workers.defences.pool import Pool, make_pool
from workers.defences.protocol import DefenceError, Training, Traits
from workers.defences.registry import Plugin
from workers.defences.states import moments, set_moments
from workers.models.image_classifier import ImageClassifier
from workers.models.memory import forward

MODEL = "model."


class Rmc:
    """Trains on a point's neighbours, answers, then calibrates; implements :class:`workers.defences.Defence`.

    A round is one point. Its K nearest training examples, clean or attacked, are found by the features of the fixed
    base; a quarter of the nearest fifth is held out to stop early, the rest is trained on, and the last weights answer.
    :meth:`end_round` trains on random examples, so that the model does not stay where the point drew it. Weights,
    running statistics and the moments of the one Adam last from round to round. If ``check_cancelled`` raises, restore
    an earlier state before going on.

    Args:
        params: Hyper-parameters.
        check_cancelled: Called before every forward and backward pass; may raise to stop.
    """

    def __init__(
        self,
        params: RmcParams = PRESETS["cifar10"],
        *,
        check_cancelled: Callable[[], None] = lambda: None,
    ) -> None:
        self._params, self._check_cancelled = params, check_cancelled
        self._pool: Pool | None = None
        self._base: ImageClassifier | None = None
        self._moving: _Moving | None = None
        self._state: dict[str, Tensor] = {}

    @property
    def traits(self) -> Traits:
        """Stateful and randomised."""
        return Traits(is_stateful=True, is_one_round=False, is_randomized=True, is_differentiable=True)

    @property
    def batch_size(self) -> int:
        """One point a round."""
        return 1

    def check(self, base: ImageClassifier) -> None:
        """Look for the features neighbours are found by.

        Raises:
            DefenceError: The model has none.
        """
        with torch.no_grad():
            penultimate(base, torch.zeros(2, *base.input_shape, device=base.device))

    def prepare(self, base: ImageClassifier, training: Training | None) -> dict[str, Tensor]:
        """Return the pool as tensors; see :class:`workers.defences.Preparing`.

        Raises:
            DefenceError: As :meth:`make_pool`.
        """
        return self.make_pool(base, training).tensors()

    def use(self, prepared: Mapping[str, Tensor]) -> None:
        """Look for neighbours in this pool, and make none."""
        self._pool = Pool.read(prepared)

    def make_pool(self, base: ImageClassifier, training: Training | None) -> Pool:
        """Return the examples to look for neighbours in: a function of base, training data and hyper-parameters.

        Raises:
            DefenceError: There is no training data, too little, or it does not fit the model; or that has no features.
        """
        if training is None:
            raise DefenceError("RMC trains on labelled examples at test time: name a training dataset")
        params = self._params
        available = (1 + params.adversarial_passes) * len(training)
        if available < params.neighbours:
            raise DefenceError(
                f"RMC looks for {params.neighbours} neighbours among {available} images ({len(training)} training "
                f"examples, each once clean and {params.adversarial_passes} times attacked): give more training "
                f"examples or ask for fewer neighbours"
            )
        return make_pool(
            base,
            training,
            PGD("linf", params.epsilon, params.step_size, params.attack_steps, random_start=True),
            passes=params.adversarial_passes,
            is_augmented=params.is_augmented,
            seed=params.pool_seed,
            check_cancelled=self._check_cancelled,
        )

    def adapt(
        self, base: ImageClassifier, training: Training | None, batch: Tensor, generator: torch.Generator
    ) -> Frozen:
        """Return the model trained on the neighbours of a point (1, channels, height, width).

        Raises:
            DefenceError: As :meth:`make_pool`.
            ValueError: There is not exactly one point, or the base is another than before.
        """
        if len(batch) != 1:
            raise ValueError(f"a round of RMC is one point, not {len(batch)}")
        if self._base is not None and self._base.module is not base.module:
            raise ValueError("one instance of RMC defends one base classifier")
        self._base = base
        pool = self._pool = self._pool or self.make_pool(base, training)
        self._check_cancelled()
        features = forward(lambda images: penultimate(base, images), batch)[0]
        neighbours = pool.nearest(features, self._params.neighbours)
        nearest, others = neighbours.tensor_split([int(self._params.neighbours * self._params.nearest_share)])
        trained_on, held_out = split(nearest, self._params.held_out_share, generator)
        moving = self._load(base)
        self._train(moving, pool, torch.cat([trained_on, others]), held_out, generator)
        return frozen_copy(moving.classifier)

    def answering(self, base: ImageClassifier) -> Frozen:
        """Return the model as the last calibration left it: what the official attack begins a round from."""
        return frozen_copy(self._load(base).classifier)

    def end_round(self, batch: Tensor, generator: torch.Generator) -> None:
        """Calibrate: train on K examples drawn with replacement, from the clean ones (official) or all (paper).

        Raises:
            DefenceError: No round was begun.
        """
        if self._base is None or self._pool is None:
            raise DefenceError("RMC calibrates after a round, and none was begun")
        pool, params = self._pool, self._params
        among = pool.clean if params.variant == "official" else len(pool.labels)
        drawn = torch.randint(among, (params.neighbours,), generator=generator)
        trained_on, held_out = split(drawn, params.calibration_held_out_share, generator)
        self._train(self._load(self._base), pool, trained_on, held_out, generator)

    def state(self) -> dict[str, Tensor]:
        """Return weights, running statistics and moments; empty for a defender that has done nothing."""
        if self._moving is None:
            return {name: value.clone() for name, value in self._state.items()}
        kept = self._moving.classifier.module.state_dict()
        weights = {f"{MODEL}{name}": value.detach().cpu().clone() for name, value in kept.items()}
        return weights | moments(self._moving.optimizer, self._moving.parameters)

    def restore(self, state: dict[str, Tensor]) -> None:
        """Go back to a state; the empty one is the base. The pool stays: it is the same for all."""
        self._moving = None
        self._state = {name: value.cpu().clone() for name, value in state.items()}

    def _load(self, base: ImageClassifier) -> "_Moving":
        if self._moving is None:
            self._moving = _Moving(base, self._params.learning_rate)
            if self._state:
                weights = {k.removeprefix(MODEL): v for k, v in self._state.items() if k.startswith(MODEL)}
                self._moving.classifier.module.load_state_dict(weights)
                set_moments(self._moving.optimizer, self._moving.parameters, self._state)
        return self._moving

    def _train(
        self, moving: "_Moving", pool: Pool, trained_on: Tensor, held_out: Tensor, generator: torch.Generator
    ) -> None:
        """Train to the early stop; the last weights stay, not the best."""
        params, device = self._params, moving.classifier.device
        is_official = params.variant == "official"
        stop = EarlyStop(params.patience, params.stop_below if is_official else None)
        images, labels = pool.images[trained_on].to(device), pool.labels[trained_on].to(device)
        held_out_images, held_out_labels = pool.images[held_out].to(device), pool.labels[held_out].to(device)
        with seeded(generator, device):
            for _ in range(params.epochs):
                moving.classifier.module.train(is_official)
                total = 0.0
                for chosen in shuffled_batches(len(images), params.batch_size, generator):
                    at = chosen.to(device)
                    total += moving.step(images[at], labels[at], self._check_cancelled) * len(chosen)
                moving.classifier.module.eval()
                self._check_cancelled()
                held_out_loss = F.cross_entropy(forward(moving.classifier.logits, held_out_images), held_out_labels)
                if stop.after(held_out_loss.item(), total / len(images)):
                    break


class EarlyStop:
    """When an adaptation ends before its last epoch.

    Args:
        patience: Epochs in a row without a new least held-out loss.
        below: Mean training loss of the epoch that must also be undercut; None: nothing must.

    >>> stop = EarlyStop(2, below=0.01)
    >>> [stop.after(held_out, training) for held_out, training in [(1.0, 0.5), (1.0, 0.5), (1.1, 0.5), (1.2, 0.001)]]
    [False, False, False, True]
    """

    def __init__(self, patience: int, below: float | None) -> None:
        self._patience, self._below = patience, below
        self._least, self._count = math.inf, 0

    def after(self, held_out_loss: float, training_loss: float) -> bool:
        """Take in an epoch's losses and tell whether it was the last; NaN is no new least loss."""
        if held_out_loss < self._least:
            self._least, self._count = held_out_loss, 0
        else:
            self._count += 1
        return self._count >= self._patience and (self._below is None or training_loss < self._below)


def split(positions: Tensor, fraction: float, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Return the positions (n,) in random order, cut into those to train on and ceil(share n) held out.

    >>> [len(part) for part in split(torch.arange(204), 0.25, torch.Generator())]
    [153, 51]
    """
    held_out = math.ceil(fraction * len(positions))
    shuffled = positions[torch.randperm(len(positions), generator=generator)]
    return shuffled[held_out:], shuffled[:held_out]


class _Moving:
    """The one model of a defender and the Adam that moves it."""

    def __init__(self, base: ImageClassifier, learning_rate: float) -> None:
        self.classifier = copied(base)
        self.classifier.module.requires_grad_(True)
        self.parameters = list(self.classifier.module.parameters())
        self.optimizer = torch.optim.Adam(self.parameters, lr=learning_rate)

    def step(self, images: Tensor, labels: Tensor, check_cancelled: Callable[[], None]) -> float:
        """Make one step on a batch and return its mean loss before it."""
        with torch.enable_grad():
            check_cancelled()
            loss = F.cross_entropy(self.classifier.logits(images), labels)
            self.optimizer.zero_grad()
            check_cancelled()
            loss.backward()  # type: ignore[no-untyped-call]
        self.optimizer.step()
        return loss.item()


DEVIATIONS = {
    "official": "RMC is the code behind the paper's tables (variant official): to stop early it also waits until the "
    "training loss is low, it calibrates on clean examples alone, and it trains with batch norm and dropout in "
    "training mode; the paper's text and the defence's own authors have none of the three.",
    "paper": "RMC is the paper's text (variant paper): it stops early by the held-out loss alone, calibrates on "
    "attacked examples too, and trains with batch norm and dropout in eval mode; the code behind the paper's "
    "tables does not.",
}

PLUGIN = Plugin(lambda params, check_cancelled: Rmc(params, check_cancelled=check_cancelled), PRESETS, DEVIATIONS)
