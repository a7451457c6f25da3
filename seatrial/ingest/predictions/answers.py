"""What a model answered: the model's side of a table of predictions."""

import contextlib
import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from seatrial.contracts.architectures import PredictionsArchitecture
from seatrial.contracts.models import ModelManifest
from seatrial.ingest.inspection.errors import ContentError, ManifestMismatchError, UploadTooLargeError
from seatrial.ingest.predictions.tables import ARMS, Cells, Layout, arm_of, column_names, identifier, read_table
from seatrial.ingest.sums import is_in_range, may_sum_to_one
from seatrial.store.settings import Settings

MAX_VALUES = 2**27
"""Most examples times classes: a worker holds a matrix of them, 8 bytes each."""

COLUMNS = "/manifest/architecture"


@dataclass(frozen=True)
class Answers:
    """What a model answered to each example.

    Attributes:
        ids: (n,) of the examples.
        arms: (n,) places in ``ARMS``; None where the file does not tell arms apart.
        scores: (n, classes) as the file has them.
        is_logits: Whether they are logits; else they are probabilities.
    """

    ids: list[str]
    arms: list[int] | None
    scores: NDArray[np.float64]
    is_logits: bool

    @cached_property
    def _rows(self) -> Mapping[tuple[str, int | None], int]:
        arms: Sequence[int | None] = self.arms if self.arms is not None else [None] * len(self.ids)
        return {key: row for row, key in enumerate(zip(self.ids, arms, strict=True))}

    def row_of(self, example: str, arm: int) -> int | None:
        """Return the row that answers an example; None where there is none."""
        return self._rows.get((example, None if self.arms is None else arm))


def read_answers(path: Path, layout: Layout, manifest: ModelManifest, limits: Settings) -> Answers:
    """Return a model's answers, each checked.

    Raises:
        InspectionError: With the line or row, the column, and what would be right.
    """
    told = manifest.architecture
    if not isinstance(told, PredictionsArchitecture) or manifest.labels is None:
        raise ManifestMismatchError("The manifest is of no table of predictions", field=COLUMNS)
    classes, kind = len(manifest.labels), "logits" if told.logits else "probabilities"
    names = told.logits or told.probabilities or ["probabilities"]
    if len(names) not in (1, classes):
        raise ManifestMismatchError(
            f"{kind} names {len(names)} columns for {classes} labels: name one that holds a list, or one for each "
            "label in their order",
            field=f"{COLUMNS}/{kind}",
        )
    needed = {"example_id": told.example_id, **{f"{kind} {at}": name for at, name in enumerate(names)}}
    optional = {"arm": told.arm} | ({} if told.model is None else {"model": told.model_column})
    present = column_names(path, layout, needed.values(), limits)
    if missing := [name for name in needed.values() if name not in present]:
        raise ContentError(
            f"The file has no column {missing[0]!r}; it has: {', '.join(sorted(present))[:300]}. Name the right one in "
            "architecture",
            field=f"{COLUMNS}/{'example_id' if missing[0] == told.example_id else kind}",
        )
    ids: list[str] = []
    arms: list[int] = []
    rows: list[list[float]] = []
    seen: dict[tuple[str, int], str] = {}
    has_arms = False
    for cells in read_table(path, layout, needed, optional, limits):
        if told.model is not None and not _is_of(cells, told.model, told.model_column):
            continue
        has_arms = "arm" in cells.values
        key = identifier(cells, "example_id", told.example_id), arm_of(cells, told.arm)
        if key in seen:
            hint = "" if told.model else "; of several models say which: architecture.model"
            raise ContentError(
                f"{cells.where}, column {told.example_id!r}: {key[0]!r} stands twice in the arm {ARMS[key[1]]}, first "
                f"in {seen[key]}: every example has one answer{hint}"
            )
        seen[key] = cells.where
        rows.append(_scores(cells, kind, names, classes))
        ids.append(key[0])
        arms.append(key[1])
        if len(rows) * classes > MAX_VALUES:
            raise UploadTooLargeError(f"Examples times classes may be at most {MAX_VALUES:,}")
    if not rows:
        which = f" of the model {told.model!r}" if told.model else ""
        raise ContentError(f"The file holds no answers{which}", field=f"{COLUMNS}/model" if told.model else "/file")
    return Answers(ids, arms if has_arms else None, np.asarray(rows, dtype=np.float64), kind == "logits")


def _is_of(cells: Cells, model: str, column: str) -> bool:
    if "model" not in cells.values:
        raise ContentError(
            f"The file has no column {column!r}, and architecture.model names one model of several",
            field=f"{COLUMNS}/model_column",
        )
    return identifier(cells, "model", column) == model


def _scores(cells: Cells, kind: str, names: Sequence[str], classes: int) -> list[float]:
    values = [cells.values[f"{kind} {at}"] for at in range(len(names))]
    if len(names) == 1:
        listed = _listed(values[0], cells.where, names[0])
        if len(listed) != classes:
            raise ContentError(
                f"{cells.where}, column {names[0]!r}: {len(listed)} {kind} for {classes} labels: write one for each "
                "label, in their order"
            )
        row = [_number(one, f"{cells.where}, column {names[0]!r}, item {at}", kind) for at, one in enumerate(listed)]
        columns = [names[0]] * classes
    else:
        row = [_number(one, f"{cells.where}, column {name!r}", kind) for one, name in zip(values, names, strict=True)]
        columns = list(names)
    if kind == "probabilities":
        _check_probabilities(row, columns, cells.where)
    return row


def _listed(value: Any, where: str, name: str) -> list[Any]:
    if isinstance(value, str):
        try:
            value = json.loads(value)
        except (ValueError, RecursionError):
            value = None
    if not isinstance(value, list):
        raise ContentError(
            f"{where}, column {name!r}: a list is needed, [0.7, 0.3]; where every class has a column of its own, name "
            "all of them in the order of the labels",
            field=COLUMNS,
        )
    return value


def _number(value: Any, place: str, kind: str) -> float:
    one = kind.removesuffix("ies") + "y" if kind == "probabilities" else "logit"
    if isinstance(value, str):
        with contextlib.suppress(ValueError):
            value = float(value)
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ContentError(f"{place}: the {one} is {value!r:.100}: write a number")
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    if not math.isfinite(number):
        raise ContentError(f"{place}: the {one} is {number}: leave the example out, or write what the model answered")
    return number


def _check_probabilities(row: list[float], columns: Sequence[str], where: str) -> None:
    for value, name in zip(row, columns, strict=True):
        if not is_in_range([value]):
            raise ContentError(
                f"{where}, column {name!r}: the probability is {value:g}, outside of [0, 1]: if these are logits, name "
                "the columns in architecture.logits",
                field=f"{COLUMNS}/probabilities",
            )
    if not may_sum_to_one(row):
        total = math.fsum(row)
        named = repr(columns[0]) if len(set(columns)) == 1 else f"{columns[0]!r} to {columns[-1]!r}"
        raise ContentError(
            f"{where}, column {named}: the probabilities add up to {total:.6g}, not to 1: give those of all classes; "
            "if these are logits, name the columns in architecture.logits",
            field=f"{COLUMNS}/probabilities",
        )
    row[:] = [min(max(value, 0.0), 1.0) for value in row]
