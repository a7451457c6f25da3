"""What a model is: its manifest, as uploaded, and how it is read."""

from datetime import datetime
from itertools import pairwise
from math import prod
from typing import Annotated, Any, Literal, Self

from pydantic import (
    Field,
    SerializerFunctionWrapHandler,
    ValidationInfo,
    field_validator,
    model_serializer,
    model_validator,
)

from seatrial.contracts.architectures import Architecture
from seatrial.contracts.base import Read, Real, Request
from seatrial.contracts.endpoints import (
    IMAGE,
    PARTS,
    PLURALS,
    SERVED,
    EndpointArchitecture,
    ServedArchitecture,
    embedded,
    placeholders,
)
from seatrial.contracts.features import FeatureSpec
from seatrial.contracts.generative import GenerativeArchitecture
from seatrial.contracts.known_fields import absent_field
from seatrial.contracts.model_facts import ModelFacts, ModelFactsSummary
from seatrial.contracts.names import Name, Version
from seatrial.contracts.problems import StoredProblem
from seatrial.contracts.recalibration import LogitMap
from seatrial.contracts.states import ModelState

IMAGES = "image-classification"
TABLES = "tabular-classification"
ARRAYS = (IMAGES, TABLES)
"""Tasks whose inputs are arrays of numbers, which attacks by gradients can change a little."""
SINGLE_LABEL_TEXTS = ("text-classification", "text-pair-classification")
"""Tasks in which a text, or a pair of them, has exactly one class."""

MULTI_LABEL = "multi-label-classification"
TAGGING = "token-classification"
PREDICTIONS = "predictions"
"""What was answered already, whatever the model took: a table of probabilities or logits is the model."""

TEXTS = (*SINGLE_LABEL_TEXTS, MULTI_LABEL, TAGGING)
"""Everything that is done to texts."""

Task = Literal[
    "image-classification",
    "text-classification",
    "text-pair-classification",
    "multi-label-classification",
    "token-classification",
    "tabular-classification",
    "predictions",
]

OF_TABLES = ("exported", "onnx", "layers")
"""Architectures that take rows of numbers."""

MAX_SIDE = 4096
"""Largest number of channels, rows or columns of an image."""
MAX_IMAGE_VALUES = 2**26
"""Most values of one image (channels x height x width): 256 MiB of float32."""


class InputSpec(Request):
    """What the model takes: images in [0, 1] of this shape, normalised by ``(x - mean) / std`` inside the target."""

    shape: list[Annotated[int, Field(ge=1, le=MAX_SIDE)]] = Field(
        min_length=3, max_length=3, description="Channels, height, width in pixels.", examples=[[1, 28, 28]]
    )
    mean: list[Annotated[Real, Field(ge=-10, le=10)]] = Field(
        max_length=MAX_SIDE, description="Channel means on the [0, 1] scale; [0.0] or zeros for none.", examples=[[0.0]]
    )
    std: list[Annotated[Real, Field(gt=0, le=10)]] = Field(
        max_length=MAX_SIDE,
        description="Channel standard deviations on the [0, 1] scale; [1.0] or ones for none.",
        examples=[[1.0]],
    )

    standardise: Literal["none", "per_image"] = Field(
        default="none",
        description="`per_image`: each image is also standardised by the mean and the standard deviation of all its "
        "own values, the latter at least 1 / sqrt(values) (Ding et al. 2020); before `mean` and `std`.",
    )

    @field_validator("shape")
    @classmethod
    def _image_fits_into_memory(cls, shape: list[int]) -> list[int]:
        if prod(shape) > MAX_IMAGE_VALUES:
            raise ValueError(f"an image of shape {shape} has {prod(shape):,} values: at most {MAX_IMAGE_VALUES:,}")
        return shape

    @model_validator(mode="after")
    def _one_value_per_channel(self) -> Self:
        for name in ("mean", "std"):
            values = getattr(self, name)
            if len(values) not in (1, self.shape[0]):
                raise ValueError(
                    f"{name} has {len(values)} values for {self.shape[0]} channels: give one per channel, or one"
                )
        return self


HEADS: dict[Task, str] = {
    "image-classification": "ForImageClassification",
    "text-classification": "ForSequenceClassification",
    "text-pair-classification": "ForSequenceClassification",
    "multi-label-classification": "ForSequenceClassification",
    "token-classification": "ForTokenClassification",
}
"""How the names of Hugging Face's classes of such models end."""


