"""CERTIFY for a batch of images, from the noise to the counts: selection, estimation, and when to stop."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from seatrial.statistics.arrays import Floats, Ints
from workers.certification.anytime import ConfidenceSequence, Schedule
from workers.certification.class_scores import ClassScores
from workers.certification.noise import Noise
from workers.certification.smoothing import Smoother


@dataclass(frozen=True)
class Evidence:
    """What noise showed of a batch; every array has one entry per example.

    Attributes:
        candidates: Class most often predicted in the selection draws, the first on ties.
        draws: Estimation draws taken.
        counts: (batch, classes) how often each class was predicted in them.
        mean: Mean score of the candidate, in [0, 1].
        histogram: (batch, LEVELS) the candidate's scores (see :mod:`workers.certification.confidence`).
        p_lower: Lower bound of the probability of the candidate under noise.
        p_upper: Upper bound of it; no certificate rests on it.
        score_alpha: What an interval of the mean score, or a band around the scores' distribution, may err with.
        non_finite: bool, some output was not finite: nothing else means anything then.
        batch_dependent: bool, noisy copies had other classes among copies of other images: nothing is certified, and
            the bounds say so.
        distance: How far the law of the draws may be from that of Gaussian noise on the grid, in total variation. The
            bounds of the probability have it; bounds of scores must be given it.
        scores: Distributions of all classes' scores, where they were asked for.
    """

    candidates: Ints
    draws: Ints
    counts: NDArray[np.int64]
    mean: Floats
    histogram: NDArray[np.int32]
    p_lower: Floats
    p_upper: Floats
    score_alpha: Floats
    non_finite: NDArray[np.bool_]
    batch_dependent: NDArray[np.bool_]
    distance: float
    scores: ClassScores | None = None


def gather_evidence(
    smoother: Smoother,
    images: Tensor,
    example_ids: Sequence[int],
    *,
    selection: Noise,
    estimation: Noise,
    n0: int,
    schedule: Schedule,
    probabilities: Floats,
    probes: int,
    count_classes: Callable[[Tensor], ClassScores] | None = None,
) -> Evidence:
    """Select each image's class on ``n0`` draws, then draw until its decisions are settled (CERTIFY; Cohen et al.).

    Guarantee: with probability at least 1 - alpha of the schedule over the draws, ``p_lower`` is no more than the
    probability with which the candidate is predicted under Gaussian noise on the grid; likewise for what
    ``score_alpha`` is used for. It holds because the class is selected on other draws than those that estimate, and
    the model knows neither. An image's evidence depends on nothing but itself and its noise.

    It takes a model that is a function of one image. One that also looks at the copies beside it could average their
    noise away and be certified for what it cannot do alone; so some copies are asked for once more, at the end, with no
    other copy of their image in the pass, and where more than a few then have another class, nothing is certified.

    Args:
        smoother: Passes noisy images through the model.
        images: (batch, channels, height, width).
        example_ids: Ids of the images.
        selection: Noise the class is selected on; must be unrelated to ``estimation``.
        estimation: Noise the probability and the scores are estimated on.
        n0: Selection draws.
        schedule: At how many draws to look, and what each look may err with.
        probabilities: (k,) probabilities of the candidate at which something is decided.
        probes: Selection draws asked for once more at the end; of ``n0`` at most all.
        count_classes: How often each class was predicted in the selection draws (batch, classes) to what counts all
            classes' scores in the estimation draws; the passes are the same.
    """
    selected = smoother.select(images, selection, n0, example_ids, keep=probes)
    on_device = selected.counts.argmax(1)
    scores = None if count_classes is None else count_classes(selected.counts)
    statistics = smoother.start(images, scores)
    sequence = ConfidenceSequence(schedule, len(images), probabilities, distance=estimation.distance)
    active = np.arange(len(images))
    done = 0
    for look, draws in enumerate(schedule.checkpoints):
        smoother.extend(statistics, images, on_device, active, estimation, done, draws, example_ids, scores)
        done = draws
        successes = statistics.counts.gather(1, on_device.unsqueeze(1)).squeeze(1).cpu().numpy()
        non_finite = statistics.non_finite.cpu().numpy()
        settled = sequence.look(look, active, successes[active])
        active = active[~(settled | non_finite[active])]
        if len(active) == 0:
            break
    apart = smoother.answers_apart(images, selection, selected.answers.shape[1], example_ids)
    dependent = ((apart != selected.answers).sum(1) > smoother.allowed_ties).cpu().numpy()
    draws_taken = statistics.draws.cpu().numpy()
    return Evidence(
        candidates=on_device.cpu().numpy(),
        draws=draws_taken,
        counts=statistics.counts.cpu().numpy(),
        mean=statistics.total.cpu().numpy() / draws_taken,
        histogram=(statistics.histogram if scores is None else scores.of(on_device)).cpu().numpy(),
        p_lower=np.where(dependent, 0.0, sequence.lower),
        p_upper=np.where(dependent, 1.0, sequence.upper),
        score_alpha=np.array([schedule.score_alphas[look] for look in sequence.stopped_at]),
        non_finite=non_finite,
        batch_dependent=dependent,
        distance=estimation.distance,
        scores=scores,
    )
