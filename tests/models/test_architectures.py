import pytest
import torch
from pydantic import ValidationError

from seatrial.contracts.architectures import LayersArchitecture
from seatrial.contracts.models import InputSpec
from seatrial.store.settings import Settings
from tests.models.builders import manifest, seeded
from workers.errors import TargetError
from workers.models.architectures import build_architecture, check_shapes, layers
from workers.models.state_dicts import fit_state

DIGITS = {"input": {"shape": [1, 28, 28], "mean": [0.0], "std": [1.0]}}


# Published counts: He et al. 2016, table 6 (0.27, 0.46, 0.66, 0.85, 1.7 M); Zagoruyko and Komodakis 2016 (36.5 M);
# PreActResNet-18 and ResNet-18 to 152 of the common CIFAR code; Gowal et al. 2020 (36.5 and 267 M); LeNet and
# Ra-WRN-70-16 by hand.
@pytest.mark.parametrize(
    ("architecture", "changes", "parameters"),
    [
        ({"kind": "resnet_cifar", "depth": 20}, {}, 269_722),
        ({"kind": "resnet_cifar", "depth": 32}, {}, 464_154),
        ({"kind": "resnet_cifar", "depth": 44}, {}, 658_586),
        ({"kind": "resnet_cifar", "depth": 56}, {}, 853_018),
        ({"kind": "resnet_cifar", "depth": 110}, {}, 1_727_962),
        ({"kind": "preact_resnet18"}, {}, 11_171_146),
        ({"kind": "wide_resnet", "depth": 28, "width": 10}, {}, 36_479_194),
        ({"kind": "wide_resnet", "depth": 34, "width": 10}, {}, 46_160_474),
        ({"kind": "wide_resnet", "depth": 70, "width": 16}, {}, 266_796_506),
        ({"kind": "resnet_32x32", "depth": 18}, {}, 11_173_962),
        ({"kind": "resnet_32x32", "depth": 34}, {}, 21_282_122),
        ({"kind": "resnet_32x32", "depth": 50}, {}, 23_520_842),
        ({"kind": "resnet_32x32", "depth": 101}, {}, 42_512_970),
        ({"kind": "resnet_32x32", "depth": 152}, {}, 58_156_618),
        ({"kind": "dm_wide_resnet", "depth": 28, "width": 10}, {}, 36_479_194),
        ({"kind": "dm_wide_resnet", "depth": 70, "width": 16}, {}, 266_796_506),
        ({"kind": "ra_wide_resnet_70_16"}, {}, 267_240_802),
        ({"kind": "lenet"}, DIGITS, 832 + 51_264 + 3_212_288 + 10_250),
    ],
)
def test_parameter_counts_are_the_published_ones(architecture: dict, changes: dict, parameters: int) -> None:
    described = manifest(architecture, **changes)
    with torch.device("meta"):
        module = build_architecture(described, set())
    assert sum(parameter.numel() for parameter in module.parameters()) == parameters
    check_shapes(module, described)


def test_shapes_inside_are_those_of_the_papers() -> None:
    images = torch.rand(2, 3, 32, 32)
    shapes = {}
    for architecture, last in (
        ({"kind": "resnet_cifar", "depth": 8}, "layer3"),
        ({"kind": "preact_resnet18"}, "layer4"),
        ({"kind": "wide_resnet", "depth": 10, "width": 1}, "block3"),
        ({"kind": "resnet_32x32", "depth": 50}, "layer2"),
        ({"kind": "dm_wide_resnet", "depth": 10, "width": 1}, "layer.2"),
    ):
        module = seeded(build_architecture(manifest(architecture), set()))
        module.get_submodule(last).register_forward_hook(
            lambda _module, _inputs, output, last=last: shapes.update({last: tuple(output.shape)})
        )
        with torch.no_grad():
            assert module(images).shape == (2, 10)
    assert shapes == {
        "layer3": (2, 64, 8, 8),
        "layer4": (2, 512, 4, 4),
        "block3": (2, 64, 8, 8),
        "layer2": (2, 512, 16, 16),
        "layer.2": (2, 64, 8, 8),
    }