class ModelManifest(Request):
    """What must be said about weights before they mean anything."""

    name: Name
    version: Version
    task: Task = Field(description="What the model does.")
    architecture: Architecture = Field(description="How the weights are wired.")
    input: InputSpec | None = Field(
        default=None, description="Input of an image classifier. Required unless the Hugging Face folder states it."
    )
    features: FeatureSpec | None = Field(
        default=None, description="Input of a classifier of table rows. Required for tabular-classification."
    )
    labels: list[Annotated[str, Field(max_length=200)]] | None = Field(
        default=None, min_length=2, max_length=100_000, description="Class names in the order of the logits."
    )
    clean_accuracy: Real | None = Field(
        default=None,
        ge=0,
        le=1,
        description="Accuracy its owner measured; an audit warns when its own interval excludes it.",
    )

    recalibration: LogitMap | None = Field(
        default=None,
        description="Map of the logits, applied after the network: what a hardening by `recalibrate` has fitted.",
    )

    @model_serializer(mode="wrap")
    def _without_an_absent_map(self, write: SerializerFunctionWrapHandler) -> dict[str, Any]:
        # Manifests stored before there were maps are still the same manifests.
        written: dict[str, Any] = write(self)
        if self.recalibration is None:
            written.pop("recalibration", None)
        return written

    @model_validator(mode="before")
    @classmethod
    def _servers_say_the_rest(cls, manifest: Any) -> Any:
        architecture = manifest.get("architecture") if isinstance(manifest, dict) else None
        if not isinstance(architecture, dict) or (kind := architecture.get("kind")) not in SERVED:
            return manifest
        more: dict[str, Any] = {}
        # Of a language model the labels stand where their words do.
        if kind in SERVED[1:] and not manifest.get("labels"):
            more["labels"] = [*words] if isinstance(words := architecture.get("labels"), dict) else None
        # Of an endpoint the shape is all there is to say, also where something else is wrong with it.
        if isinstance(given := manifest.get("input"), dict):
            more["input"] = {"mean": [0.0], "std": [1.0]} | given
        return manifest | more

    @field_validator("architecture", mode="before")
    @classmethod
    def _place_is_of_the_task(cls, architecture: Any, info: ValidationInfo) -> Any:
        # Before the template is looked at by itself, which does not know what the placeholder would be.
        if isinstance(architecture, dict) and architecture.get("kind") == "endpoint" and info.data.get("task") in PARTS:
            template = architecture.get("request")
            if any(True for _ in placeholders(template)):
                _check_places(info.data["task"], template)
        return architecture

    @field_validator("architecture")
    @classmethod
    def _prompt_is_of_the_task(cls, architecture: Architecture, info: ValidationInfo) -> Architecture:
        task = info.data.get("task")
        if isinstance(architecture, GenerativeArchitecture) and task is not None:
            if task not in SINGLE_LABEL_TEXTS:
                raise ValueError(f"a language model is audited for {' or '.join(SINGLE_LABEL_TEXTS)}, not for {task}")
            named = set(placeholders(architecture.template))
            if named != set(PARTS[task]):
                raise ValueError(
                    f"the template of {task} holds {' and '.join(PARTS[task])} and no other placeholder, not "
                    f"{', '.join(sorted(named))}"
                )
        return architecture

    @field_validator("labels")
    @classmethod
    def _labels_differ(cls, labels: list[str] | None, info: ValidationInfo) -> list[str] | None:
        if labels and len(set(labels)) != len(labels):
            twice = next(a for a, b in pairwise(sorted(labels)) if a == b)
            raise ValueError(f"labels must differ from each other: {twice!r} stands twice")
        words = getattr(info.data.get("architecture"), "labels", None)
        if words is not None and set(labels or ()) != set(words):
            raise ValueError(f"labels must be those of the architecture, {', '.join(map(repr, words))}: leave them out")
        return labels

    @model_validator(mode="after")
    def _task_fits_architecture(self) -> Self:
        kind = self.architecture.kind
        if PREDICTIONS in (kind, self.task):
            self._check_predictions(kind)
        elif isinstance(self.architecture, EndpointArchitecture):
            self._check_endpoint(self.architecture)
        elif self.task == TABLES:
            self._check_table()
        elif self.task == IMAGES and kind != "huggingface":
            if self.input is None:
                raise absent_field("input", "shape, mean and std of the images")
            if self.labels is None:
                raise absent_field("labels", "the class names in the order of the logits")
        elif self.task != IMAGES and kind not in ("huggingface", *SERVED):
            raise ValueError(
                f"architecture {kind} classifies images; {self.task} needs huggingface, endpoint, chat or completions"
            )
        if self.task == IMAGES and getattr(self.architecture, "precision", "float32") != "float32":
            raise ValueError("precision is of models of texts; images are computed in float32: leave it out")
        if self.task != IMAGES and self.input is not None:
            raise ValueError(f"input describes images; {self.task} has none: leave it out")
        is_mapped = self.task in (IMAGES, TABLES, *SINGLE_LABEL_TEXTS) and kind not in SERVED
        if self.recalibration is not None and not is_mapped:
            raise ValueError(
                f"recalibration is of logits computed here; architecture {kind}, {self.task}: leave it out"
            )
        if self.task != TABLES and self.features is not None:
            raise ValueError(f"features describes rows of a table; {self.task} has none: leave it out")
        return self

    def _check_table(self) -> None:
        kinds = {one.kind for one in getattr(self.architecture, "members", [self.architecture])}
        if wrong := sorted(kinds - {*OF_TABLES}):
            raise ValueError(
                f"architecture {wrong[0]} takes no rows of numbers; {TABLES} needs {' or '.join(OF_TABLES)}"
            )
        if self.features is None:
            raise absent_field("features", "the columns, and their mean, std and ranges")
        if self.labels is None:
            raise absent_field("labels", "the class names in the order of the logits")

    def _check_predictions(self, kind: str) -> None:
        if kind != self.task:
            raise ValueError(
                f'a table of predictions has the task "{PREDICTIONS}" and the architecture {{"kind": "{PREDICTIONS}"}}'
                f", not {self.task} and {kind}"
            )
        if self.labels is None:
            raise absent_field("labels", "the class names in the order of the probabilities or logits")

    @property
    def input_shape(self) -> list[int] | None:
        """Sizes of one example as the network takes it: an image's three, a row's one; None where none are stated."""
        if self.features is not None:
            return [len(self.features.columns)]
        return None if self.input is None else self.input.shape

    def _check_endpoint(self, endpoint: EndpointArchitecture) -> None:
        if self.task not in PARTS:
            raise ValueError(f"an endpoint is audited for one of {', '.join(PARTS)}, not for {self.task}")
        if self.labels is None:
            raise absent_field("labels", "the class names in the order of the endpoint's scores")
        if self.task == IMAGES:
            self._check_images(endpoint)

    def _check_images(self, endpoint: EndpointArchitecture) -> None:
        if self.input is None:
            raise absent_field("input", '{"shape": [channels, height, width]} of the images')
        if any(self.input.mean) or set(self.input.std) != {1.0} or self.input.standardise != "none":
            raise ValueError("an endpoint is sent images in [0, 1] and normalises them itself: leave out mean and std")
        if endpoint.image_format == "png" and self.input.shape[0] not in (1, 3):
            raise ValueError(
                f"a PNG has 1 channel (grey) or 3 (RGB), the shape says {self.input.shape[0]}: say image_format floats"
            )
        if endpoint.image_format == "floats" and IMAGE in set(embedded(endpoint.request)):
            raise ValueError("an image of image_format floats is a list, which cannot stand inside of a string")


