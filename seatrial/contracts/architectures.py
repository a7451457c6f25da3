"""The architectures a model may be of: what a manifest must say beside its weights."""

from typing import Annotated, Any, Literal, Self

from pydantic import Field, SerializerFunctionWrapHandler, field_validator, model_serializer, model_validator

from seatrial.contracts.base import Real, Request
from seatrial.contracts.endpoints import EndpointArchitecture
from seatrial.contracts.generative import ChatArchitecture, CompletionsArchitecture

# What each layer takes after its name: (smallest number of values, largest).
LAYER_ARGUMENTS: dict[str, tuple[int, int]] = {
    "conv": (3, 5),
    "relu": (0, 0),
    "flatten": (0, 0),
    "linear": (2, 2),
    "max_pool": (1, 3),
    "avg_pool": (1, 3),
    "batch_norm": (1, 1),
    "dropout": (0, 1),
}


class _MayDropOut(Request):
    """An architecture whose dropout layers may stay on."""

    dropout: int | None = Field(
        default=None,
        ge=2,
        le=256,
        description="Monte-Carlo dropout: as many passes with dropout layers on, whose mean probabilities are the "
        "prediction. Masks are drawn once, from the weights. By default dropout is off.",
        examples=[20],
    )

    @model_serializer(mode="wrap")
    def _without_absent_passes(self, write: SerializerFunctionWrapHandler) -> dict[str, Any]:
        # Manifests stored before there were any are still the same manifests.
        written: dict[str, Any] = write(self)
        if self.dropout is None:
            written.pop("dropout", None)
        return written


LayerPart = Annotated[str, Field(max_length=20)] | int | Real


class LayersArchitecture(_MayDropOut):
    """A plain CNN written as a list of layers; weights are keyed as in ``torch.nn.Sequential`` (`0.weight`, ...)."""

    kind: Literal["layers"] = Field(title="Plain CNN, layer by layer", description="A plain sequence of layers.")
    layers: list[Annotated[list[LayerPart], Field(max_length=6)]] = Field(
        min_length=1,
        max_length=200,
        description='Each layer is a name and its numbers: `["conv", in, out, kernel, stride?, padding?]`, `["relu"]`, '
        '`["flatten"]`, `["linear", in, out]`, `["max_pool", kernel, stride?, padding?]`, `["avg_pool", ...]`, '
        '`["batch_norm", channels]`, `["dropout", p?]`.',
        examples=[[["conv", 1, 16, 4, 2, 1], ["relu"], ["flatten"], ["linear", 3136, 10]]],
    )

    @field_validator("layers")
    @classmethod
    def _layers_are_known(cls, layers: list[list[Any]]) -> list[list[Any]]:
        for position, layer in enumerate(layers):
            if not layer or layer[0] not in LAYER_ARGUMENTS:
                known = ", ".join(LAYER_ARGUMENTS)
                raise ValueError(f"layer {position} is {layer!r}: it must begin with one of {known}")
            low, high = LAYER_ARGUMENTS[layer[0]]
            numbers = layer[1:]
            if not low <= len(numbers) <= high:
                raise ValueError(f"layer {position} ({layer[0]}) takes {low} to {high} numbers, got {len(numbers)}")
            for number in numbers:
                if isinstance(number, str):
                    raise ValueError(f"layer {position} ({layer[0]}): {number!r} is not a number")
                if layer[0] == "dropout":
                    if not 0 <= number < 1:
                        raise ValueError(f"layer {position}: dropout must lie in [0, 1), got {number}")
                elif number != int(number) or not 0 <= number <= 1_000_000:
                    raise ValueError(
                        f"layer {position} ({layer[0]}): {number} is not a whole number of at most 1,000,000"
                    )
        return layers


class CifarResNetArchitecture(Request):
    """The CIFAR ResNet of He et al. 2016, section 4.2, with parameter-free (option A) shortcuts."""

    kind: Literal["resnet_cifar"] = Field(description="CIFAR ResNet.")
    depth: int = Field(ge=8, le=1202, description="Layers, 6n + 2: 20, 32, 44, 56, 110.", examples=[20])

    @field_validator("depth")
    @classmethod
    def _depth_is_six_n_plus_two(cls, depth: int) -> int:
        if (depth - 2) % 6:
            raise ValueError(f"depth must be 6n + 2 (20, 32, 44, 56, 110), got {depth}")
        return depth


