"""One step of each method that trains image models equals one computed by hand."""

import math
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.distributions import Normal

from seatrial.contracts.training import methods
from tests.training.builders import (
    batch_of,
    cnn,
    gradients,
    image_data,
    linear,
    set_gradients_to_none,
    step_of,
    trainable,
)
from workers.certification.worst_calibration import worst_calibration_error
from workers.training.data import InMemory
from workers.training.engine import train

WEIGHTS = torch.tensor([[2.0, -1.0, 0.5, 0.0], [-1.0, 1.5, 0.0, 1.0], [0.3, 0.2, -0.7, 0.4]])


def _made(slug: str, model: Any, **body: Any) -> Any:
    spec = methods()[slug]
    params = spec.params.model_validate({"method": slug, **body})
    return spec.load()(params, model)


def _row_data(count: int = 5, *, spread: float = 0.4) -> tuple[Tensor, Tensor]:
    draw = torch.Generator().manual_seed(1)
    return 0.5 + spread * (torch.rand(count, 1, 1, 4, generator=draw) - 0.5), torch.randint(3, (count,), generator=draw)


def _input_gradient(images: Tensor, labels: Tensor) -> Tensor:
    """Of cross-entropy of a linear model, in closed form."""
    error = torch.softmax(images.flatten(1) @ WEIGHTS.T, 1) - F.one_hot(labels, 3)
    return (error @ WEIGHTS).view_as(images)


@pytest.mark.parametrize("norm", ["linf", "l2"])
def test_pgd_goes_up_the_gradient_and_stays_in_the_ball(norm: str) -> None:
    images, labels = _row_data()
    method = _made("adversarial", linear(WEIGHTS), norm=norm, epsilon=0.1, steps=2, step_size=0.07, random_start=False)
    expected = images
    for _ in range(2):
        gradient = _input_gradient(expected, labels)
        unit = gradient.sign() if norm == "linf" else gradient / gradient.flatten(1).norm(dim=1).view(-1, 1, 1, 1)
        delta = expected + 0.07 * unit - images
        if norm == "linf":
            delta = delta.clamp(-0.1, 0.1)
        else:
            delta = delta * (0.1 / delta.flatten(1).norm(dim=1)).clamp_max(1).view(-1, 1, 1, 1)
        expected = images + delta
    found = method.perturb(images, labels, step_of(method.model))
    assert torch.allclose(found, expected, atol=1e-6)


def test_adversarial_training_takes_the_gradient_at_the_attacked_images_alone() -> None:
    model, batch = cnn(has_norm=False), batch_of(image_data(6))
    method = _made("adversarial", model, epsilon=0.1, steps=3)
    model.module.train()
    torch.manual_seed(5)
    method.accumulate(batch, 0.5, step_of(model, 6))
    found = gradients(model)
    set_gradients_to_none(model)
    perturbed = method.perturb(batch.inputs, batch.labels, step_of(model, 6))
    torch.manual_seed(5)
    (F.cross_entropy(model.logits(perturbed), batch.labels) * 0.5).backward()
    assert model.module.training
    # The attack itself draws nothing for dropout and leaves no gradients: it sees eval mode and frozen weights.
    assert all(torch.allclose(a, b, atol=1e-6) for a, b in zip(found, gradients(model), strict=True))
    assert float((perturbed - batch.inputs).abs().max()) <= 0.1 + 1e-6


def test_trades_is_cross_entropy_and_the_divergence_it_attacks() -> None:
    images, labels = _row_data()
    model = linear(WEIGHTS)
    method = _made("adversarial", model, loss="trades", epsilon=0.1, steps=4, beta=3.0, norm="l2")
    batch = batch_of(image_data(1)).__class__(tuple(range(5)), images, labels)
    perturbed = method.perturb(images, labels, step_of(model, 5))
    loss = method.accumulate(batch, 1.0, step_of(model, 5))
    clean, attacked = (x.flatten(1) @ WEIGHTS.T for x in (images, perturbed))
    p, q = clean.softmax(1), attacked.softmax(1)
    kl = (p * (p.log() - q.log())).sum(1)
    expected = -p[torch.arange(5), labels].log().mean() + 3.0 * kl.mean()
    assert float(loss) == pytest.approx(float(expected), rel=1e-5)
    # d KL / d logits: of the attacked ones q - p, of the clean ones p (log p - log q - KL).
    by_clean = (p - F.one_hot(labels, 3)) / 5 + 3.0 * p * (p.log() - q.log() - kl.unsqueeze(1)) / 5
    wanted = by_clean.T @ images.flatten(1) + (3.0 * (q - p) / 5).T @ perturbed.flatten(1)
    assert torch.allclose(gradients(model)[0], wanted, atol=1e-5)
    near = images + 1e-3 * torch.randn(images.shape, generator=torch.Generator().manual_seed(0))
    at_start = near.flatten(1) @ WEIGHTS.T
    assert float(kl.mean()) > 10 * float((p * (p.log() - at_start.log_softmax(1))).sum(1).mean())


