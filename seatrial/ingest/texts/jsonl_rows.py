"""Rows of a JSON Lines file: one object per line."""

import json
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

from seatrial.ingest.inspection.errors import ContentError, no_column
from seatrial.ingest.texts.lines import Lines
from seatrial.ingest.texts.rows import Columns, Row
from seatrial.store.settings import Settings


def read_jsonl(path: Path, columns: Columns, limits: Settings) -> Iterator[Row]:
    """Yield the rows of a JSON Lines file; values are what JSON makes of them. Blank lines are skipped.

    Raises:
        ContentError: With the line that is no object, or lacks a column.
    """
    with path.open("rb") as file:
        for number, record in read_objects(file, limits):
            yield Row(number, values_of(record, columns, number))


def read_objects(file: BinaryIO, limits: Settings) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield the objects of an open JSON Lines file, each with its line.

    Raises:
        ContentError: With the line that is no object.
    """
    lines = Lines(file, limits)
    for line in lines:
        if not line.isspace():
            yield lines.number, _object(line, lines.number)
        lines.begin_row()


def values_of(record: dict[str, Any], columns: Columns, number: int) -> tuple[Any, ...]:
    """Return what an object has in each column.

    Raises:
        ContentError: It lacks one; ``number`` is its line.
    """
    for role, name in columns.items():
        if name not in record:
            raise no_column(f"Line {number}", role, name, record)
    return tuple(record[name] for name in columns.values())


MAX_STRUCTURE = 500_000
"""Most values in a line. Six megabytes of brackets would parse into 150 of lists; an embedding has some thousands."""


def _object(line: str, number: int) -> dict[str, Any]:
    if len(line) > MAX_STRUCTURE and sum(map(line.count, "[{,")) > MAX_STRUCTURE:
        raise ContentError(f"Line {number} holds more than {MAX_STRUCTURE:,} lists, objects and values: leave them out")
    try:
        value = _DECODER.decode(line)
    except json.JSONDecodeError as error:
        # Behind the last character, where the line ends too early.
        at = min(error.pos, len(line.rstrip())) + 1
        raise ContentError(
            f"Line {number} is not JSON ({error.msg} at character {at}): every line must be one whole object, "
            'such as {"text": "...", "label": 0}'
        ) from error
    except (ValueError, RecursionError) as error:
        raise ContentError(f"Line {number} cannot be read as JSON: {str(error)[:300]}") from error
    if not isinstance(value, dict):
        raise ContentError(
            f'Line {number} is a JSON {_KINDS[type(value)]}: every line must be one object, such as {{"text": "...", '
            '"label": 0}'
        )
    return value


_KINDS = {list: "array", str: "string", int: "number", float: "number", bool: "boolean", type(None): "null"}


def _without_twins(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) != len(pairs):
        twice = Counter(name for name, _ in pairs).most_common(1)[0][0]
        raise ValueError(f"the name {twice!r:.200} stands twice in one object")
    return members


_DECODER = json.JSONDecoder(object_pairs_hook=_without_twins)