@pytest.mark.parametrize(("group", "stride"), [(0, 1), (1, 2)])
def test_deepminds_convolutions_are_padded_as_jax_pads_them(group: int, stride: int) -> None:
    described = manifest({"kind": "dm_wide_resnet", "depth": 10, "width": 1, "activation": "relu"})
    block = seeded(build_architecture(described, set())).layer[group].block[0]
    x = torch.rand(1, 16, 8, 8)
    activated = torch.relu(block.batchnorm_0(x))
    # "SAME": as many outputs as ceil(8 / stride); what is odd of the padding goes to the far side.
    missing = (-(-8 // stride) - 1) * stride + 3 - 8
    near, far = missing // 2, missing - missing // 2
    padded = torch.nn.functional.pad(activated, (near, far, near, far))
    out = torch.nn.functional.conv2d(padded, block.conv_0.weight, stride=stride)
    out = torch.nn.functional.conv2d(torch.relu(block.batchnorm_1(out)), block.conv_1.weight, padding=1)
    assert torch.allclose(block(x), out + (x if block.shortcut is None else block.shortcut(activated)), atol=1e-6)


def test_blocks_of_ra_wrn_are_scaled_by_squeeze_and_excitation_before_the_shortcut() -> None:
    with torch.device("meta"):
        network = build_architecture(manifest({"kind": "ra_wide_resnet_70_16"}), set())
    assert [len(group.block) for group in network.layer] == [30, 31, 10]
    assert [group.block[0].conv_0.stride for group in network.layer] == [(1, 1), (2, 2), (2, 2)]
    gates = seeded(network.layer[0].block[0].se.to_empty(device="cpu"))
    assert (gates.fc1.weight.shape, gates.fc2.weight.shape) == ((54, 216, 1, 1), (216, 54, 1, 1))
    x = torch.rand(2, 216, 3, 3)
    hidden = torch.relu(x.mean(dim=(2, 3)) @ gates.fc1.weight.squeeze().T + gates.fc1.bias)
    scale = torch.sigmoid(hidden @ gates.fc2.weight.squeeze().T + gates.fc2.bias)
    assert torch.allclose(gates(x), x * scale[:, :, None, None], atol=1e-6)
    # With gates half open, a block gives half of what it would without them, and all of its shortcut.
    block = seeded(network.layer[0].block[1].to_empty(device="cpu"))
    for tensor in block.se.state_dict().values():
        tensor.zero_()
    scaled = block(x) - x
    block.se = None
    assert torch.allclose(2 * scaled, block(x) - x, atol=1e-4)


def test_option_a_shortcut_pads_with_zeros() -> None:
    block = build_architecture(manifest({"kind": "resnet_cifar", "depth": 8}), set()).layer2[0].eval()
    for tensor in (block.conv1.weight, block.conv2.weight):
        torch.nn.init.zeros_(tensor)
    x = torch.rand(1, 16, 8, 8)
    with torch.no_grad():
        out = block(x)
    assert torch.equal(out[:, 8:24], x[:, :, ::2, ::2])
    assert not out[:, :8].any()
    assert not out[:, 24:].any()


def test_the_weights_say_whether_a_final_norm_is_there() -> None:
    described = manifest({"kind": "preact_resnet18"})
    with torch.device("meta"):
        assert "bn.weight" in build_architecture(described, {"bn.weight"}).state_dict()
        assert "bn.weight" not in build_architecture(described, set()).state_dict()


def test_layers_are_a_sequential() -> None:
    listed = [
        ["conv", 1, 4, 3, 1, 1],
        ["batch_norm", 4],
        ["relu"],
        ["max_pool", 2],
        ["avg_pool", 2, 2, 0],
        ["dropout", 0.5],
    ]
    listed += [["flatten"], ["linear", 16, 8], ["batch_norm", 8], ["relu"], ["linear", 8, 10]]
    described = manifest({"kind": "layers", "layers": listed}, input={"shape": [1, 8, 8], "mean": [0.0], "std": [1.0]})
    module = build_architecture(described, set())
    with torch.device("meta"):
        check_shapes(build_architecture(described, set()), described)
    assert [type(layer).__name__ for layer in module][1::7] == ["BatchNorm2d", "BatchNorm1d"]
    with torch.no_grad():
        assert module.eval()(torch.rand(2, 1, 8, 8)).shape == (2, 10)


@pytest.mark.parametrize(
    ("listed", "code", "field"),
    [
        (
            [["flatten"], ["linear", 64, 8], ["linear", 9, 10]],
            "input-shape-mismatch",
            "layers/2",
        ),
        (
            [["conv", 3, 4, 3], ["flatten"], ["linear", 144, 10]],
            "input-shape-mismatch",
            "/manifest/input/shape",
        ),
        (
            [["conv", 1, 4, 9], ["flatten"], ["linear", 4, 10]],
            "input-shape-mismatch",
            "layers/0",
        ),
        ([["conv", 1, 4, 3, 0], ["flatten"], ["linear", 4, 10]], "", "layers/0"),
        ([["max_pool", 2, 2, 2], ["flatten"], ["linear", 4, 10]], "", "layers/0"),
        ([["flatten"], ["linear", 64, 9]], "class-count-mismatch", "/manifest/labels"),
        ([["conv", 1, 10, 3]], "class-count-mismatch", "/manifest/labels"),
    ],
)
def test_layers_that_do_not_fit_are_named(listed: list, code: str, field: str) -> None:
    described = manifest({"kind": "layers", "layers": listed}, input={"shape": [1, 8, 8], "mean": [0.0], "std": [1.0]})
    with pytest.raises(TargetError) as caught, torch.device("meta"):
        check_shapes(build_architecture(described, set()), described)
    assert (caught.value.problem.field or "").endswith(field)
    assert code in caught.value.problem.code


def test_channels_that_differ_are_told_by_the_shape_there_should_be() -> None:
    listed = {"kind": "layers", "layers": [["conv", 1, 4, 3], ["flatten"], ["linear", 144, 10]]}
    for shape, told in (([8, 8, 1], "shapes are channels first, [1, 8, 8]"), ([3, 8, 8], "it should be [1, 8, 8]")):
        described = manifest(listed, input={"shape": shape, "mean": [0.0], "std": [1.0]})
        with pytest.raises(TargetError) as caught, torch.device("meta"):
            check_shapes(build_architecture(described, set()), described)
        assert caught.value.problem.detail.endswith(f"takes 1 channel, and input.shape is {shape}: {told}")
        assert caught.value.problem.field == "/manifest/input/shape"


def test_a_layer_of_another_size_is_told_in_numbers_and_not_by_torch() -> None:
    listed = {"kind": "layers", "layers": [["flatten"], ["linear", 16, 10]]}
    described = manifest(listed, input={"shape": [1, 5, 5], "mean": [0.0], "std": [1.0]})
    with pytest.raises(TargetError) as caught, torch.device("meta"):
        check_shapes(build_architecture(described, set()), described)
    assert "it takes 16 values and is given 25; mend the layer or input.shape" in caught.value.problem.detail
    assert "mat1" not in caught.value.problem.detail


def test_weights_of_other_channels_are_told_by_the_shape_and_not_by_a_layer() -> None:
    wanted, given = (torch.nn.Sequential(torch.nn.Conv2d(n, 4, 3), torch.nn.Linear(4, 2)) for n in (1, 3))
    with pytest.raises(TargetError) as caught:
        fit_state(wanted, given.state_dict(), "resnet")
    assert caught.value.problem.field == "/manifest/input/shape"
    assert "0.weight of the weights takes 3 channels, and input.shape in the manifest begins with 1" in str(
        caught.value.problem.detail
    )


def test_nothing_is_allocated_for_a_giant_description() -> None:
    described = LayersArchitecture(kind="layers", layers=[["flatten"], ["linear", 1_000_000, 1_000_000]])
    with torch.device("meta"):
        assert layers(described)[1].weight.numel() == 10**12


def test_lenet_takes_digits_only() -> None:
    with pytest.raises(TargetError) as caught:
        build_architecture(manifest({"kind": "lenet"}), set())
    assert caught.value.problem.field == "/manifest/input/shape"


def _padded(padding: int) -> list[list[str | int]]:
    side = 28 + 2 * padding
    return [["conv", 1, 1, 1, 1, padding], ["max_pool", side, side], ["flatten"], ["linear", 1, 10]]


def test_few_weights_that_compute_too_much_are_refused_before_they_do() -> None:
    described = manifest({"kind": "layers", "layers": _padded(20_000)}, **DIGITS)
    with pytest.raises(TargetError, match="SEATRIAL_MAX_ACTIVATION_VALUES") as caught, torch.device("meta"):
        check_shapes(build_architecture(described, set()), described)
    problem = caught.value.problem
    assert (problem.code, problem.field) == ("activations-too-large", "/manifest/architecture/layers/0")


def test_values_are_counted_over_all_operators() -> None:
    described = manifest({"kind": "layers", "layers": _padded(2)}, **DIGITS)
    # The convolution, the pool and its index, the logits.
    values = 32 * 32 + 1 + 1 + 10
    with torch.device("meta"):
        module = build_architecture(described, set())
    # The input itself is counted: it stands first in the trace.
    assert check_shapes(module, described) == 28 * 28 + values
    check_shapes(module, described, limits=Settings(max_activation_values=28 * 28 + values))
    with pytest.raises(TargetError) as caught:
        check_shapes(module, described, limits=Settings(max_activation_values=28 * 28 + values - 1))
    assert caught.value.problem.field == "/manifest/architecture/layers/3"


def test_a_built_in_architecture_on_large_images_is_refused() -> None:
    described = manifest(
        {"kind": "wide_resnet", "depth": 28, "width": 10}, input={"shape": [3, 4096, 4096], "mean": [0], "std": [1]}
    )
    with pytest.raises(TargetError) as caught, torch.device("meta"):
        check_shapes(build_architecture(described, set()), described)
    assert (caught.value.problem.code, caught.value.problem.field) == (
        "activations-too-large",
        "/manifest/architecture",
    )


def test_images_are_bounded_as_a_whole() -> None:
    assert InputSpec(shape=[3, 4096, 4096], mean=[0.0], std=[1.0]).shape == [3, 4096, 4096]
    with pytest.raises(ValidationError, match="67,108,864") as caught:
        InputSpec(shape=[64, 4096, 4096], mean=[0.0], std=[1.0])
    assert caught.value.errors()[0]["loc"] == ("shape",)
