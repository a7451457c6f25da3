"""``--predictions FILE``: one table to the two halves of an audit, what a model answered and what is true."""

import csv
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from app.cli.exits import BadRequestError
from app.cli.uploads import Prepared, read_object
from seatrial.client.preparing import MANIFEST, name_and_version
from seatrial.contracts.models import PREDICTIONS
from seatrial.ingest.inspection.errors import InspectionError
from seatrial.ingest.predictions.tables import Layout, first_row, read_table, table_layout
from seatrial.ingest.predictions.truths import NEEDED, OPTIONAL
from seatrial.store.settings import get_settings

_PREFIXES = {"probabilities": ("p_", "prob_", "probability_"), "logits": ("logit_",)}
_TRUTHS = ("example_id", "label", "group", "arm")


@contextmanager
def prepared_predictions(path: Path, *, model: str | None, version: str | None) -> Iterator[tuple[Prepared, Prepared]]:
    """Give the model and the dataset of a table of predictions, ready to be uploaded; afterwards they are gone.

    The dataset is the table without its answers: two models' tables of the same examples make the same bytes, so that
    the models are compared example by example. What FILE.manifest.json says goes first; else columns p_LABEL or
    logit_LABEL, or one column ``probabilities`` or ``logits`` of lists, tell labels and answers.

    Args:
        path: The table.
        model: Whose answers to read, where the table has those of several models.
        version: Overrides that of the manifest.

    Raises:
        BadRequestError: With what is missing or cannot be read.
    """
    try:
        layout = table_layout(path, str(path))
        manifest = _manifest(path, layout, model)
        with TemporaryDirectory(prefix="seatrial-predictions-") as folder:
            truths = Path(folder) / "examples.csv"
            _write_truths(path, layout, manifest.get("columns") or {}, truths)
            of_data = {
                "name": f"{_name(manifest, path)[:90]}-examples",
                "task": PREDICTIONS,
                "split": manifest.get("split", "test"),
                "labels": manifest["labels"],
            }
            of_model = {name: value for name, value in manifest.items() if name not in ("columns", "split")}
            yield (
                Prepared(name_and_version(of_model, _name(manifest, path), version, path), path),
                Prepared(name_and_version(of_data, "examples", None, truths), truths),
            )
    except InspectionError as error:
        raise BadRequestError(f"{path}: {error.detail}") from error


def _name(manifest: Mapping[str, Any], path: Path) -> str:
    return str(manifest.get("name") or manifest["architecture"].get("model") or path.stem)


def _manifest(path: Path, layout: Layout, model: str | None) -> dict[str, Any]:
    beside = path.with_name(f"{path.name}.{MANIFEST}")
    manifest = read_object(beside) if beside.is_file() else {}
    architecture = {"kind": PREDICTIONS, **manifest.get("architecture", {})}
    columns = manifest.get("columns") or {}
    architecture |= {role: columns[role] for role in ("example_id", "arm") if role in columns}
    if "model" in columns:
        architecture["model_column"] = columns["model"]
    if model is not None:
        architecture["model"] = model
    kind, names, labels = _answers(path, layout, architecture)
    if "labels" not in manifest and labels is None:
        raise BadRequestError(
            f"{path}: the answers of {', '.join(names)} have no labels: write {beside.name} beside it, e.g. "
            '{"labels": ["cat", "dog"]}'
        )
    architecture[kind] = names
    filled = {"task": PREDICTIONS, "labels": labels, **manifest, "architecture": architecture}
    if filled["task"] != PREDICTIONS:
        raise BadRequestError(f'{beside}: the task of a table of predictions is "{PREDICTIONS}"')
    return filled


def _answers(path: Path, layout: Layout, said: Mapping[str, Any]) -> tuple[str, list[str], list[str] | None]:
    """Return what the answers are, the columns that hold them, and the labels where the columns' names tell."""
    row = first_row(path, layout, get_settings())
    for kind, prefixes in _PREFIXES.items():
        if said.get(kind):
            return kind, list(said[kind]), _suffixes(said[kind], prefixes)
    for kind, prefixes in _PREFIXES.items():
        if kind in row:
            value = row[kind]
            count = value.count(",") + 1 if isinstance(value, str) else len(value) if isinstance(value, list) else 0
            return kind, [kind], [str(number) for number in range(count)] if count > 1 else None
        for prefix in prefixes:
            names = [name for name in row if name.startswith(prefix) and len(name) > len(prefix)]
            if len(names) > 1:
                return kind, names, [name.removeprefix(prefix) for name in names]
    raise BadRequestError(
        f"{path} has no columns p_LABEL, logit_LABEL, probabilities or logits; it has {', '.join(row)[:300]}. Write "
        f"{path.name}.{MANIFEST} beside it, with the columns that hold them: {json.dumps(_guessed(list(row)))}"
    )


MOST_GUESSED = 20
"""Columns that are taken for those of answers, at most: of more some are others."""


def _guessed(names: list[str]) -> dict[str, Any]:
    """Return what a manifest might say of a table with some columns.

    >>> _guessed(["id", "label", "cat", "dog"])["columns"], _guessed(["label", "yes", "no"])["labels"]
    ({'example_id': 'id', 'label': 'label'}, ['yes', 'no'])
    """
    left = [name for name in names if name not in ("example_id", "label")]
    columns = {}
    for role in ("example_id", "label"):
        # Two columns of answers are left at least.
        columns[role] = role if role in names or len(left) < 3 else left.pop(0)
    answers = left if 2 <= len(left) <= MOST_GUESSED else ["cat", "dog"]
    return {"labels": answers, "architecture": {"probabilities": answers}, "columns": columns}


def _suffixes(names: list[str], prefixes: tuple[str, ...]) -> list[str] | None:
    for prefix in prefixes:
        if len(names) > 1 and all(name.startswith(prefix) for name in names):
            return [name.removeprefix(prefix) for name in names]
    return names if len(names) > 1 else None


def _write_truths(path: Path, layout: Layout, named: Mapping[str, str], target: Path) -> None:
    """Write ids, labels, groups and arms as CSV, each example once; what they hold is checked by the service."""
    roles = {role: named.get(role, role) for role in (*NEEDED, *OPTIONAL)}
    needed = {role: roles[role] for role in NEEDED}
    optional = {role: roles[role] for role in OPTIONAL}
    seen: set[tuple[Any, ...]] = set()
    with target.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        wanted: list[str] = []
        for cells in read_table(path, layout, needed, optional, get_settings()):
            if not seen:
                wanted = [role for role in _TRUTHS if role in cells.values]
                writer.writerow(wanted)
            row = tuple("" if cells.values[role] is None else cells.values[role] for role in wanted)
            # Rows of several models repeat each other; without such a column what repeats is refused by the service.
            if "model" in cells.values and row in seen:
                continue
            seen.add(row)
            writer.writerow(row)
