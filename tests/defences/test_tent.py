from dataclasses import replace

import pytest
import torch
from torch import nn

from tests.defences import builders
from workers.defences.protocol import OPTIMIZER, DefenceError
from workers.defences.tent import PRESETS, Tent, entropy

PARAMS = replace(PRESETS["small"], learning_rate=0.02)
EPISODIC = replace(PARAMS, is_episodic=True)


def batches(count: int):
    return [builders.points(40, 1200 + 40 * i) for i in range(count)]


def reference(base, rounds, steps, learning_rate):
    """TENT's loop over a copy in training mode, without its own statistics; each round's last outputs."""
    module = builders.network()
    module.load_state_dict(base.module.state_dict())
    module.train().requires_grad_(False)
    norms = [layer for layer in module.modules() if isinstance(layer, nn.BatchNorm2d)]
    for layer in norms:
        layer.requires_grad_(True)
        layer.track_running_stats, layer.running_mean, layer.running_var = False, None, None
    optimizer = torch.optim.Adam([p for layer in norms for p in (layer.weight, layer.bias)], lr=learning_rate)
    answers = []
    for images in rounds:
        for _ in range(steps):
            logits = module((images - 0.3) / 0.4)
            optimizer.zero_grad()
            torch.distributions.Categorical(logits=logits).entropy().mean().backward()
            optimizer.step()
        answers.append(logits.detach())
    return answers


@pytest.mark.parametrize("steps", [1, 3])
def test_online_adaptation_agrees_with_a_plain_loop(steps) -> None:
    base, defence = builders.base(), Tent(replace(PARAMS, steps=steps))
    rounds = batches(4)
    found = [defence.adapt(base, None, images, builders.generator()).logits(images) for images in rounds]
    for ours, theirs in zip(found, reference(base, rounds, steps, PARAMS.learning_rate), strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-3, atol=1e-3)


def test_an_image_alone_is_answered_as_in_its_batch() -> None:
    (images,) = batches(1)
    found = Tent(PARAMS).adapt(builders.base(), None, images, builders.generator())
    torch.testing.assert_close(found.logits(images[7:9]), found.logits(images)[7:9])


def test_many_steps_lower_the_entropy() -> None:
    (images,) = batches(1)
    one, many = (
        Tent(replace(EPISODIC, steps=steps)).adapt(builders.base(), None, images, builders.generator())
        for steps in (1, 12)
    )
    assert entropy(many.logits(images)) < entropy(one.logits(images)) - 0.05


def test_episodic_rounds_know_nothing_of_each_other() -> None:
    first, second = batches(2)
    base, defence = builders.base(), Tent(replace(EPISODIC, steps=3))
    before = defence.adapt(base, None, second, builders.generator()).logits(second)
    defence.adapt(base, None, first, builders.generator())
    assert torch.equal(defence.adapt(base, None, second, builders.generator()).logits(second), before)
    assert defence.state() == {}
    assert not defence.traits.is_stateful


def test_another_defender_goes_on_from_the_state_bit_for_bit() -> None:
    first, second, third = batches(3)
    base, one, other = builders.base(), Tent(PARAMS), Tent(PARAMS)
    one.adapt(base, None, first, builders.generator())
    kept = one.state()
    expected = [one.adapt(base, None, images, builders.generator()).logits(images) for images in (second, third)]
    other.restore(kept)
    assert builders.same(other.state(), kept)
    found = [other.adapt(base, None, images, builders.generator()).logits(images) for images in (second, third)]
    assert all(torch.equal(a, b) for a, b in zip(found, expected, strict=True))
    assert builders.same(other.state(), one.state())


def test_a_state_without_moments_is_one_with_a_new_optimiser() -> None:
    first, second = batches(2)
    base, one = builders.base(), Tent(PARAMS)
    one.adapt(base, None, first, builders.generator())
    kept = one.state()
    one.adapt(base, None, second, builders.generator())
    fresh = Tent(PARAMS)
    fresh.restore({name: value for name, value in kept.items() if not name.startswith(OPTIMIZER)})
    fresh.adapt(base, None, second, builders.generator())
    assert fresh.state()["optimizer.0.step"] == 1
    assert one.state()["optimizer.0.step"] == 2
    assert not torch.equal(fresh.state()["weights.1.bias"], one.state()["weights.1.bias"])


def test_the_empty_state_is_the_base() -> None:
    first, second = batches(2)
    base, defence = builders.base(), Tent(PARAMS)
    expected = defence.adapt(base, None, first, builders.generator()).logits(first)
    defence.adapt(base, None, second, builders.generator())
    defence.restore({})
    assert torch.equal(defence.adapt(base, None, first, builders.generator()).logits(first), expected)


def test_base_and_what_was_adapted_stay_as_they_are() -> None:
    first, second = batches(2)
    base, defence = builders.base(), Tent(PARAMS)
    before = builders.weights(base)
    found = defence.adapt(base, None, first, builders.generator())
    answers = found.logits(first)
    defence.adapt(base, None, second, builders.generator())
    assert torch.equal(found.logits(first), answers)
    assert builders.same(builders.weights(base), before)
    assert not base.module.training


def test_answers_have_a_gradient_at_their_images() -> None:
    (images,) = batches(1)
    found = Tent(PARAMS).adapt(builders.base(), None, images, builders.generator())
    inputs = images.clone().requires_grad_()
    (gradient,) = torch.autograd.grad(found.logits(inputs)[5].square().sum(), inputs)
    assert gradient[5].abs().max() > 0
    assert gradient[6:].abs().max() == 0


def test_models_it_cannot_adapt_are_refused() -> None:
    (images,) = batches(1)
    without = builders.classifier(nn.Sequential(nn.Flatten(), nn.Linear(64, 10)))
    with pytest.raises(DefenceError, match="no BatchNorm2d"):
        Tent(PARAMS).adapt(without, None, images, builders.generator())
    single = builders.classifier(nn.Sequential(nn.Conv2d(1, 10, 8), nn.BatchNorm2d(10), nn.Flatten()))
    with pytest.raises(DefenceError, match="one value per channel"):
        Tent(PARAMS).adapt(single, None, images[:1], builders.generator())


def test_every_pass_ticks() -> None:
    ticks: list[int] = []
    defence = Tent(replace(PARAMS, steps=3), check_cancelled=lambda: ticks.append(1))
    defence.adapt(builders.base(), None, batches(1)[0], builders.generator())
    assert len(ticks) == 6
