"""What a dataset is: its manifest and the facts read off its bytes."""

import json
from collections.abc import Mapping
from datetime import datetime
from typing import Any, Literal, Self

from pydantic import Field, ValidationInfo, field_validator, model_validator

from seatrial.contracts.base import Read, Request
from seatrial.contracts.features import MAX_FEATURES, FeatureName
from seatrial.contracts.models import IMAGES, TABLES, Task
from seatrial.contracts.names import Name, Version

DatasetFormat = Literal["npz", "image_folder", "parquet", "csv", "jsonl", "conllu"]

PairParts = Literal["published", "both", "premise", "hypothesis"]
"""Which parts of a pair of texts an attack may edit."""

GRID = 255 * 64
"""Steps from 0 to 1 of the grid that certificates are made on, which 8-bit images lie on."""

REPRESENTED = 2.0**-9
"""Distance from the grid, in steps, that is float32's: it has a point of [0, 1] to 2^-11 of a step."""

COLUMNS: dict[Task, tuple[str, ...]] = {
    "image-classification": ("image", "label"),
    "text-classification": ("text", "label"),
    "text-pair-classification": ("premise", "hypothesis", "label"),
    "multi-label-classification": ("text", "labels"),
    "token-classification": ("tokens", "tags"),
    "tabular-classification": ("label",),
    "predictions": ("example_id", "label", "group", "arm", "model"),
}
"""What a table must hold for a task, under these names unless ``columns`` gives others; of predictions the last three
may be missing."""


class DatasetManifest(Request):
    """What must be said about a file of examples."""

    name: Name
    version: Version
    task: Task = Field(description="What the labels are for.")
    split: Literal["train", "validation", "test"] = Field(default="test", description="Which split it is.")
    columns: dict[str, str] | None = Field(
        default=None,
        max_length=20,
        description="Where a table keeps what: `image` and `label` for images; `text` and `label`; `premise`, "
        "`hypothesis` and `label`; `text` and `labels`; `tokens` and `tags` (CoNLL-U: `tags` is upos, the default, or "
        "xpos); `label` of tables of numbers; `example_id` and `label` of predictions, and `group`, `arm` and `model` "
        "where there are any. By default columns of those names.",
        examples=[{"text": "review", "label": "stars"}],
    )
    features: list[FeatureName] | None = Field(
        default=None,
        min_length=1,
        max_length=MAX_FEATURES,
        description="Of tabular-classification: the columns of numbers. By default all but the label's; of an .npz, "
        "the names of the columns of its array `features`.",
    )
    labels: list[str] | None = Field(
        default=None,
        min_length=2,
        max_length=100_000,
        description="Class names in the order of the label numbers, where the file has none. Where a table's labels "
        "are names, this is their order; without it they are numbered in alphabetical order.",
    )

    @field_validator("columns")
    @classmethod
    def _columns_are_known(cls, columns: dict[str, str] | None, info: ValidationInfo) -> dict[str, str] | None:
        # A task that is none is refused for itself.
        task = info.data.get("task", IMAGES)
        known = COLUMNS.get(task, ())
        for role in columns or {}:
            if known and role not in known:
                raise ValueError(f"{role[:100]!r} is no column of {task}: it has {', '.join(known)}")
        return columns

    @model_validator(mode="after")
    def _features_are_a_table_s(self) -> Self:
        if self.features is not None and self.task != TABLES:
            raise ValueError(f"features describes rows of a table; {self.task} has none: leave it out")
        if self.features is not None and len(set(self.features)) != len(self.features):
            twice = next(name for at, name in enumerate(self.features) if name in self.features[:at])
            raise ValueError(f"features must differ from each other: {twice!r} stands twice")
        return self


class DatasetReference(Request):
    """A dataset named by a path the operator allows, instead of an upload."""

    manifest: DatasetManifest = Field(description="The manifest, as in an upload.")
    path: str = Field(min_length=1, max_length=4096, description="File below an allowed folder.")


class DatasetFactsSummary(Read):
    """What was read off the file, as a list has it: without class names and examples per label."""

    format: DatasetFormat = Field(description="How the file is laid out.")
    examples: int = Field(description="Number of labelled examples.")
    classes: int = Field(description="Number of distinct labels, or the length of the label names when known.")
    shape: list[int] | None = Field(
        default=None,
        description="Channels, height, width of the images, null when they differ in size; of a table 1, 1 and its "
        "columns of numbers.",
    )
    mean_words: float | None = Field(
        default=None, description="Mean number of words (separated by spaces) of a text, both parts of a pair together."
    )


class DatasetFacts(DatasetFactsSummary):
    """What was read off the file before it was stored."""

    label_counts: dict[str, int] = Field(
        description="Examples per label number; of multi-label and tagged texts, occurrences."
    )
    labels: list[str] | None = Field(default=None, description="Class names, where the file or manifest has them.")
    features: list[str] | None = Field(
        default=None, description="Columns of numbers of a table; null where an .npz names none."
    )
    smallest: list[float] | None = Field(default=None, description="Least value of each of a table's columns.")
    largest: list[float] | None = Field(default=None, description="Greatest value of each of a table's columns.")
    on_grid: bool | None = Field(
        default=None,
        description="Whether all images lie on the grid of 1/16,320 of the pixels' range, as 8-bit images do. "
        "Certificates are of images rounded to it. Null for texts.",
    )
    word_means: list[float] | None = Field(
        default=None,
        description="Mean words of the shortest twentieth of the texts, of the next, and so on: what an attack takes "
        "grows with the square of a text's words. Null for images, and of datasets stored before this was kept.",
    )


class _DatasetBase(Read):
    id: str = Field(description="Identifier.", examples=["dat_0199f0c4e0c27b6c8a3e5d1f9b7a2c11"])
    name: str = Field(description="Name.")
    version: str = Field(description="Version.")
    task: Task = Field(description="What the labels are for.")
    split: str = Field(description="Which split it is.")
    digest: str = Field(description="SHA-256 of the uploaded bytes.")
    size_bytes: int = Field(description="Size of the uploaded bytes.")
    created_at: datetime = Field(description="When it was stored (UTC).")


class DatasetSummary(_DatasetBase):
    """A dataset in a list: what may be long, class names above all, is read at ``url``."""

    label_count: int | None = Field(
        default=None, description="Number of class names; null where neither file nor manifest names any."
    )
    facts: DatasetFactsSummary = Field(description="What was read off the file.")
    url: str = Field(description="Where all of it is.", examples=["/v1/datasets/dat_0199f0c4e0c27b6c8a3e5d1f9b7a2c11"])


class DatasetRead(_DatasetBase):
    """A stored dataset."""

    facts: DatasetFacts = Field(description="What was read off the file.")
    manifest: dict[str, Any] = Field(description="The manifest as uploaded.")


def read_as(manifest: Mapping[str, Any]) -> tuple[str, ...]:
    """Return what an example and its label are told by, beside the bytes: of one table, other columns are others."""
    return tuple(json.dumps(manifest.get(name), sort_keys=True) for name in ("task", "columns", "labels"))
