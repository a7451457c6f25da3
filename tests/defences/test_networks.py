import pytest
import torch
from torch import nn

from tests.defences.builders import generator
from workers.defences.networks import (
    Standardise,
    convolutional_domain_network,
    lenet_like,
    resnet18,
    resnet20,
    resnet_domain_network,
    reverse_gradient,
)
from workers.defences.protocol import DefenceError
from workers.models.architectures import lenet

SHAPES = pytest.mark.parametrize("shape", [(1, 28, 28), (3, 32, 32), (1, 8, 8), (3, 33, 17)], ids=str)

MNIST = convolutional_domain_network((1, 28, 28), 10, Standardise([0.1307], [0.3015]))


def kinds(module: nn.Module) -> list[str]:
    return [type(layer).__name__ for layer in module.modules() if not list(layer.children())]


def test_a_reversed_gradient_is_minus_alpha_times_the_gradient() -> None:
    inputs = torch.tensor([[1.0, -2.0], [0.5, 3.0]], requires_grad=True)
    passed = reverse_gradient(inputs, 0.25)
    assert torch.equal(passed, inputs)
    # d(sum of x^3) = 3 x^2.
    passed.pow(3).sum().backward()
    assert torch.equal(inputs.grad, -0.25 * torch.tensor([[3.0, 12.0], [0.75, 27.0]]))


def test_only_what_the_discriminator_says_is_reversed() -> None:
    network = convolutional_domain_network(
        (1, 8, 8), 3, Standardise.nothing(1), channels=(2, 3), hidden=4, depths=(1, 1, 1)
    ).eval()
    images, alpha = torch.rand(5, 1, 8, 8, generator=generator()), 0.3
    classes, domains = network(images, alpha)
    features = network.features(images)
    plain = network.predictor(features), network.discriminator(features)
    assert torch.equal(classes, plain[0])
    assert torch.equal(domains, plain[1])
    below, predicting, telling = (
        list(part.parameters()) for part in (network.features, network.predictor, network.discriminator)
    )
    found = torch.autograd.grad(classes.square().sum() + domains.square().sum(), [*below, *predicting, *telling])
    of_classes = torch.autograd.grad(plain[0].square().sum(), [*below, *predicting], retain_graph=True)
    of_domains = torch.autograd.grad(plain[1].square().sum(), [*below, *telling])
    shared = len(below)
    expected = [
        *[one - alpha * other for one, other in zip(of_classes[:shared], of_domains[:shared], strict=True)],
        *of_classes[shared:],
        *of_domains[shared:],
    ]
    torch.testing.assert_close(list(found), expected)


def test_the_mnist_network_has_the_layers_of_the_official_code() -> None:
    block = ["Conv2d", "BatchNorm2d", "ReLU"]
    head = ["Flatten", "Linear", "ReLU", "Linear"]
    assert kinds(MNIST.features) == [
        *["Standardise", "Conv2d", "BatchNorm2d", "MaxPool2d", "ReLU"],
        *["Conv2d", "BatchNorm2d", "Dropout2d", "MaxPool2d", "ReLU"],
        *block * 2,
    ]
    assert kinds(MNIST.predictor) == [*block * 3, "Flatten", "Linear", "BatchNorm1d", "ReLU", "Linear"]
    assert kinds(MNIST.discriminator) == [*["Conv2d", "ReLU"] * 5, *head]


def test_the_mnist_network_has_the_widths_of_the_official_code() -> None:
    weights = {
        part: [tuple(weight.shape) for name, weight in module.named_parameters() if weight.ndim > 1]
        for part, module in MNIST.named_children()
    }
    conv = (128, 128, 3, 3)
    assert weights == {
        "features": [(64, 1, 5, 5), (128, 64, 5, 5), conv, conv],
        "predictor": [conv, conv, conv, (256, 2048), (10, 256)],
        "discriminator": [conv, conv, conv, conv, conv, (256, 2048), (2, 256)],
    }


@SHAPES
def test_both_domain_networks_take_every_shape(shape) -> None:
    for build in (convolutional_domain_network, resnet_domain_network):
        network = build(shape, 7, Standardise.nothing(shape[0])).eval()
        with torch.no_grad():
            classes, domains = network(torch.rand(2, *shape), 0.5)
            assert torch.equal(network.classifier(torch.ones(2, *shape)), network(torch.ones(2, *shape), 0.0)[0])
        assert (classes.shape, domains.shape) == ((2, 7), (2, 2))


@SHAPES
def test_the_other_networks_take_every_shape(shape) -> None:
    for build in (lenet_like, resnet18, resnet20):
        with torch.no_grad():
            assert build(shape, 7).eval()(torch.rand(2, *shape)).shape == (2, 7)


def test_features_of_the_resnet_are_what_its_third_stage_gives() -> None:
    features = resnet_domain_network((3, 32, 32), 10, Standardise.nothing(3)).features.eval()
    assert features(torch.rand(1, 3, 32, 32)).shape == (1, 256, 8, 8)


def test_lenet_at_its_own_size_is_the_one_models_are_uploaded_for() -> None:
    own, theirs = lenet_like((1, 28, 28), 10).state_dict(), lenet(10).state_dict()
    assert {name: value.shape for name, value in own.items()} == {name: value.shape for name, value in theirs.items()}


def test_lenet_at_other_sizes_has_the_same_layers() -> None:
    assert kinds(lenet_like((3, 8, 8), 4, channels=(5, 6), hidden=7)) == kinds(lenet(4))


@pytest.mark.parametrize("side", [1, 3])
def test_images_too_small_to_pool_twice_are_refused(side) -> None:
    with pytest.raises(DefenceError, match=f"{side}x8 pixels are too small"):
        lenet_like((1, side, 8), 10)
    with pytest.raises(DefenceError, match="too small"):
        convolutional_domain_network((1, side, 8), 10, Standardise.nothing(1))


def test_standardised_images_have_mean_0_and_deviation_1_by_channel() -> None:
    images = torch.rand(50, 3, 4, 4, generator=generator()) * torch.tensor([0.1, 0.5, 1.0]).view(1, 3, 1, 1)
    found = Standardise.of(images)(images)
    torch.testing.assert_close(found.mean(dim=(0, 2, 3)), torch.zeros(3), atol=1e-5, rtol=0)
    torch.testing.assert_close(found.transpose(0, 1).flatten(1).std(dim=1), torch.ones(3))


def test_a_channel_that_never_varies_is_only_shifted() -> None:
    images = torch.full((4, 1, 2, 2), 0.25)
    assert torch.equal(Standardise.of(images)(images + 0.5), torch.full((4, 1, 2, 2), 0.5))
