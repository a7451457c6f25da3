"""Opening a Parquet file nobody vouches for, and what its schema says."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from app.core.inspection.errors import MalformedFileError, UploadTooLargeError, no_column
from app.core.settings import Settings

MAX_METADATA_BYTES = 64 * 2**20


@contextmanager
def open_parquet(path: Path, limits: Settings) -> Iterator[Any]:
    """Give an open ``pyarrow.parquet.ParquetFile`` whose counts are within the limits.

    Raises:
        UploadTooLargeError: Too many rows, or too many bytes when unpacked.
        MalformedFileError: The file does not parse, now or while it is read.
    """
    try:
        with pq.ParquetFile(
            path,
            pre_buffer=False,
            buffer_size=2**20,
            thrift_string_size_limit=MAX_METADATA_BYTES,
            thrift_container_size_limit=1_000_000,
        ) as file:
            _check_sizes(file, limits)
            yield file
    except (pa.ArrowException, OSError, ValueError, OverflowError) as error:
        raise MalformedFileError(f"The Parquet file is truncated or damaged: {str(error)[:300]}") from error


def _check_sizes(file: Any, limits: Settings) -> None:
    metadata = file.metadata
    if metadata.num_rows > limits.max_examples:
        raise UploadTooLargeError(
            f"The file has {metadata.num_rows:,} rows; at most {limits.max_examples:,} are accepted"
        )
    unpacked = sum(metadata.row_group(group).total_byte_size for group in range(metadata.num_row_groups))
    if unpacked > limits.max_archive_bytes:
        raise UploadTooLargeError(f"The file unpacks to {unpacked:,} bytes; the limit is {limits.max_archive_bytes:,}")


def column_type(schema: Any, name: str, role: str) -> Any:
    """Return the Arrow type of the column that holds ``role``.

    Raises:
        ContentError: There is no such column; it says which there are.
    """
    if schema.names.count(name) != 1:
        raise no_column("The file", role, name, schema.names)
    return schema.field(name).type


def names_in_schema(schema: Any, column: str) -> list[str] | None:
    """Return the class names that the Hugging Face datasets library stores beside the schema.

    Those of a column of class numbers, or of lists of them (which it has written in three ways over the years).
    """
    try:
        feature = json.loads((schema.metadata or {}).get(b"huggingface", b"{}"))["info"]["features"][column]
        if isinstance(feature, list):
            feature = feature[0]
        elif "feature" in feature:
            feature = feature["feature"]
        names = feature["names"]
    except (ValueError, RecursionError, KeyError, IndexError, TypeError):
        return None
    return (
        names if isinstance(names, list) and len(names) >= 2 and all(isinstance(name, str) for name in names) else None
    )
