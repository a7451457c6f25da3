import math
from dataclasses import replace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from tests.defences import builders
from workers.attacks.losses import entropy
from workers.defences import dent
from workers.defences.copies import affine_batch_norms
from workers.defences.dent import PRESETS, Dent, objective
from workers.defences.protocol import DefenceError

PARAMS = replace(PRESETS["cifar10"], learning_rate=0.05)
BATCH = builders.points(24)


def logits_of(seed: int, examples: int, classes: int, scale: float):
    return torch.randn(examples, classes, generator=builders.generator(seed), dtype=torch.float64) * scale


def adapted(base=None, batch=BATCH, params=PARAMS, seed=0):
    return Dent(params).adapt(base or builders.base(), None, batch, builders.generator(seed))


def direct(logits, offset):
    """The mean form, one probability at a time."""
    rows = [[math.exp(z - max(row)) for z in row] for row in logits.tolist()]
    rows = [[e / sum(row) for e in row] for row in rows]
    mean = [sum(column) / len(rows) for column in zip(*rows, strict=True)]
    entropies = [-sum(p * math.log(p + offset) for p in row) for row in rows]
    return sum(entropies) / len(rows) + sum(p * math.log(p + offset) for p in mean)


@given(seed=st.integers(0, 1000), examples=st.integers(1, 9), classes=st.integers(2, 6), scale=st.floats(0.1, 6))
def test_the_objective_is_what_the_formula_says(seed, examples, classes, scale) -> None:
    logits = logits_of(seed, examples, classes, scale)
    assert objective(logits).item() == pytest.approx(direct(logits, 1e-5), rel=1e-9, abs=1e-12)


@given(seed=st.integers(0, 1000), examples=st.integers(1, 9), classes=st.integers(2, 6), scale=st.floats(0.1, 6))
def test_equation_8_is_the_mean_form_times_the_batch_plus_b_log_b(seed, examples, classes, scale) -> None:
    logits = logits_of(seed, examples, classes, scale)
    expected = examples * direct(logits, 0.0) + examples * math.log(examples)
    assert objective(logits, "paper").item() == pytest.approx(expected, rel=1e-9, abs=1e-9)


def test_the_objective_has_a_finite_gradient_where_classes_have_no_probability_left() -> None:
    logits = torch.tensor([[1e4, 0.0, -1e4], [1e4, 0.0, -1e4]], requires_grad=True)
    for variant in ("official", "paper"):
        (gradient,) = torch.autograd.grad(objective(logits, variant), logits)
        assert gradient.isfinite().all()


def test_both_variants_arrive_at_nearly_the_same_place_since_adamod_sees_no_scale() -> None:
    first = adapted().logits(BATCH)
    second = adapted(params=replace(PARAMS, variant="paper")).logits(BATCH)
    assert not torch.equal(first, second)
    moved = (first - builders.base().logits(BATCH)).norm()
    assert (first - second).norm() < 0.05 * moved


def test_it_descends_its_objective() -> None:
    assert objective(adapted().logits(BATCH)) < objective(builders.base().logits(BATCH)) - 0.05


def test_a_hand_made_adaptation_arrives_at_the_same_logits() -> None:
    """One BatchNorm2d, plain torch: repeat its parameters, normalise by its running statistics, step by AdaMod."""
    torch.manual_seed(1)
    module = nn.Sequential(nn.Conv2d(1, 3, 3), nn.BatchNorm2d(3), nn.ReLU(), nn.Flatten(), nn.Linear(108, 10))
    with torch.no_grad():
        module[1].running_mean.copy_(torch.tensor([0.1, -0.2, 0.3]))
        module[1].running_var.copy_(torch.tensor([0.5, 2.0, 1.0]))
        module[1].weight.copy_(torch.tensor([1.0, 0.5, -1.0]))
    base, batch = builders.classifier(module), BATCH[:7]
    conv, norm, _, _, head = module
    gamma = norm.weight.detach().repeat(7, 1).requires_grad_()
    beta = norm.bias.detach().repeat(7, 1).requires_grad_()
    mean, deviation = norm.running_mean[:, None, None], (norm.running_var + norm.eps).sqrt()[:, None, None]

    def forward():
        normalised = (conv((batch - 0.3) / 0.4) - mean) / deviation
        return head((normalised * gamma[:, :, None, None] + beta[:, :, None, None]).relu().flatten(1))

    memory = {id(p): [torch.zeros_like(p) for _ in range(3)] for p in (gamma, beta)}
    for step in range(1, 7):
        gradients = torch.autograd.grad(objective(forward()), (gamma, beta))
        for parameter, gradient in zip((gamma, beta), gradients, strict=True):
            m, v, s = memory[id(parameter)]
            m.mul_(0.99).add_(0.01 * gradient)
            v.mul_(0.999).add_(0.001 * gradient**2)
            eta = 0.05 * math.sqrt(1 - 0.999**step) / (1 - 0.99**step) / (v.sqrt() + 1e-8)
            s.mul_(0.6).add_(0.4 * eta)
            with torch.no_grad():
                parameter -= torch.minimum(eta, s) * m
    torch.testing.assert_close(adapted(base, batch).logits(batch), forward().detach(), rtol=1e-3, atol=1e-4)


def test_parameters_start_at_the_base_at_every_call() -> None:
    defence, base = Dent(PARAMS), builders.base()
    first = defence.adapt(base, None, BATCH, builders.generator()).logits(BATCH)
    defence.adapt(base, None, builders.points(24, 1300), builders.generator())
    again = defence.adapt(base, None, BATCH, builders.generator()).logits(BATCH)
    assert torch.equal(again, first)
    assert defence.state() == {}


