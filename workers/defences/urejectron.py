"""URejectron: refuse to answer the points that a discriminator tells from the training data.

Goldwasser et al., "Beyond Perturbations: Learning Guarantees with Arbitrary Adversarial Test Examples" (NeurIPS 2020),
with one discriminator (T = 1), as Chen et al. (sec. 5) evaluate it on GTSRB. A network h learns to tell the training
data (class 0) from the points of the round (class 1); a point is rejected if and only if h_1 > tau. A round is the
paper's x~, equal halves: the test points as they are, then perturbed.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Final

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import ArrayLike, NDArray
from torch import Tensor, nn

from seatrial.families.shared.defence_presets import UREJECTRON as PRESETS
from seatrial.families.shared.defence_presets import URejectronParams
from seatrial.statistics.arrays import Floats
from workers.attacks.rejectors import log_odds
from workers.defences.copies import Frozen, seeded
from workers.defences.fresh import (
    AdaptedModel,
    OneRound,
    check_finite,
    check_sample,
    descend,
    make_optimizer,
    shuffled_batches,
)
from workers.defences.networks import lenet_like, resnet18
from workers.defences.protocol import Training, Traits
from workers.defences.registry import Plugin
from workers.models.image_classifier import ImageClassifier

DOMAINS: Final = ["training", "test"]

THRESHOLDS: Final = np.linspace(0.0, 1.0, 100)
"""Where the official code draws its curves."""
THRESHOLDS.setflags(write=False)


class URejectron(OneRound):
    """Trains a discriminator anew at every call; implements :class:`workers.defences.Defence` and ``fresh.Reloading``.

    The base answers, unchanged. As in the official code examples are not weighted: h_1 estimates the probability that
    a point is a test point given how many there are of either, so with far fewer test points than training examples
    hardly anything is above 0.5, and the threshold has to follow.
    """

    def __init__(
        self, params: URejectronParams = PRESETS["cifar10"], *, check_cancelled: Callable[[], None] = lambda: None
    ) -> None:
        self._params, self._check_cancelled = params, check_cancelled

    @property
    def traits(self) -> Traits:
        """One round, stateless, randomised; a round is clean points and perturbed ones."""
        return replace(super().traits, sees_clean_half=True)

    def check(self, base: ImageClassifier) -> None:
        """Make the network that would be trained.

        Raises:
            DefenceError: The images are too small for it.
        """
        with torch.random.fork_rng(devices=[]):
            self._network(base)

    def adapt(
        self, base: ImageClassifier, training: Training | None, batch: Tensor, generator: torch.Generator
    ) -> "RejectingModel":
        """Return the base with a discriminator between ``training``, whose labels are not used, and ``batch``.

        Raises:
            DefenceError: There is no training data, fewer than two examples or points, they do not fit the model, or
                training diverged.
        """
        training = check_sample("URejectron", base, training, batch)
        params, device, known = self._params, base.device, len(training)
        points = batch.detach().cpu()
        with seeded(generator, device), torch.enable_grad():
            network = self._network(base).to(device).train()
            optimizer = make_optimizer(network, "adam", learning_rate=params.learning_rate)
            for _ in range(params.epochs):
                for chosen in shuffled_batches(known + len(points), params.batch_size, generator):
                    is_test = chosen >= known
                    images = training.images.new_empty((len(chosen), *training.images.shape[1:]))
                    images[~is_test], images[is_test] = (
                        training.images[chosen[~is_test]],
                        points[chosen[is_test] - known],
                    )
                    self._check_cancelled()
                    loss = F.cross_entropy(network(images.to(device)), is_test.long().to(device))
                    descend(loss, optimizer, params.learning_rate, self._check_cancelled)
        check_finite("URejectron", network)
        return RejectingModel(base, AdaptedModel(network, base, DOMAINS), params.threshold)

    def reload(self, base: ImageClassifier, state: Mapping[str, Tensor]) -> "RejectingModel":
        """Return the adapted model whose ``state()`` this is.

        Raises:
            ValueError: The state is not that of a model with these hyper-parameters for this base.
        """
        with torch.random.fork_rng(devices=[]):
            discriminator = AdaptedModel.from_state(state, self._network(base), base, DOMAINS)
        return RejectingModel(base, discriminator, self._params.threshold)

    def _network(self, base: ImageClassifier) -> nn.Module:
        if self._params.network == "small":
            return lenet_like(base.input_shape, len(DOMAINS), channels=(16, 32), hidden=64)
        return resnet18(base.input_shape, len(DOMAINS))


class RejectingModel(Frozen):
    """The base beside a discriminator; implements :class:`workers.models.adapted.Margined`.

    Args:
        base: It answers; nobody may change it afterwards.
        discriminator: Logits (b, 2) of training data and test points.
        threshold: Score above which a point is rejected.
    """

    def __init__(self, base: ImageClassifier, discriminator: AdaptedModel, threshold: float) -> None:
        super().__init__(base)
        self._discriminator, self._threshold = discriminator, threshold

    @property
    def threshold(self) -> float:
        """The score above which a point is rejected."""
        return self._threshold

    def rejection_scores(self, images: Tensor) -> Tensor:
        """Return h_1 (b,): how probable the discriminator holds it that each image is a test point."""
        return self._discriminator.logits(images).softmax(1)[:, 1]

    def rejection_margins(self, images: Tensor) -> Tensor:
        """Return the log-odds (b,) of h_1 less those of the threshold; where h_1 is 0 or 1 they still differ."""
        logits = self._discriminator.logits(images)
        return logits[:, 1] - logits[:, 0] - log_odds(self._threshold)

    def state(self) -> dict[str, Tensor]:
        """Return copies of the discriminator's weights, on the CPU; the base is not in it."""
        return self._discriminator.state()