def _check_places(task: str, template: Any) -> None:
    """Raise ``ValueError`` where a template holds placeholders of another task, or lacks those of its own."""
    named = set(placeholders(template))
    # In place of a part of one example the same part of all of them may stand.
    wanted = {part: (PLURALS[part], part) for part in PARTS[task]}
    if not named <= {name for names in wanted.values() for name in names}:
        known = ", ".join(name for names in wanted.values() for name in names)
        raise ValueError(f"the request template of {task} may hold {known}")
    for names in wanted.values():
        if named.isdisjoint(names):
            raise ValueError(f"the request template of {task} holds no {' or '.join(names)}")


class ModelReference(Request):
    """A model that is not uploaded: one named by a path the operator allows, or an HTTP endpoint."""

    manifest: ModelManifest = Field(description="The manifest, as in an upload.")
    path: str | None = Field(
        default=None,
        min_length=1,
        max_length=4096,
        description="Folder or .safetensors file below an allowed folder; none for an endpoint.",
    )

    @model_validator(mode="after")
    def _weights_have_a_path(self) -> Self:
        if isinstance(self.manifest.architecture, ServedArchitecture):
            if self.path is not None:
                raise ValueError("an endpoint has no path: leave it out")
        elif self.path is None:
            raise ValueError("path is required, unless the architecture is an endpoint")
        return self


class _ModelBase(Read):
    id: str = Field(description="Identifier.", examples=["mdl_0199f0c4e0c27b6c8a3e5d1f9b7a2c11"])
    name: str = Field(description="Name.")
    version: str = Field(description="Version.")
    task: Task = Field(description="What it does.")
    digest: str = Field(description="SHA-256 of the uploaded bytes.", examples=["sha256:9f86d08..."])
    size_bytes: int = Field(description="Size of the uploaded bytes.")
    state: ModelState = Field(description="`checking` until a worker has loaded it once; then `ready` or `rejected`.")
    problem: StoredProblem | None = Field(default=None, description="Why it was rejected.")
    derived_from: str | None = Field(default=None, description="Id of the model a hardening made it from.")
    created_at: datetime = Field(description="When it was stored (UTC).")


class ModelSummary(_ModelBase):
    """A model in a list: what may be long, class names above all, is read at ``url``."""

    architecture: str = Field(description="Kind of its architecture.", examples=["huggingface"])
    label_count: int | None = Field(
        default=None, description="Number of class names; null where neither manifest nor worker names any."
    )
    facts: ModelFactsSummary | None = Field(default=None, description="What the worker measured; null until `ready`.")
    url: str = Field(description="Where all of it is.", examples=["/v1/models/mdl_0199f0c4e0c27b6c8a3e5d1f9b7a2c11"])


class ModelRead(_ModelBase):
    """A stored model."""

    facts: ModelFacts | None = Field(default=None, description="What the worker measured; null until `ready`.")
    manifest: dict[str, Any] = Field(description="The manifest as uploaded.")