def test_permuting_the_batch_permutes_the_answers() -> None:
    order = torch.randperm(24, generator=builders.generator(3))
    torch.testing.assert_close(
        adapted(batch=BATCH[order]).logits(BATCH[order]), adapted().logits(BATCH)[order], rtol=1e-3, atol=1e-4
    )


def test_rows_say_which_parameters_an_image_has() -> None:
    found, indices = adapted(), torch.tensor([20, 3, 3])
    together = found.logits(BATCH)
    torch.testing.assert_close(found.logits(BATCH[indices], indices), together[indices])
    assert not torch.allclose(found.logits(BATCH[indices], torch.tensor([1, 2, 4])), together[indices], atol=1e-2)


def test_images_without_rows_must_be_those_of_the_batch() -> None:
    found = adapted()
    with pytest.raises(ValueError, match="parameters of 24 examples for 3 images"):
        found.logits(BATCH[:3])
    with pytest.raises(ValueError, match="parameters of 2 examples for 3 images"):
        found.logits(BATCH[:3], torch.tensor([0, 1]))


def test_examples_touch_each_other_only_through_the_mean_answer(monkeypatch) -> None:
    """With the entropy of the mean answer out of the objective, an example adapts as if it were alone."""
    monkeypatch.setattr(dent, "objective", lambda logits, variant: entropy(logits).sum())
    together = adapted().logits(BATCH)
    for row in (0, 11, 23):
        alone = adapted(batch=BATCH[row : row + 1]).logits(BATCH[row : row + 1])
        torch.testing.assert_close(together[row : row + 1], alone, rtol=1e-3, atol=1e-4)
    monkeypatch.undo()
    assert not torch.allclose(adapted().logits(BATCH), together, atol=0.1)


def test_a_batch_of_one_class_is_pushed_away_from_its_label() -> None:
    """The same points do worse among their own kind: sorting changes nothing but the mean answer."""
    pool, labels = builders.points(400), builders.labels(1200, 400)
    of_one_class = pool[labels == 4][:24]
    mixed = torch.cat([of_one_class[:8], *(pool[labels == k][:2] for k in range(10) if k != 4)])
    sorted_answers = adapted(batch=of_one_class).logits(of_one_class)[:8].softmax(1)[:, 4]
    mixed_answers = adapted(batch=mixed).logits(mixed)[:8].softmax(1)[:, 4]
    assert sorted_answers.mean() < mixed_answers.mean() - 0.05


def test_running_statistics_and_every_other_weight_of_the_base_stay() -> None:
    base = builders.base()
    before, answers = builders.weights(base), base.logits(BATCH)
    found = adapted(base)
    assert builders.same(builders.weights(base), before)
    assert torch.equal(base.logits(BATCH), answers)
    assert not base.module.training
    assert list(affine_batch_norms(base.module, "X")) == ["1", "3.1"]
    kept = found._network.module.state_dict()
    assert torch.equal(kept["1.mean"], before["1.running_mean"])
    assert torch.equal(kept["3.1.variance"], before["3.1.running_var"])


def test_what_was_adapted_never_changes() -> None:
    defence, base = Dent(PARAMS), builders.base()
    found = defence.adapt(base, None, BATCH, builders.generator())
    before = found.logits(BATCH)
    defence.adapt(base, None, builders.points(24, 1300), builders.generator())
    with torch.no_grad():
        base.module[0].weight.zero_()
    assert torch.equal(found.logits(BATCH), before)


def test_answers_have_a_gradient_at_their_images_alone() -> None:
    found, images = adapted(), BATCH.clone().requires_grad_()
    (gradient,) = torch.autograd.grad(found.logits(images)[5].square().sum(), images)
    assert gradient[5].abs().max() > 0
    assert gradient[:5].abs().max() == gradient[6:].abs().max() == 0
    assert not found.logits(BATCH).requires_grad


def test_dropout_is_on_while_adapting_by_the_generator_and_off_in_the_answer() -> None:
    base = builders.base(dropout=0.5)
    found = adapted(base, seed=1)
    assert torch.equal(found.logits(BATCH), found.logits(BATCH))
    assert torch.equal(found.logits(BATCH), adapted(base, seed=1).logits(BATCH))
    assert not torch.equal(found.logits(BATCH), adapted(base, seed=2).logits(BATCH))


def test_a_caller_without_gradients_gets_the_same() -> None:
    with torch.no_grad():
        found = adapted().logits(BATCH)
    assert torch.equal(found, adapted().logits(BATCH))


def test_a_model_without_batch_norm_is_refused() -> None:
    with pytest.raises(DefenceError, match=r"DENT moves .* no BatchNorm2d"):
        adapted(builders.classifier(nn.Sequential(nn.Flatten(), nn.Linear(64, 10))))


def test_every_pass_ticks_and_a_tick_may_stop_it() -> None:
    ticks: list[int] = []
    Dent(PARAMS, check_cancelled=lambda: ticks.append(1)).adapt(builders.base(), None, BATCH, builders.generator())
    assert len(ticks) == 2 * PARAMS.steps

    def stop() -> None:
        raise InterruptedError

    with pytest.raises(InterruptedError):
        Dent(PARAMS, check_cancelled=stop).adapt(builders.base(), None, BATCH, builders.generator())
