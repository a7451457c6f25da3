"""The first rows of a table, with what each column is read for, so that a person sees whether it is the right one."""

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from app.datasets.tables import table_format
from app.datasets.texts import text_format
from seatrial.contracts.datasets import COLUMNS, DatasetFormat, DatasetManifest
from seatrial.contracts.models import IMAGES, PREDICTIONS, TABLES
from seatrial.ingest.inspection.errors import InspectionError, UnsupportedFormatError
from seatrial.ingest.inspection.magic import Kind, looks_like, sniff
from seatrial.ingest.inspection.parquet_file import open_parquet, read_batches
from seatrial.ingest.inspection.pickles import HEAD_BYTES
from seatrial.ingest.predictions.tables import table_layout
from seatrial.ingest.texts.conllu_rows import read_conllu
from seatrial.ingest.texts.csv_rows import open_table
from seatrial.ingest.texts.jsonl_rows import read_objects
from seatrial.store.settings import Settings

ROWS = 5
MAX_SHOWN = 12
"""Most columns shown; the chosen ones are always among them."""
MAX_CELL_CHARS = 200

FEATURE = "feature"
"""Role of a column of numbers of a table."""

_OPTIONAL = ("group", "arm", "model")

_Rows = Iterator[Mapping[str, Any]]


@dataclass(frozen=True)
class Column:
    """A column of a table.

    Attributes:
        name: As the file has it.
        role: What it is read for (``text``, ``label``, ``feature``, ...); nothing where it is not read.
        cells: Its first values as text, cut to :data:`MAX_CELL_CHARS`.
    """

    name: str
    role: str
    cells: list[str]


@dataclass(frozen=True)
class Preview:
    """The first rows of a table.

    Attributes:
        columns: Those that are shown, in the order of the file.
        hidden: How many more it has.
        missing: Column wanted for each role that the file has no such column for.
        problem: Why no further row could be read; nothing where none was needed.
    """

    columns: list[Column]
    hidden: int
    missing: dict[str, str]
    problem: str


def preview(path: Path, filename: str, manifest: DatasetManifest, limits: Settings) -> dict[str, Any] | None:
    """Return a :class:`Preview` of a dataset as JSON; None where it is no table.

    Args:
        path: The upload on disk, or the beginning of one: what stands after the first rows is not read.
        filename: What its sender called it.
        manifest: Its task and columns.
        limits: Longest row.

    Raises:
        InspectionError: It is nothing that could be read for the task.
    """
    layout = _layout(path, repr(filename[:200]), manifest)
    if layout is None:
        return None
    wanted = {role: (manifest.columns or {}).get(role, role) for role in COLUMNS[manifest.task]}
    names: list[str] = []
    rows: list[Mapping[str, Any]] = []
    problem = ""
    try:
        for known, row in _read(path, layout, manifest, wanted, limits):
            names = known
            rows += [] if row is None else [row]
    except InspectionError as error:
        problem = error.detail
    except UnicodeDecodeError:
        problem = "A text is not UTF-8: Parquet strings must be."
    if layout == "conllu":
        wanted = {role: role for role in wanted}
    roles = {name.strip(): role for role, name in wanted.items()}
    if manifest.task == TABLES:
        features = names if manifest.features is None else manifest.features
        roles = {**{name: FEATURE for name in features}, **roles}
    shown = _shown(names, roles)
    columns = [Column(name, roles.get(name, ""), [_cell(row.get(name)) for row in rows]) for name in shown]
    missing = {
        role: name for role, name in wanted.items() if name.strip() not in names and role not in _OPTIONAL and names
    }
    return asdict(Preview(columns, len(names) - len(shown), missing, problem))


def _layout(path: Path, where: str, manifest: DatasetManifest) -> DatasetFormat | None:
    if manifest.task == TABLES:
        layout = table_format(path, where)
        return None if layout == "npz" else layout
    if manifest.task == PREDICTIONS:
        return table_layout(path, where)
    if manifest.task != IMAGES:
        return text_format(path, where, manifest)
    with path.open("rb") as file:
        kind = sniff(file.read(HEAD_BYTES), path.stat().st_size)
    if kind is Kind.TEXT:
        raise UnsupportedFormatError(
            f"{where} is not a dataset of images: {looks_like(kind)}; choose the task its texts or numbers are for",
            field="/manifest/task",
        )
    return "parquet" if kind is Kind.PARQUET else None


def _read(
    path: Path, layout: DatasetFormat, manifest: DatasetManifest, wanted: Mapping[str, str], limits: Settings
) -> Iterator[tuple[list[str], Mapping[str, Any] | None]]:
    """Yield the names of the columns known so far and a row, :data:`ROWS` times at most; first the names alone."""
    names: list[str] = []
    if layout == "parquet":
        with open_parquet(path, limits) as table:
            names = list(table.schema.names)
            yield names, None
            batch = next(read_batches(table, names, limits), None)
            for row in [] if batch is None else batch.slice(0, ROWS).to_pylist():
                yield names, row
    elif layout == "conllu":
        names = list(wanted)
        for sentence in islice(read_conllu(path, wanted, limits), ROWS):
            yield names, dict(zip(names, sentence.values, strict=True))
    else:
        with path.open("rb") as file:
            if layout == "csv":
                opened = open_table(file, [*wanted.values(), *(manifest.features or [])], limits)
                names = [name.strip() for name in opened.names]
                yield names, None
                for _, cells in islice(opened.rows, ROWS):
                    yield names, dict(zip(names, cells, strict=True))
                return
            for _, record in islice(read_objects(file, limits), ROWS):
                names = [*names, *(name for name in record if name not in names)]
                yield names, record


def _shown(names: list[str], roles: Mapping[str, str]) -> list[str]:
    """Return the columns to show: all that are not mere features, then the first of the others.

    >>> _shown(["a", "b", "label"], {"label": "label"})
    ['a', 'b', 'label']
    """
    first = [name for name in names if roles.get(name, FEATURE) != FEATURE]
    rest = [name for name in names if name not in first]
    kept = {*first, *rest[: max(0, MAX_SHOWN - len(first))]}
    return [name for name in dict.fromkeys(names) if name in kept]


def _cell(value: Any) -> str:
    if isinstance(value, bytes):
        return f"{len(value):,} bytes"
    if isinstance(value, dict) and isinstance(value.get("bytes"), bytes):
        return f"{len(value['bytes']):,} bytes"
    text = "" if value is None else " ".join(map(str, value)) if isinstance(value, list) else str(value)
    return text if len(text) <= MAX_CELL_CHARS else text[:MAX_CELL_CHARS] + " …"
