import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from workers.defences.adamod import AdaMod


def literal(start, gradients, rate, betas, eps, decay):
    """Algorithm 1 of the paper, entry by entry."""
    beta1, beta2, beta3 = betas
    p, m, v, s = start.astype(np.float64).copy(), *(np.zeros(start.shape) for _ in range(3))
    for t, g in enumerate(gradients, 1):
        for i in range(len(p)):
            m[i] = beta1 * m[i] + (1 - beta1) * g[i]
            v[i] = beta2 * v[i] + (1 - beta2) * g[i] ** 2
            eta = rate * math.sqrt(1 - beta2**t) / (1 - beta1**t) / (math.sqrt(v[i]) + eps)
            s[i] = beta3 * s[i] + (1 - beta3) * eta
            p[i] = p[i] - decay * rate * p[i] - min(eta, s[i]) * m[i]
    return p


@given(
    seed=st.integers(0, 10_000),
    steps=st.integers(1, 12),
    rate=st.sampled_from([6e-3, 1e-1]),
    betas=st.sampled_from([(0.99, 0.999, 0.6), (0.9, 0.999, 0.999), (0.0, 0.5, 0.0)]),
    decay=st.sampled_from([0.0, 0.1]),
)
def test_agrees_with_a_literal_loop(seed, steps, rate, betas, decay) -> None:
    random = np.random.default_rng(seed)
    # Gradients of very different sizes, zeros among them, so that now eta and now its mean is the smaller one.
    gradients = random.normal(size=(steps, 5)) * 10.0 ** random.integers(-4, 3, size=(steps, 1))
    gradients[:, 0] = 0
    start = random.normal(size=5)
    parameter = nn.Parameter(torch.tensor(start))
    optimizer = AdaMod([parameter], rate=rate, betas=betas, weight_decay=decay)
    for gradient in gradients:
        parameter.grad = torch.tensor(gradient)
        optimizer.step()
    expected = literal(start, gradients, rate, betas, 1e-8, decay)
    np.testing.assert_allclose(parameter.detach().numpy(), expected, rtol=1e-9, atol=1e-12)


def test_the_first_step_is_short_because_the_mean_of_the_step_sizes_begins_at_zero() -> None:
    parameter = nn.Parameter(torch.zeros(1, dtype=torch.float64))
    parameter.grad = torch.tensor([3.0], dtype=torch.float64)
    AdaMod([parameter], rate=0.1, betas=(0.99, 0.999, 0.6)).step()
    # Adam's first step is the rate; s is 0.4 of it.
    assert parameter.item() == pytest.approx(-0.04, rel=1e-6)


def test_parameters_without_a_gradient_stay() -> None:
    moved, still = nn.Parameter(torch.ones(1)), nn.Parameter(torch.ones(1))
    optimizer = AdaMod([moved, still], rate=0.1, betas=(0.9, 0.99, 0.5))
    loss = optimizer.step(lambda: (moved**2).sum().backward() or 1.5)
    assert loss == 1.5
    assert moved.item() < 1 == still.item()


@pytest.mark.parametrize(
    "changes",
    [{"rate": 0.0}, {"betas": (0.9, 0.999, 1.0)}, {"eps": 0.0}, {"weight_decay": -1.0}],
    ids=lambda c: next(iter(c)),
)
def test_numbers_out_of_range_are_refused(changes) -> None:
    with pytest.raises(ValueError, match="not an optimiser"):
        AdaMod([nn.Parameter(torch.ones(1))], **({"rate": 0.1, "betas": (0.9, 0.99, 0.5)} | changes))
