"""Distributions of all classes' scores under noise, and of the entropy of one draw, from the passes that certify.

Of a draw of a model of several passes the mean entropy and the mutual information of these are scalars like its
entropy, with a distribution each: as many histograms more.

Of up to ``ALL`` classes each has a histogram of its own, 64 KiB an example. Of more, the most frequent in the selection
draws and the label have one, and the sum of the others has one: neither was chosen by the draws that are counted here.
"""

import math
from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from seatrial.statistics.arrays import Floats
from workers.certification.confidence import LEVELS, Bounds, cdf_bounds

ALL = 100
"""Classes up to which each has a histogram."""

UNITS = 2**28
"""Scores are rounded to multiples of 1 / UNITS, so that their sum in float64 does not depend on its order."""

SOFTMAX = 2e-6
"""What float32 may be off by in a score, a sum of scores, or an entropy over its largest value.

A softmax of 1000 classes has errors of about 20 steps of float32 relative to it; a sum of them, and x log x, likewise.
Intervals are wider by it, so that they are of numbers that add up to 1.
"""


class ClassScores:
    """What the draws have shown of every class so far, by example, on the device.

    Args:
        examples: Number of examples.
        classes: Number of logits.
        device: Where to count.
        kept: (examples, m) classes with a histogram of their own, None for all. The sum of the others then has one, in
            the last column.
        parts: Of scalars of a draw beside its entropy, the largest each can be, in nats.

    Attributes:
        classes: Number of logits.
        kept: (examples, m) or None, as given.
        columns: Histograms of an example: ``classes``, or m + 1.
        rest: Classes the last column is the sum of; 1 where it is a class like the others.
        histogram: (examples, columns, LEVELS) int32.
        most: The largest entropy of a draw and the largest of each part, in nats.
        entropies: (examples, 1 + parts, LEVELS) int32, of the entropy of a draw's scores and its parts, over ``most``.
        total: (examples, classes) float64, sums of scores.
        entropy: (examples, 1 + parts) float64, sums of what ``entropies`` counts.
    """

    def __init__(
        self,
        examples: int,
        classes: int,
        device: torch.device,
        kept: Tensor | None = None,
        parts: Sequence[float] = (),
    ) -> None:
        self.classes, self.kept = classes, kept
        self.columns = classes if kept is None else kept.shape[1] + 1
        self.rest = 1 if kept is None else classes - kept.shape[1]
        self.histogram = torch.zeros(examples, self.columns, LEVELS, dtype=torch.int32, device=device)
        self.most = (math.log(classes), *parts)
        self.entropies = torch.zeros(examples, len(self.most), LEVELS, dtype=torch.int32, device=device)
        self.total = torch.zeros(examples, classes, dtype=torch.float64, device=device)
        self.entropy = torch.zeros(examples, len(self.most), dtype=torch.float64, device=device)

    @property
    def bytes_per_example(self) -> int:
        """Bytes an example's histograms take: 64 KiB for each class that has one, for its entropy and for each part."""
        return sum(held[0].numel() * held.element_size() for held in (self.histogram, self.entropies))

    def of(self, classes: Tensor) -> Tensor:
        """Return the histogram (examples, LEVELS) of one class of each example (examples,), which must have one."""
        column = classes if self.kept is None else (self.kept == classes.unsqueeze(1)).int().argmax(1)
        return self.histogram[torch.arange(len(classes), device=classes.device), column]

    def add(self, examples: Tensor, logits: Tensor, parts: Tensor | None = None) -> None:
        """Add draws of ``examples`` (n,); what is not finite counts as 0.

        Args:
            examples: (n,) positions.
            logits: (n, draws, classes).
            parts: (n, draws, parts) in nats, where there are any.
        """
        # As the candidate's alone are made, to the bit.
        scores = logits.softmax(2).nan_to_num_(nan=0.0)
        entropy = torch.special.entr(scores).sum(2, keepdim=True)
        if parts is not None and parts.shape[2]:
            entropy = torch.cat([entropy, parts.nan_to_num(nan=0.0)], dim=2)
        entropy /= torch.tensor(self.most, dtype=entropy.dtype, device=entropy.device)
        units = scores.double().mul_(UNITS).round_()
        self.total.index_add_(0, examples, units.sum(1) / UNITS)
        if self.kept is not None:
            own = units.gather(2, self.kept[examples].unsqueeze(1).expand(-1, units.shape[1], -1))
            others = (units.sum(2, keepdim=True) - own.sum(2, keepdim=True)).clamp_(0, UNITS)
            units = torch.cat([own, others], dim=2)
        _count(self.histogram, examples, units)
        entropy_units = entropy.double().mul_(UNITS).round_().clamp_(0, UNITS)
        self.entropy.index_add_(0, examples, entropy_units.sum(1) / UNITS)
        _count(self.entropies, examples, entropy_units)


