"""Predictive entropy of several passes, split into what each is unsure of and what they disagree on.

The entropy of the mean probabilities is the mean entropy of the passes (aleatoric) and the mutual information of class
and pass (epistemic; Houlsby et al. 2011, BALD; Gal et al. 2017). Both are in nats, float64, and take logits
(n, passes, classes), or with any shape in place of n.
"""

import math
from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from seatrial.contracts.passes import Part


def aleatoric(logits: Tensor) -> Tensor:
    """Return the mean entropy of the passes (n,).

    >>> import torch
    >>> round(aleatoric(torch.tensor([[[0.0, 0.0], [1e4, 0.0]]])).item(), 4)
    0.3466
    """
    log_p = logits.double().log_softmax(-1)
    return (log_p.exp() * -log_p.clamp_min(-1e300)).sum(-1).mean(-1).clamp_min(0.0)


def epistemic(logits: Tensor) -> Tensor:
    """Return the mutual information of class and pass (n,): the mean divergence of the passes from their mean.

    Summed as a divergence, what passes agree on cancels before it is added up, and not after.

    >>> import torch
    >>> round(epistemic(torch.tensor([[[1e4, 0.0], [0.0, 1e4]]])).item(), 4)
    0.6931
    >>> epistemic(torch.tensor([[[3.0, 0.0], [3.0, 0.0]]])).item()
    0.0
    """
    log_p = logits.double().log_softmax(-1)
    log_mean = log_p.logsumexp(-2, keepdim=True) - math.log(logits.shape[-2])
    # Where a probability is 0 its term is 0, and -inf less -inf is NaN.
    ratio = log_p.clamp_min(-1e300) - log_mean.clamp_min(-1e300)
    return (log_p.exp() * ratio).sum(-1).mean(-1).clamp_min(0.0)


NOTHING = 0.01
"""Share of the largest epistemic part there could be below which it counts as nothing, or as the same everywhere."""

PARTS: dict[Part, Callable[[Tensor], Tensor]] = {"aleatoric": aleatoric, "epistemic": epistemic}


def largest_part(part: Part, passes: int, classes: int) -> float:
    """Return what a part is at most: no more than log(passes) is known of which pass it was.

    >>> round(largest_part("epistemic", 2, 10), 4), round(largest_part("aleatoric", 2, 10), 4)
    (0.6931, 2.3026)
    """
    return math.log(min(passes, classes) if part == "epistemic" else classes)


def parts_of(logits: Tensor, parts: Sequence[Part]) -> Tensor:
    """Return some parts (n, parts) of logits (n, passes, classes), float64."""
    return torch.stack([PARTS[part](logits) for part in parts], -1)
