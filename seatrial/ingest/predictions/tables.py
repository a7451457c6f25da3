"""Rows of a CSV, JSON Lines or Parquet file of predictions, whose optional columns may be missing."""

from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import Any, Literal, NamedTuple

from seatrial.ingest.inspection.errors import ContentError, UnsupportedFormatError, UploadTooLargeError
from seatrial.ingest.inspection.magic import Kind, looks_like, refuse_impostor, sniff
from seatrial.ingest.inspection.parquet_file import open_parquet, read_batches
from seatrial.ingest.inspection.pickles import HEAD_BYTES
from seatrial.ingest.texts.csv_rows import open_table, read_csv
from seatrial.ingest.texts.jsonl_rows import read_jsonl, read_objects
from seatrial.ingest.texts.labels import check_characters
from seatrial.ingest.texts.parquet_rows import read_parquet
from seatrial.store.settings import Settings

Layout = Literal["csv", "jsonl", "parquet"]

WANTED = "predictions as CSV with a header, JSON Lines or Parquet"

ARMS = ("clean", "attacked", "ood")
"""What may have been done to an example: nothing, an attack, or it is of none of the classes."""

MAX_CHARS = 200
"""Longest id, group or name of a model."""

_READERS = {"csv": read_csv, "jsonl": read_jsonl, "parquet": read_parquet}


class Cells(NamedTuple):
    """One row.

    Attributes:
        where: The row, for messages.
        values: Its cells by role.
    """

    where: str
    values: Mapping[str, Any]


def table_layout(path: Path, where: str) -> Layout:
    """Return the format of a file of predictions, judged by its first bytes.

    Raises:
        InspectionError: It is none of the three.
    """
    with path.open("rb") as file:
        head = file.read(HEAD_BYTES)
    kind = sniff(head, path.stat().st_size)
    refuse_impostor(kind, where, WANTED)
    if kind is Kind.PARQUET:
        return "parquet"
    start = head.removeprefix(b"\xef\xbb\xbf").lstrip()
    if start.startswith(b"{"):
        return "jsonl"
    if kind not in (Kind.TEXT, Kind.UNKNOWN) or start.startswith(b"["):
        raise UnsupportedFormatError(f"{where} is not a table of predictions: {looks_like(kind)}; send {WANTED}")
    return "csv"


def read_table(
    path: Path, layout: Layout, needed: Mapping[str, str], optional: Mapping[str, str], limits: Settings
) -> Iterator[Cells]:
    """Yield the rows of a table.

    Args:
        path: The file.
        layout: Its format.
        needed: The name of the column that holds each role.
        optional: Likewise; a role whose column is not there is left out of the rows.
        limits: Most examples, longest line.

    Raises:
        InspectionError: With the line or row that cannot be read, or the column that is missing.
    """
    names = column_names(path, layout, [*needed.values(), *optional.values()], limits)
    columns = {**needed, **{role: name for role, name in optional.items() if name in names}}
    unit = "Row {} (counted from 0)" if layout == "parquet" else "Line {}"
    for count, row in enumerate(_READERS[layout](path, columns, limits)):
        if count >= limits.max_examples:
            raise UploadTooLargeError(f"The file has more than {limits.max_examples:,} rows")
        yield Cells(unit.format(row.number), dict(zip(columns, row.values, strict=True)))


def first_row(path: Path, layout: Layout, limits: Settings) -> Mapping[str, Any]:
    """Return the first row of a table by the names of its columns; nothing of an empty one.

    Raises:
        InspectionError: It cannot be read.
    """
    if layout == "parquet":
        with open_parquet(path, limits) as table:
            names = table.schema.names
            rows = read_batches(table, names, limits)
            batch = next(rows, None)
            return {} if batch is None or not len(batch) else batch.slice(0, 1).to_pylist()[0]
    with path.open("rb") as file:
        if layout == "csv":
            opened = open_table(file, ("label",), limits)
            _, cells = next(opened.rows, (0, [""] * len(opened.names)))
            return dict(zip((name.strip() for name in opened.names), cells, strict=True))
        return next((record for _, record in read_objects(file, limits)), {})


def identifier(cells: Cells, role: str, name: str) -> str:
    """Return a cell that names something: an example, a group, a model.

    Raises:
        ContentError: It is empty, too long, or no name.
    """
    value, place = cells.values[role], f"{cells.where}, column {name!r}"
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    text = str(value).strip() if isinstance(value, str | int) and not isinstance(value, bool) else ""
    if not text:
        raise ContentError(f"{place}: the {role} is missing or no name: write a string or a whole number")
    if len(text) > MAX_CHARS:
        raise ContentError(f"{place}: the {role} has {len(text):,} characters, more than {MAX_CHARS}")
    check_characters(text, place)
    return text


def arm_of(cells: Cells, name: str) -> int:
    """Return the place of a row's arm in ``ARMS``; without such a column it is clean.

    Raises:
        ContentError: It is none of them.
    """
    if "arm" not in cells.values:
        return 0
    value = cells.values["arm"]
    told = value.strip() if isinstance(value, str) else value
    if told not in ARMS:
        raise ContentError(f"{cells.where}, column {name!r}: the arm is {told!r:.100}: write {', '.join(ARMS)}")
    return ARMS.index(told)


def column_names(path: Path, layout: Layout, wanted: Iterable[str], limits: Settings) -> set[str]:
    """Return the columns of a table; of JSON Lines those of its first line.

    Raises:
        InspectionError: It cannot be read.
    """
    if layout == "parquet":
        with open_parquet(path, limits) as table:
            return set(table.schema.names)
    with path.open("rb") as file:
        if layout == "csv":
            return {name.strip() for name in open_table(file, wanted, limits).names}
        return {name for _, record in islice(read_objects(file, limits), 1) for name in record}