def test_gaussian_training_is_cross_entropy_of_every_noisy_copy() -> None:
    images, labels = _row_data()
    model = linear(WEIGHTS)
    method = _made("gaussian", model, sigma=0.5, draws=3)
    batch = batch_of(image_data(1)).__class__(tuple(range(5)), images, labels)
    method.accumulate(batch, 1.0, step_of(model, 5, seed=9))
    noise = 0.5 * torch.randn(3, *images.shape, generator=torch.Generator().manual_seed(9))
    expected = torch.zeros_like(WEIGHTS)
    for each in noise:
        noisy = (images + each).flatten(1)
        expected += (torch.softmax(noisy @ WEIGHTS.T, 1) - F.one_hot(labels, 3)).T @ noisy / 15
    assert torch.allclose(gradients(model)[0], expected, atol=1e-6)


def _official_smoothadv(images: Tensor, labels: Tensor, noise: Tensor, epsilon: float, steps: int) -> Tensor:
    """The attack step of Salman et al.'s ``attacks.py`` on a linear model, its gradient written out."""
    delta = torch.zeros_like(images)
    for _ in range(steps):
        flat = (images + delta + noise).flatten(2)
        p = torch.softmax(flat @ WEIGHTS.T, 2)
        n = len(images)
        of_label = p[:, torch.arange(n), labels]
        mean = of_label.mean(0)
        # d(-log mean_j p_j) / dx = -sum_j p_jy (W_y - sum_k p_jk W_k) / (m mean)
        inner = WEIGHTS[labels] - p @ WEIGHTS
        gradient = -(of_label.unsqueeze(2) * inner).mean(0) / mean.unsqueeze(1)
        gradient = gradient / gradient.norm(dim=1, keepdim=True)
        delta = delta + 2 * epsilon / steps * gradient.view_as(images)
        delta = (images + delta).clamp(0, 1) - images
        norms = delta.flatten(1).norm(dim=1).view(-1, 1, 1, 1)
        delta = torch.where(norms > epsilon, delta * epsilon / norms, delta)
    return delta


@pytest.mark.parametrize("draws", [1, 4])
def test_smoothadv_steps_as_the_official_code(draws: int) -> None:
    images, labels = _row_data(spread=0.95)
    model = linear(WEIGHTS)
    method = _made("smoothadv", model, sigma=0.3, epsilon=0.6, steps=3, draws=draws)
    batch = batch_of(image_data(1)).__class__(tuple(range(5)), images, labels)
    method.accumulate(batch, 1.0, step_of(model, 5, seed=4))
    noise = 0.3 * torch.randn(draws, *images.shape, generator=torch.Generator().manual_seed(4))
    delta = _official_smoothadv(images, labels, noise, 0.6, 3)
    # The radius and the box both bind, so that their order shows.
    assert bool((delta.flatten(1).norm(dim=1) > 0.59).any())
    assert bool(((images + delta) > 0.999).any() or ((images + delta) < 0.001).any())
    expected = torch.zeros_like(WEIGHTS)
    for each in noise:
        at = (images + delta + each).flatten(1)
        expected += (torch.softmax(at @ WEIGHTS.T, 1) - F.one_hot(labels, 3)).T @ at / (5 * draws)
    assert torch.allclose(gradients(model)[0], expected, atol=1e-5)


