import math
from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from tests.defences.builders import base, generator, images, labels, points, same, training
from workers.defences.dann import PRESETS, Dann, DannParams, alpha_at
from workers.defences.networks import Standardise, convolutional_domain_network
from workers.defences.protocol import DefenceError, Training

TINY = replace(PRESETS["small"], epochs=2, batch_size=16)


def accuracy(model, inputs: Tensor, expected: Tensor) -> float:
    return float((model.logits(inputs).argmax(1) == expected).float().mean())


def test_alpha_rises_from_nothing_to_its_largest_value() -> None:
    assert alpha_at(0.0, 0.1) == 0.0
    # tanh(x / 2) = 2 / (1 + exp(-x)) - 1.
    for progress in (0.05, 0.25, 0.5, 0.99):
        assert alpha_at(progress, 0.1) == pytest.approx(0.1 * math.tanh(5 * progress))
        assert alpha_at(progress, 1.0) == pytest.approx(math.tanh(5 * progress))


def by_hand(params: DannParams, sample: Training, target: Tensor, seed: int) -> dict[str, Tensor]:
    """Train without a reversal layer: two gradients, the second put in the other way round below the features."""
    random = generator(seed)
    with torch.random.fork_rng():
        torch.manual_seed(int(torch.randint(2**63 - 1, (), generator=random)))
        network = convolutional_domain_network(
            (1, 8, 8), 10, Standardise.of(sample.images), channels=(16, 32), hidden=64, depths=(1, 1, 1)
        )
        optimizer = torch.optim.SGD(network.parameters(), lr=params.learning_rate, momentum=0.9, nesterov=True)
        batches = min(len(sample), len(target)) // params.batch_size
        for epoch in range(params.epochs):
            optimizer.param_groups[0]["lr"] = params.learning_rate * (0.1 if epoch >= 1 else 1.0)
            order_of_source = torch.randperm(len(sample), generator=random)
            order_of_target = torch.randperm(len(target), generator=random)
            for batch in range(batches):
                at = slice(batch * params.batch_size, (batch + 1) * params.batch_size)
                source = network.features(sample.images[order_of_source[at]])
                answers, told = network.predictor(source), network.discriminator(source)
                other = network.features(target[order_of_target[at]])
                network.predictor(other)
                told = torch.cat([told, network.discriminator(other)])
                size = params.batch_size
                labelling = F.cross_entropy(answers, sample.labels[order_of_source[at]])
                telling = 2 * F.cross_entropy(told, torch.tensor([0] * size + [1] * size))
                p = (batch + epoch * batches) / (params.epochs * batches)
                alpha = (2 / (1 + math.exp(-10 * p)) - 1) * params.alpha
                for name, parameter in network.named_parameters():
                    one, two = (
                        torch.autograd.grad(loss, parameter, retain_graph=True, allow_unused=True)[0]
                        for loss in (labelling, telling)
                    )
                    sign = -alpha if name.startswith("features.") else 1.0
                    parameter.grad = (0 if one is None else one) + (0 if two is None else sign * two)
                optimizer.step()
    return network.classifier.state_dict()


# 48 examples and 32 points: an epoch has the 2 batches of the points. 32 and 48: the 2 of the examples.
@pytest.mark.parametrize(("examples", "test_points"), [(48, 32), (32, 48)])
def test_training_agrees_with_one_without_a_reversal_layer(examples, test_points) -> None:
    # Not by Adam: a bias before batch norm has no gradient but rounding, which Adam makes a full step of.
    params = replace(TINY, alpha=1.0, optimizer="sgd", learning_rate=0.01, milestones=(1,))
    found = Dann(params).adapt(base(), training(examples), points(test_points), generator(3)).state()
    expected = by_hand(params, training(examples), points(test_points), 3)
    torch.testing.assert_close(found, dict(expected), rtol=1e-4, atol=1e-6)


