"""Records to what the attacks on confidence do to conformal prediction sets."""

import math

import numpy as np
import torch
from torch import Tensor

from seatrial.contracts.estimates import Estimate, Flag, metric_name
from seatrial.families.uncertainty_span.params import ARMS, UncertaintySpanParams
from seatrial.families.uncertainty_span.prediction_sets import ConformalParams
from seatrial.statistics.arrays import Floats, Ints, Mask
from seatrial.statistics.estimating import mean, proportion, seed_of
from seatrial.statistics.prediction_sets import SET_SCORES, SetScore, label_ranks, ranked_scores, scores_at
from seatrial.statistics.samples import Sample
from seatrial.statistics.selective import conformal_threshold
from workers.families.contexts import Columns

WHOLE = 0.5
"""Share of the unattacked sets that hold every class from which on they say nothing: nor does it that they hold the
label."""


def set_columns(params: UncertaintySpanParams, logits: Tensor, arm: str) -> Columns:
    """Return the probabilities (batch, classes) that sets are made from, where the check asks for any."""
    return {} if params.conformal is None else {_column(arm): logits.double().softmax(1).to(torch.float32)}


def set_estimates(params: UncertaintySpanParams, sample: Sample, seed: int) -> dict[str, Estimate]:
    """Return coverage and size of the sets in each arm, by their score; nothing where they were not asked for.

    The interval of a coverage is that of the sets with this very threshold, as they would be served.
    """
    block = params.conformal
    if block is None or sample.valid < 2 or not sample.has(_column(ARMS[0])):
        return {}
    used, found = halves(sample.valid, seed), {}
    for score in SET_SCORES:
        threshold = threshold_of(block, sample, used, score)
        for arm in ARMS:
            held, sizes = sets_of(block, sample, ~used, score, arm, threshold)
            most = (0.0, float(len(sample[_column(arm)][0])))
            found[metric_name("conformal_coverage", score=score, arm=arm)] = proportion(held)
            found[metric_name("conformal_set_size", score=score, arm=arm)] = mean(sizes.astype(np.float64), most)
    return found


def whole_sets(params: UncertaintySpanParams, sample: Sample, seed: int) -> list[Flag]:
    """Flag sets that hold every class without an attack: they hold the label whatever is done."""
    block = params.conformal
    if block is None or sample.valid < 2 or not sample.has(_column(ARMS[0])):
        return []
    used, shares, thresholds = halves(sample.valid, seed), {}, {}
    classes = len(sample[_column(ARMS[0])][0])
    for score in SET_SCORES:
        thresholds[score] = threshold_of(block, sample, used, score)
        shares[score] = float((sets_of(block, sample, ~used, score, ARMS[0], thresholds[score])[1] == classes).mean())
    worst = max(shares, key=lambda score: shares[score])
    if shares[worst] < WHOLE:
        return []
    few = (
        f" {int(used.sum())} examples are too few to promise a coverage of {block.coverage:.1%}."
        if math.isinf(thresholds[worst])
        else ""
    )
    return [
        Flag(
            code="whole_sets",
            severity="warning",
            message=f"{shares[worst]:.0%} of the unattacked {worst} sets hold all {classes} classes, and so the label "
            f"whatever is done to the image: their coverage under attack says nothing.{few}",
        )
    ]


def halves(examples: int, seed: int) -> Mask:
    """Return which examples (n,) thresholds are taken from; the others are judged. Drawn by the seed, a half each."""
    order = np.random.default_rng(seed_of(seed, "conformal halves")).permutation(examples)
    found: Mask = np.zeros(examples, dtype=np.bool_)
    found[order[: examples // 2]] = True
    return found


def threshold_of(block: ConformalParams, sample: Sample, used: Mask, score: SetScore) -> float:
    """Return the largest score of a class in a set, from the unattacked examples of ``used`` (valid,)."""
    ranked, ranks = _scored(block, sample, used, score, ARMS[0])
    return conformal_threshold(scores_at(ranked, ranks), 1 - block.coverage)


def sets_of(
    block: ConformalParams, sample: Sample, judged: Mask, score: SetScore, arm: str, threshold: float
) -> tuple[Mask, Ints]:
    """Return whether the sets of ``judged`` examples (valid,) hold the label in an arm, and how many classes."""
    ranked, ranks = _scored(block, sample, judged, score, arm)
    held: Mask = (ranks < ranked.shape[1]) & (scores_at(ranked, ranks) <= threshold)
    sizes: Ints = (ranked <= threshold).sum(1)
    return held, sizes


def _scored(block: ConformalParams, sample: Sample, chosen: Mask, score: SetScore, arm: str) -> tuple[Floats, Ints]:
    probabilities = np.stack(list(sample[_column(arm)][chosen])).astype(np.float64)
    ranked = ranked_scores(probabilities, score, penalty=block.penalty, free=block.free)
    return ranked, label_ranks(probabilities, sample["label"].astype(np.int64)[chosen])


def _column(arm: str) -> str:
    return f"probabilities_{arm}"