class PreActResNet18Architecture(Request):
    """PreActResNet-18 for 32x32 images (He et al. 2016b; the layout of common CIFAR code)."""

    kind: Literal["preact_resnet18"] = Field(description="PreActResNet-18.")


def _six_n_plus_four(depth: int) -> int:
    if (depth - 4) % 6:
        raise ValueError(f"depth must be 6n + 4 (16, 28, 40, 70), got {depth}")
    return depth


class WideResNetArchitecture(Request):
    """WideResNet (Zagoruyko and Komodakis 2016): WRN-depth-width."""

    kind: Literal["wide_resnet"] = Field(description="WideResNet.")
    depth: int = Field(ge=10, le=200, description="Layers, 6n + 4.", examples=[28])
    width: int = Field(ge=1, le=20, description="Widening factor.", examples=[10])

    _depth_is_six_n_plus_four = field_validator("depth")(_six_n_plus_four)


class SmallStemResNetArchitecture(Request):
    """ResNet-18 to 152 (He et al. 2016, table 1) with a 3x3 stem, for 32x32 images."""

    kind: Literal["resnet_32x32"] = Field(
        title="ResNet-18 to 152 for 32x32 images", description="ResNet with a 3x3 stem."
    )
    depth: Literal[18, 34, 50, 101, 152] = Field(description="Layers: 18, 34, 50, 101 or 152.", examples=[18])


class DeepMindWideResNetArchitecture(Request):
    """WideResNet as Gowal et al. (2020) train it: padding as in JAX, ReLU or SiLU; most published robust models."""

    kind: Literal["dm_wide_resnet"] = Field(
        title="WideResNet of DeepMind's robust models", description="WideResNet of Gowal et al. (2020)."
    )
    depth: int = Field(ge=10, le=200, description="Layers, 6n + 4.", examples=[28])
    width: int = Field(ge=1, le=20, description="Widening factor.", examples=[10])
    activation: Literal["relu", "silu"] = Field(
        default="silu", description="`silu` (Swish) or `relu`; the weights do not tell.", examples=["silu"]
    )

    _depth_is_six_n_plus_four = field_validator("depth")(_six_n_plus_four)


class RobustWideResNetArchitecture(Request):
    """Ra-WRN-70-16 (Peng et al. 2023): a WideResNet with a wide stem, other depths and squeeze-and-excitation."""

    kind: Literal["ra_wide_resnet_70_16"] = Field(title="Ra-WRN-70-16", description="WideResNet of Peng et al. (2023).")


class LeNetArchitecture(Request):
    """LeNet for one-channel 28x28 images, as the MNIST models of the transductive literature use it."""

    kind: Literal["lenet"] = Field(description="LeNet.")


class HuggingFaceArchitecture(Request):
    """A Hugging Face folder: its own config.json names the architecture."""

    kind: Literal["huggingface"] = Field(
        title="Hugging Face folder",
        description="A folder with config.json, safetensors and a preprocessor or tokenizer.",
    )
    precision: Literal["float32", "bfloat16"] = Field(
        default="float32",
        description="What a model of texts computes its products in. `bfloat16` is faster on a GPU; the audit says how "
        "many of its decisions differ from those in float32.",
    )


class TorchvisionArchitecture(_MayDropOut):
    """A classifier of torchvision, by the name ``torchvision.models.get_model`` takes."""

    kind: Literal["torchvision"] = Field(title="torchvision, by name", description="A classifier of torchvision.")
    name: str = Field(
        min_length=1, max_length=60, pattern=r"^[a-z0-9_]+$", description="Name in torchvision.", examples=["resnet50"]
    )


