"""Rows of a CSV file, as RFC 4180 has them; the cells may be separated by tabs or semicolons as well."""

import csv
from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import BinaryIO, NamedTuple

from seatrial.ingest.inspection.errors import ContentError, no_column
from seatrial.ingest.texts.lines import Lines
from seatrial.ingest.texts.rows import Columns, Row
from seatrial.store.settings import Settings

_DELIMITERS = ",\t;"


def read_csv(path: Path, columns: Columns, limits: Settings) -> Iterator[Row]:
    """Yield the rows of a CSV file whose first line names its columns; every value is a string.

    The delimiter is the one under which the header has the columns wanted. Blank lines are skipped. Quoted cells may
    hold delimiters, line breaks and doubled quotes.

    Raises:
        ContentError: With the line that is no row of the table.
    """
    with path.open("rb") as file:
        table = open_table(file, columns.values(), limits)
        places = table.places(columns)
        for start, cells in table.rows:
            yield Row(start, tuple(cells[place] for place in places))


class Table(NamedTuple):
    """A CSV file whose header has been read.

    Attributes:
        line: Line of the header.
        names: Its cells, as they stand.
        delimiter: What separates cells.
        line_end: What ends lines.
        rows: The rows that follow, each with the line it begins in and as many cells as the header.
    """

    line: int
    names: list[str]
    delimiter: str
    line_end: str
    rows: Iterator[tuple[int, list[str]]]

    def places(self, columns: Columns) -> list[int]:
        """Return the place of each column; spaces around names do not count.

        Raises:
            ContentError: There is none of that name, or more than one.
        """
        return _places(self.line, [name.strip() for name in self.names], columns)


def open_table(file: BinaryIO, wanted: Iterable[str], limits: Settings) -> Table:
    """Return an open CSV file as a table, cut by the delimiter under which its header has most of the names wanted.

    Raises:
        ContentError: With the line that is no row of the table; while rows are read, too.
    """
    lines = Lines(file, limits)
    # A process-wide limit of the csv module; `lines` bounds a row more tightly, and with the row's number.
    csv.field_size_limit(max(csv.field_size_limit(), lines.max_bytes))
    header = next((line for line in lines if line.strip()), "")
    delimiter = _delimiter(header, list(wanted))
    records = _records(header, lines, delimiter)
    line, names = next(records, (1, []))
    return Table(line, names, delimiter, "\r\n" if header.endswith("\r\n") else "\n", _as_wide(len(names), records))


def _as_wide(width: int, records: Iterator[tuple[int, list[str]]]) -> Iterator[tuple[int, list[str]]]:
    for start, cells in records:
        if len(cells) != width:
            raise ContentError(
                f"Line {start} has {len(cells)} cells, the header has {width}: a text that holds the "
                "delimiter must stand in double quotes"
            )
        yield start, cells


def _records(header: str, lines: Lines, delimiter: str) -> Iterator[tuple[int, list[str]]]:
    """Yield each record and the line it begins in."""
    reader = csv.reader(chain((header,), lines), delimiter=delimiter, strict=True)
    start = max(lines.number, 1)
    while True:
        try:
            cells = next(reader, None)
        except csv.Error as error:
            raise _malformed(start, error) from error
        if cells is None:
            return
        if cells:
            yield start, cells
        lines.begin_row()
        start = lines.number + 1


def _malformed(start: int, error: csv.Error) -> ContentError:
    if "new-line" in str(error):
        return ContentError(
            f"The row that begins in line {start} holds a lone carriage return: end lines with \\n or \\r\\n, and put "
            "texts with line breaks in double quotes"
        )
    return ContentError(
        f"The row that begins in line {start} has a quote in the wrong place ({error}): a text that begins with a "
        'double quote must end with one, and each quote inside is doubled ("")'
    )


def _delimiter(header: str, wanted: Sequence[str]) -> str:
    """Return what separates the names in a header.

    >>> _delimiter('"id, or key";text;label', ["text", "label"])
    ';'
    """

    def fit(delimiter: str) -> tuple[int, int]:
        try:
            names = [name.strip() for name in next(csv.reader([header], delimiter=delimiter), [])]
        except csv.Error:
            return (0, 0)
        return (sum(name in names for name in wanted), len(names))

    return max(_DELIMITERS, key=fit)


def _places(line: int, names: list[str], columns: Columns) -> list[int]:
    for role, name in columns.items():
        count = names.count(name.strip())
        if not count:
            raise no_column(
                f"The header (line {line})", role, name, names, "; the first line of a CSV file must name its columns"
            )
        if count > 1:
            raise ContentError(
                f"The header (line {line}) has {count} columns {name!r}: names must differ",
                field=f"/manifest/columns/{role}",
            )
    return [names.index(name.strip()) for name in columns.values()]
