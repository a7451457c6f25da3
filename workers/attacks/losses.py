"""Losses on logits, one value per example, written so that float32 keeps a gradient where one exists.

All take logits (n, classes) and return (n,) in nats. They are summed over a batch, never averaged: an example's
gradient must not depend on how many neighbours it has.
"""

import torch
from torch import Tensor
from torch.nn.functional import softplus


def cross_entropy(logits: Tensor, labels: Tensor) -> Tensor:
    """Return -log softmax(logits)[label].

    Computed as softplus(logsumexp of the other classes - logit of the label). The usual log-softmax loses its float32
    gradient once the label leads by about 17 nats, because 1 - p rounds to 0; this form keeps it up to about 87.
    Minimised with the clean prediction as label it is the over-confidence attack (STAB; Ledda et al., eq. 10).

    Args:
        logits: (n, classes), at least two classes.
        labels: (n,) int64.

    >>> cross_entropy(torch.tensor([[30.0, 0.0]]), torch.tensor([0])).item() > 0
    True
    """
    labels = labels.unsqueeze(1)
    others = logits.scatter(1, labels, -torch.inf).logsumexp(1)
    return softplus(others - logits.gather(1, labels).squeeze(1))


def uniform_cross_entropy(logits: Tensor) -> Tensor:
    """Return the cross-entropy from the uniform distribution, -(1/C) sum_k log softmax(logits)[k].

    Minimised it is the under-confidence attack (Ledda et al., eq. 11). Its least value, log C, is at uniform logits;
    its gradient, softmax - 1/C, does not vanish when the softmax saturates.

    >>> round(uniform_cross_entropy(torch.zeros(1, 10)).item(), 4)
    2.3026
    """
    return logits.logsumexp(1) - logits.mean(1)


def entropy(logits: Tensor) -> Tensor:
    """Return the predictive entropy -sum_c f_c log f_c of the softmax, in float64.

    >>> entropy(torch.tensor([[1e4, 0.0]])).item()
    0.0
    """
    log_f = logits.double().log_softmax(1)
    # exp(-inf) * -inf is NaN where 0 log 0 = 0 is meant.
    return (log_f.exp() * -log_f.clamp_min(-1e300)).sum(1).clamp_min(0.0)


def confidence(logits: Tensor, labels: Tensor) -> Tensor:
    """Return the softmax probability of ``labels`` (n,), in float64.

    >>> confidence(torch.zeros(1, 4), torch.tensor([2])).item()
    0.25
    """
    return logits.double().softmax(1).gather(1, labels.unsqueeze(1)).squeeze(1)


def margin(logits: Tensor, labels: Tensor) -> Tensor:
    """Return the logit of ``labels`` (n,) less the largest other logit: negative when another class is predicted.

    >>> margin(torch.tensor([[3.0, 1.0, 0.0]]), torch.tensor([1])).item()
    -2.0
    """
    labels = labels.unsqueeze(1)
    return logits.gather(1, labels).squeeze(1) - logits.scatter(1, labels, -torch.inf).amax(1)