class TimmArchitecture(_MayDropOut):
    """A classifier of timm, by the name ``timm.create_model`` takes, without a tag of pretrained weights."""

    kind: Literal["timm"] = Field(title="timm, by name", description="A classifier of timm.")
    name: str = Field(
        min_length=1,
        max_length=100,
        pattern=r"^[a-z0-9_]+$",
        description="Name in timm.",
        examples=["vit_small_patch16_224"],
    )


class ExportedArchitecture(Request):
    """A program of ``torch.export``: the graph names the operators, so that no class of its own is needed here."""

    kind: Literal["exported"] = Field(
        title="Exported program (torch.export)",
        description="What `torch.export.save` writes; its operators are read and run, its pickles are not.",
    )


ColumnName = Annotated[str, Field(min_length=1, max_length=200)]


class PredictionsArchitecture(Request):
    """A table of what a model answered already: nothing is run, so that any framework will do."""

    kind: Literal["predictions"] = Field(
        title="Table of predictions (CSV, JSON Lines, Parquet)",
        description="Probabilities or logits that a model gave already; nothing is run.",
    )
    example_id: ColumnName = Field(default="example_id", description="Column that names the example.")
    probabilities: list[ColumnName] | None = Field(
        default=None,
        min_length=1,
        max_length=100_000,
        description="The column that holds a list of probabilities, or a column for each label in their order; by "
        "default the column `probabilities`.",
        examples=[["p_cat", "p_dog"]],
    )
    logits: list[ColumnName] | None = Field(
        default=None,
        min_length=1,
        max_length=100_000,
        description="Columns of logits, named as those of probabilities are and given in their place.",
    )
    arm: ColumnName = Field(default="arm", description="Column that says `clean`, `attacked` or `ood`, if any.")
    model: ColumnName | None = Field(
        default=None, description="Whose answers to read, where the table has those of several models."
    )
    model_column: ColumnName = Field(default="model", description="Column that names the model of a row.")

    @model_validator(mode="after")
    def _are_one_kind(self) -> Self:
        if self.probabilities is not None and self.logits is not None:
            raise ValueError("give probabilities or logits, not both")
        return self


class OnnxArchitecture(Request):
    """A graph of ONNX in one file: what scikit-learn, Keras, PaddlePaddle and others are converted to."""

    kind: Literal["onnx"] = Field(title="ONNX", description="An ONNX file, without external data.")
    output: str | None = Field(
        default=None,
        min_length=1,
        max_length=200,
        description="Name of the graph's output with a value per class; by default the only one there is.",
        examples=["probabilities"],
    )
    outputs: Literal["logits", "probabilities"] = Field(
        default="logits",
        description="What it gives. A softmax or sigmoid at the graph's end is taken off by itself.",
    )


_Network = (
    LayersArchitecture
    | CifarResNetArchitecture
    | PreActResNet18Architecture
    | WideResNetArchitecture
    | SmallStemResNetArchitecture
    | DeepMindWideResNetArchitecture
    | RobustWideResNetArchitecture
    | LeNetArchitecture
    | TorchvisionArchitecture
    | TimmArchitecture
)
Member = Annotated[_Network, Field(discriminator="kind")]
"""Architectures whose weights are tensors by name."""


class EnsembleArchitecture(Request):
    """Networks whose mean probabilities are the prediction; they share labels, input and normalisation."""

    kind: Literal["ensemble"] = Field(
        title="Ensemble of networks", description="Networks whose mean probabilities are the prediction."
    )
    members: list[Member] = Field(
        min_length=2,
        max_length=64,
        description="Architecture of every member. Their weights are one file, whose tensors begin with `members.0.`, "
        "`members.1.` and so on, or an archive of a file for each, in the order of their names.",
        examples=[[{"kind": "resnet_cifar", "depth": 20}, {"kind": "resnet_cifar", "depth": 20}]],
    )


Architecture = Annotated[
    _Network
    | EnsembleArchitecture
    | ExportedArchitecture
    | OnnxArchitecture
    | HuggingFaceArchitecture
    | PredictionsArchitecture
    | EndpointArchitecture
    | ChatArchitecture
    | CompletionsArchitecture,
    Field(discriminator="kind"),
]