def test_smoothadv_warms_up_trains_one_draw_on_request_and_goes_somewhere_without_a_gradient() -> None:
    method = _made("smoothadv", linear(WEIGHTS), epsilon=0.6, warmup_epochs=3)
    assert [method.radius(epoch) for epoch in range(4)] == pytest.approx([0.2, 0.4, 0.6, 0.6])
    images, labels = _row_data()
    flat = linear(torch.zeros_like(WEIGHTS))
    method = _made("smoothadv", flat, epsilon=0.2, trains_all_draws=False)
    noise = torch.zeros(2, *images.shape)
    delta = method.perturb(images, labels, noise, step_of(flat)) - images
    assert torch.allclose(delta.flatten(1).norm(dim=1), torch.full((5,), 0.2), atol=0.1)
    batch = batch_of(image_data(1)).__class__(tuple(range(5)), images, labels)
    # All logits are alike: the loss is log 3 whichever draws are trained.
    assert float(method.accumulate(batch, 1.0, step_of(flat))) == pytest.approx(math.log(3))


def test_brier_act_goes_up_the_brier_score_of_the_top_label() -> None:
    images, labels = _row_data()
    model = linear(WEIGHTS)
    method = _made("brier_act", model, sigma=0.3, epsilon=0.2, steps=1, draws=3, warmup_epochs=1, step_factor=0.5)
    noise = 0.3 * torch.randn(3, *images.shape, generator=torch.Generator().manual_seed(2))
    p = torch.softmax((images + noise).flatten(2) @ WEIGHTS.T, 2)
    confidence, top = p.mean(0).max(1)
    correct = (top == labels).float()
    assert 0 < float(correct.sum()) < 5
    of_top = p[:, torch.arange(5), top].unsqueeze(2)
    by_input = (of_top * (WEIGHTS[top] - p @ WEIGHTS)).mean(0)
    gradient = 2 * (confidence - correct).unsqueeze(1) * by_input
    expected = 0.5 * 2 * 0.2 * gradient / gradient.norm(dim=1, keepdim=True)
    delta = method.perturb(images, labels, noise, step_of(model, 5)) - images
    assert torch.allclose(delta.flatten(1), expected, atol=1e-5)


def test_the_exact_adversary_pushes_confidences_where_the_largest_error_has_them() -> None:
    images, labels = _row_data(12)
    model = linear(WEIGHTS)
    method = _made("acce_act", model, inner="exact", sigma=0.3, epsilon=0.2, steps=1, draws=4, warmup_epochs=1, bins=5)
    noise = 0.3 * torch.randn(4, *images.shape, generator=torch.Generator().manual_seed(2))
    p = torch.softmax((images + noise).flatten(2) @ WEIGHTS.T, 2)
    confidence, top = p.mean(0).max(1)
    normal = Normal(0.0, 1.0)
    shift = torch.tensor(0.2 / 0.3, dtype=torch.float64)
    z = normal.icdf(confidence.double())
    worst = worst_calibration_error(normal.cdf(z - shift), normal.cdf(z + shift), (top == labels).numpy(), 5)
    signs = torch.as_tensor(worst.signs[worst.bins])
    assert set(signs.tolist()) == {-1, 1}
    by_input = (p[:, torch.arange(12), top].unsqueeze(2) * (WEIGHTS[top] - p @ WEIGHTS)).mean(0)
    expected = 0.4 * signs.unsqueeze(1) * by_input / by_input.norm(dim=1, keepdim=True)
    # Steps of twice the radius end on the ball.
    expected = expected / 2
    step = step_of(model, 12)
    delta = (method.perturb(images, labels, noise, step) - images).flatten(1)
    inside = ((images.flatten(1) + expected) > 0).all(1) & ((images.flatten(1) + expected) < 1).all(1)
    assert int(inside.sum()) > 5
    assert torch.allclose(delta[inside], expected[inside].float(), atol=1e-4)


def _ece(confidence: Tensor, correct: Tensor, bins: int) -> float:
    which = (confidence * bins).long().clamp_max(bins - 1)
    return float(
        sum(abs(float((correct[which == b] - confidence[which == b]).sum())) for b in range(bins)) / len(confidence)
    )


@pytest.mark.parametrize("inner", ["admm", "exact"])
def test_calibration_adversaries_raise_the_calibration_error_of_a_batch(inner: str) -> None:
    draw = torch.Generator().manual_seed(3)
    images = torch.rand(300, 1, 1, 4, generator=draw)
    weights = 3 * WEIGHTS
    logits = images.flatten(1) @ weights.T
    # Labels drawn as the model says: it is calibrated before the attack.
    labels = torch.multinomial(logits.softmax(1), 1, generator=draw)[:, 0]
    model = linear(weights)
    method = _made("acce_act", model, inner=inner, sigma=0.1, epsilon=0.15, steps=10, draws=4, warmup_epochs=1, bins=10)
    noise = 0.1 * torch.randn(4, *images.shape, generator=draw)
    perturbed = method.perturb(images, labels, noise, step_of(model, 300))
    found = []
    for at in (images, perturbed):
        confidence, top = torch.softmax((at + noise).flatten(2) @ weights.T, 2).mean(0).max(1)
        found.append(_ece(confidence, (top == labels).float(), 10))
    assert found[1] > 2 * found[0], found
    assert float((perturbed - images).flatten(1).norm(dim=1).max()) <= 0.15 + 1e-5


