"""Gradients through a smoothed classifier, against a direct computation."""

import weakref

import torch

from workers.attacks.smoothed import smoothed_logits

GENERATOR = torch.Generator().manual_seed(0)
FIRST = torch.randn(12, 8, generator=GENERATOR)
SECOND = torch.randn(3, 12, generator=GENERATOR)
IMAGES = torch.rand(5, 2, 2, 2, generator=GENERATOR)
NOISE = 0.3 * torch.randn(7, 2, 2, 2, generator=GENERATOR)


def network(images: torch.Tensor) -> torch.Tensor:
    return torch.tanh(images.flatten(1) @ FIRST.T) @ SECOND.T


def test_the_softmax_of_smoothed_logits_is_the_mean_score() -> None:
    mean = torch.stack([network(IMAGES + draw).softmax(1) for draw in NOISE]).mean(0)
    torch.testing.assert_close(smoothed_logits(network, NOISE, IMAGES).softmax(1), mean)


def test_its_gradient_is_that_of_the_mean_score() -> None:
    inputs = IMAGES.clone().requires_grad_()
    smoothed_logits(network, NOISE, inputs)[:, 1].sum().backward()
    direct = IMAGES.clone().requires_grad_()
    torch.stack([network(direct + draw).softmax(1) for draw in NOISE]).mean(0)[:, 1].log().sum().backward()
    torch.testing.assert_close(inputs.grad, direct.grad)


def test_a_saturated_network_keeps_a_gradient() -> None:
    """The mean of scores that round to 0 has no logarithm; the logsumexp of their logarithms has one."""
    inputs = IMAGES.clone().requires_grad_()
    logits = smoothed_logits(lambda images: 300 * network(images), NOISE[:1], inputs)
    logits.amin(1).sum().backward()
    assert logits.isfinite().all()
    assert inputs.grad is not None
    assert (inputs.grad.flatten(1).abs().amax(1) > 0).all()


def test_one_graph_is_held_at_a_time() -> None:
    """Every draw is computed again on the way back: what the forward pass keeps does not grow with the draws."""
    calls = []

    def counted(images: torch.Tensor) -> torch.Tensor:
        calls.append(len(images))
        return network(images)

    inputs = IMAGES.clone().requires_grad_()
    smoothed = smoothed_logits(counted, NOISE, inputs)
    assert len(calls) == len(NOISE)
    smoothed.sum().backward()
    assert calls == [len(IMAGES)] * (2 * len(NOISE))


def test_no_noisy_batch_outlives_its_forward_pass() -> None:
    """With 1000 draws, 64 photographs and a batch kept for each draw, 38 GB would be held."""
    seen = []

    def remembered(images: torch.Tensor) -> torch.Tensor:
        seen.append(weakref.ref(images))
        return network(images)

    smoothed = smoothed_logits(remembered, NOISE, IMAGES.clone().requires_grad_())
    assert smoothed.requires_grad
    assert [batch() for batch in seen] == [None] * len(NOISE)