def rejection_rates(scores: ArrayLike, thresholds: ArrayLike = THRESHOLDS) -> Floats:
    """Return the share of points (k,) rejected at each threshold: rej_U(S) = |U - S| / |U| (Chen et al., eq. 1).

    Args:
        scores: (n,) in [0, 1].
        thresholds: (k,) in any order; a point is rejected if its score is above.

    Raises:
        ValueError: There are no scores, or they are not in [0, 1].

    >>> rejection_rates([0.2, 0.5, 0.9], [0.0, 0.5, 1.0]).round(3).tolist()
    [1.0, 0.333, 0.0]
    """
    values = _scores(scores)
    return (len(values) - _accepted(values, thresholds)) / len(values)


def errors_among_accepted(scores: ArrayLike, is_wrong: ArrayLike, thresholds: ArrayLike = THRESHOLDS) -> Floats:
    """Return wrong answers over accepted points (k,) at each threshold, 0 where none is accepted (official code).

    Args:
        scores: (n,) in [0, 1].
        is_wrong: (n,) bool, the classifier's answer is.
        thresholds: (k,) in any order.

    Raises:
        ValueError: There are no scores, they are not in [0, 1], or there is not one answer for each.

    >>> errors_among_accepted([0.2, 0.5, 0.9], [True, False, True], [0.0, 0.5, 1.0]).round(3).tolist()
    [0.0, 0.5, 0.667]
    """
    values = _scores(scores)
    wrong = _accepted(values[_mask(is_wrong, values)], thresholds)
    return np.asarray(wrong / np.maximum(_accepted(values, thresholds), 1))


def accepted_errors(scores: ArrayLike, is_wrong: ArrayLike, thresholds: ArrayLike = THRESHOLDS) -> Floats:
    """Return wrong answers among accepted points over all points (k,) at each threshold (Chen et al., eq. 1).

    err_U'(F | S, f) = |{x in U' and S: F(x) != f(x)}| / |U'|: it falls as more is rejected, where the official code's
    :func:`errors_among_accepted` need not.

    Args:
        scores: (n,) in [0, 1].
        is_wrong: (n,) bool, the classifier's answer is.
        thresholds: (k,) in any order.

    Raises:
        ValueError: There are no scores, they are not in [0, 1], or there is not one answer for each.

    >>> accepted_errors([0.2, 0.5, 0.9], [True, False, True], [0.0, 0.5, 1.0]).round(3).tolist()
    [0.0, 0.333, 0.667]
    """
    values = _scores(scores)
    return _accepted(values[_mask(is_wrong, values)], thresholds) / len(values)


def _accepted(scores: Floats, thresholds: ArrayLike) -> Floats:
    """Return how many scores (k,) are at most each threshold."""
    # From the right: a score equal to the threshold is not above it.
    return np.searchsorted(np.sort(scores), np.asarray(thresholds, np.float64), side="right").astype(np.float64)


def _scores(scores: ArrayLike) -> Floats:
    values = np.asarray(scores, np.float64)
    # NaN fails the comparison: it is above no threshold and must not pass for accepted.
    if values.ndim != 1 or len(values) == 0 or not bool(((values >= 0) & (values <= 1)).all()):
        raise ValueError(f"rejection scores are numbers in [0, 1], one per point: shape {values.shape}")
    return values


def _mask(is_wrong: ArrayLike, scores: Floats) -> NDArray[np.bool_]:
    mask = np.asarray(is_wrong, np.bool_)
    if mask.shape != scores.shape:
        raise ValueError(f"{mask.shape} answers for {scores.shape} rejection scores")
    return mask


DEVIATIONS = {
    "official": "URejectron's errors are over the accepted points, as in the authors' code (variant official); eq. 1 "
    "of the paper divides by all points, and those errors stand beside them. Its discriminator has pre-activation "
    "blocks, which is ours.",
}

PLUGIN = Plugin(
    lambda params, check_cancelled: URejectron(params, check_cancelled=check_cancelled), PRESETS, DEVIATIONS
)