def test_bounds_of_few_draws_are_wide_on_request() -> None:
    model = linear(WEIGHTS)
    mean = np.array([0.9])
    narrow = _made("acce_act", model).intervals(mean, 8, 0.0)
    wide = _made("acce_act", model, bound_alpha=0.001).intervals(mean, 8, 0.0)
    assert narrow[0][0] == pytest.approx(0.9)
    assert wide[0][0] < 0.5
    assert wide[1][0] == 1.0


@pytest.mark.parametrize("slug", ["adversarial", "gaussian", "smoothadv", "brier_act", "acce_act"])
def test_every_method_trains_and_reports_accuracy_under_its_attack(slug: str) -> None:
    model = cnn(dropout=0)
    method = _made(slug, model, epochs=2, batch_size=20, learning_rate=0.05)
    outcome = train(model, method, method.params, image_data(40), image_data(12, seed=1), seed=0)
    assert len(outcome.curves) == 2
    assert 0 <= outcome.curves[0]["attacked_accuracy"] <= 1
    assert all(torch.isfinite(each).all() for each in model.module.parameters())


def _fragile_data(count: int, seed: int) -> InMemory:
    """One pixel tells the class by far, nine times in ten; 19 tell it always, by less than the attack moves them."""
    draw = torch.Generator().manual_seed(seed)
    labels = torch.randint(2, (count,), generator=draw)
    sign = 2.0 * labels - 1
    images = 0.5 + 0.05 * sign.unsqueeze(1) + 0.01 * torch.randn(count, 20, generator=draw)
    lies = torch.rand(count, generator=draw) < 0.1
    images[:, 0] = 0.5 + 0.3 * torch.where(lies, -sign, sign)
    return InMemory(images.view(count, 1, 1, 20), labels.numpy())


def test_adversarial_training_makes_a_model_more_robust_than_plain_training() -> None:
    data, held_out = _fragile_data(200, 0), _fragile_data(100, 1)
    found = []
    for slug, body in (("adversarial", {"epsilon": 0.1, "steps": 3}), ("gaussian", {"sigma": 1e-6})):
        layers = nn.Sequential(nn.Flatten(), nn.Linear(20, 2))
        nn.init.zeros_(layers[1].weight)
        model = trainable(layers, (1, 1, 20), 2, mean=0.5, std=0.1)
        method = _made(slug, model, epochs=20, learning_rate=0.2, momentum=0, keep="last", **body)
        train(model, method, method.params, data, held_out, seed=0)
        judge, batch = _made("adversarial", model, epsilon=0.1, steps=10), batch_of(held_out)
        found.append(float((judge.attacked(batch, step_of(model)).argmax(1) == batch.labels).float().mean()))
    hardened, plain = found
    assert hardened > 0.8 > 0.5 > plain, found


@pytest.mark.parametrize("inner", ["admm", "exact"])
def test_a_batch_that_is_calibrated_together_is_attacked_the_same_in_micro_batches(inner: str) -> None:
    data, found = image_data(30), []
    for micro in (None, 7):
        model = cnn(dropout=0, has_norm=False)
        asked = {"inner": inner, "steps": 3, "draws": 2, "epsilon": 0.4, "batch_size": 30, "micro_batch_size": micro}
        method = _made("acce_act", model, epochs=2, warmup_epochs=1, learning_rate=0.1, **asked)
        held: list[int] = []
        model.module.register_forward_hook(lambda module, inputs, output, held=held: held.append(len(output)))
        outcome = train(model, method, method.params, data, image_data(12, seed=1), seed=0)
        found.append((outcome.curves[-1]["train_loss"], [each.clone() for each in model.module.parameters()]))
        assert max(held) == 2 * (micro or 30)
    (whole, weights), (cut, others) = found
    assert cut == pytest.approx(whole, rel=1e-4)
    assert all(torch.allclose(a, b, atol=1e-4) for a, b in zip(weights, others, strict=True))