@pytest.mark.slow
def test_it_answers_shifted_digits_better_than_a_network_that_has_not_seen_them() -> None:
    shifted, expected = 0.5 + 0.5 * images(1200, 200), labels(1200, 200)
    defence = Dann(replace(PRESETS["small"], epochs=15))
    aligned = defence.adapt(base(), training(800), shifted, generator(1))
    # With its own source as target the same network is trained as long and learns nothing of the shift.
    source_only = defence.adapt(base(), training(800), images(0, 200), generator(1))
    assert accuracy(aligned, shifted, expected) > accuracy(source_only, shifted, expected) + 0.2
    assert accuracy(aligned, shifted, expected) > 0.6


def test_what_it_becomes_depends_on_the_test_points() -> None:
    first = Dann(TINY).adapt(base(), training(60), points(40), generator())
    second = Dann(TINY).adapt(base(), training(60), points(40).flip(3), generator())
    assert not same(first.state(), second.state())


def test_weights_of_the_base_have_no_influence() -> None:
    other = base()
    with torch.no_grad():
        other.module[0].weight.mul_(2)
    first = Dann(TINY).adapt(base(), training(60), points(40), generator())
    assert same(first.state(), Dann(TINY).adapt(other, training(60), points(40), generator()).state())


@pytest.mark.parametrize(
    "change",
    [
        {"alpha": 1.0},
        {"batch_size": 20},
        {"epochs": 3},
        {"learning_rate": 2e-3},
        {"weight_decay": 0.1},
        {"milestones": (1,)},
        {"optimizer": "sgd"},
        {"mean": (0.5,), "std": (0.5,)},
        {"network": "convolutional"},
    ],
    ids=lambda change: next(iter(change)),
)
def test_every_hyper_parameter_has_an_effect(change) -> None:
    plain = Dann(TINY).adapt(base(), training(60), points(40), generator()).state()
    changed = Dann(replace(TINY, **change)).adapt(base(), training(60), points(40), generator()).state()
    assert not same(plain, changed)


def test_normalisation_given_as_one_number_is_every_channels() -> None:
    target = base()
    target.input_shape = (3, 8, 8)
    sample, batch = Training(images(0, 40).repeat(1, 3, 1, 1), labels(0, 40)), points(40).repeat(1, 3, 1, 1)
    one = Dann(replace(TINY, mean=(0.2,), std=(0.4,))).adapt(target, sample, batch, generator())
    three = Dann(replace(TINY, mean=(0.2,) * 3, std=(0.4,) * 3)).adapt(target, sample, batch, generator())
    assert same(one.state(), three.state())


def test_normalisation_of_other_channels_is_refused() -> None:
    with pytest.raises(DefenceError, match="not one, or one for each of 1 channels"):
        Dann(replace(TINY, mean=(0.2, 0.2), std=(0.4, 0.4))).adapt(base(), training(8), points(4), generator())


def test_presets_are_those_of_the_paper() -> None:
    mnist, cifar10 = PRESETS["mnist"], PRESETS["cifar10"]
    assert (mnist.alpha, mnist.optimizer, mnist.learning_rate, mnist.epochs, mnist.batch_size) == (
        *(0.1, "adam", 1e-3),
        *(100, 128),
    )
    assert (mnist.mean, mnist.std) == ((0.1307,), (0.3015,))
    assert (cifar10.alpha, cifar10.optimizer, cifar10.learning_rate, cifar10.epochs, cifar10.batch_size) == (
        *(1.0, "sgd", 0.1),
        *(100, 64),
    )
    assert (cifar10.weight_decay, cifar10.milestones, cifar10.network) == (1e-4, (50, 75, 90), "resnet18")


@pytest.mark.parametrize(
    "change",
    [
        {"epochs": 0},
        {"batch_size": 1},
        {"learning_rate": 0.0},
        {"alpha": -0.1},
        {"weight_decay": -1.0},
        {"std": (0.0,)},
        {"mean": None},
    ],
    ids=lambda change: next(iter(change)),
)
def test_numbers_out_of_range_are_refused(change) -> None:
    with pytest.raises(ValueError, match=r"not a training|or neither"):
        DannParams(**change)