def _count(counts: Tensor, examples: Tensor, units: Tensor) -> None:
    """Add 1 to ``counts`` (batch, columns, LEVELS) in the cell of each of units (n, draws, columns)."""
    columns = units.shape[2]
    cells = (units * (LEVELS / UNITS)).long().clamp_(max=LEVELS - 1)
    rows = examples.view(-1, 1, 1) * columns + torch.arange(columns, device=units.device)
    flat = cells.add_(rows * LEVELS).flatten()
    counts.view(-1).scatter_add_(0, flat, torch.ones_like(flat, dtype=counts.dtype))


def classes_kept(votes: Tensor, labels: Tensor, most: int) -> Tensor | None:
    """Return the classes with a histogram of their own (batch, m), None for all of them.

    The label is one of them, as what is asked of it is asked of every model, and the most frequent, which is certified.
    The others come most frequent first, by the number of the class on ties.

    Args:
        votes: (batch, classes) how often each class was predicted in the selection draws.
        labels: (batch,).
        most: m; 2 are kept at least.

    >>> classes_kept(torch.tensor([[5, 0, 7] + [0] * 98]), torch.tensor([50]), 3).tolist()
    [[50, 2, 0]]
    """
    classes = votes.shape[1]
    if classes <= ALL:
        return None
    at_front = votes.clone()
    at_front.scatter_(1, labels.unsqueeze(1), int(votes.max()) + 1)
    return at_front.sort(dim=1, descending=True, stable=True).indices[:, : max(most, 2)]


def class_bounds(scores: ClassScores, example: int, alpha: float, shifts: Floats, distance: float) -> Bounds:
    """Return between what the mean score of each column stays within each radius (columns, k), of one example.

    Guarantee: with probability at least 1 - alpha * columns / (columns + 1) over the draws, all of them do, at all
    radii, at once. :func:`entropy_bounds` at alpha / (columns + 1) holds together with it with probability 1 - alpha.

    Args:
        scores: What was counted.
        example: Position of the example.
        alpha: Probability of missing, in (0, 1).
        shifts: (k,) radii over sigma.
        distance: Of the law of the draws from that of the noise, in total variation.
    """
    lower, upper = cdf_bounds(
        scores.histogram[example].cpu().numpy(), alpha / (scores.columns + 1), shifts, distance=distance
    )
    return np.maximum(lower - SOFTMAX, 0), np.minimum(upper + SOFTMAX, 1)


def entropy_bounds(scores: ClassScores, alpha: Floats, shifts: Floats, distance: float, scalar: int = 0) -> Bounds:
    """Return between what the mean entropy of a draw stays within each radius (examples, k), in nats; or a part of it.

    Guarantee: with probability at least 1 - alpha over the draws, for each example. It is a smoothed score like a
    class's, bounded without a box: no more follows from the distribution of its draws. No number of classes enters.

    Args:
        scores: What was counted.
        alpha: (examples,) probabilities of missing, in (0, 1).
        shifts: (k,) radii over sigma.
        distance: Of the law of the draws from that of the noise, in total variation.
        scalar: 0 for the entropy; parts follow in their order.
    """
    lower, upper = cdf_bounds(scores.entropies[:, scalar].cpu().numpy(), alpha, shifts, distance=distance)
    largest = scores.most[scalar]
    return np.maximum(lower - SOFTMAX, 0) * largest, np.minimum(upper + SOFTMAX, 1) * largest
