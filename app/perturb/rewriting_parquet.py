"""Parquet files of texts rewritten: see :mod:`app.perturb.rewriting`. On its own, because Arrow takes time to load."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from app.perturb.rewriting import Rewriting, Sink
from seatrial.contracts.perturb import Cell
from seatrial.ingest.inspection.errors import ContentError
from seatrial.ingest.inspection.parquet_file import column_type, open_parquet
from seatrial.ingest.texts.rows import Columns

_BATCH_ROWS = 64
_GROUP_ROWS = 10_000
_GROUP_BYTES = 16 * 2**20
_NOTE_TYPES = dict(zip(Cell._fields, (pa.string(), pa.float64(), pa.int64()), strict=True))


def rewrite_parquet(source: Path, sink: Sink, how: Rewriting) -> None:
    """Rewrite a Parquet file: all other columns are kept, with the schema's metadata.

    Texts that were stored as numbers of a dictionary are stored as strings: noise makes more of them than numbers may
    have.

    Raises:
        InspectionError: With the column or the row that holds no text.
    """
    with open_parquet(source, how.limits, keep_stored_schema=True) as table:
        file = table.file
        schema = file.schema_arrow
        columns = how.columns(schema.names)
        how.check_notes(schema.names, "The file")
        for role, name in columns.items():
            schema = schema.set(schema.get_field_index(name), _text_field(schema, name, role))
        for name in Cell._fields if how.notes else ():
            schema = schema.append(pa.field(name, _NOTE_TYPES[name]))
        with pq.ParquetWriter(pa.PythonFile(sink, mode="w"), schema) as writer:
            group: list[Any] = []
            for batch in _rewritten(file, schema, columns, how):
                group.append(batch)
                if sum(map(len, group)) >= _GROUP_ROWS or sum(one.nbytes for one in group) >= _GROUP_BYTES:
                    writer.write_table(pa.Table.from_batches(group, schema))
                    group = []
            if group:
                writer.write_table(pa.Table.from_batches(group, schema))


def _rewritten(file: Any, schema: Any, columns: Columns, how: Rewriting) -> Iterator[Any]:
    row = 0
    for batch in file.iter_batches(batch_size=_BATCH_ROWS, use_threads=False):
        values = [batch.column(name).to_pylist() for name in columns.values()]
        taken: list[int] = []
        texts: dict[str, list[Any]] = {name: [] for name in (*columns.values(), *(Cell._fields if how.notes else ()))}
        for offset, found in enumerate(zip(*values, strict=True)):
            where = f"Row {row + offset} (counted from 0)"
            for copy in how.copies(row + offset, found, columns, where):
                taken.append(offset)
                for name, value in how.written(copy, columns).items():
                    texts[name].append(value)
        kept = batch.take(pa.array(taken, pa.int64()))
        yield pa.RecordBatch.from_arrays(
            [
                pa.array(texts[field.name], field.type) if field.name in texts else kept.column(field.name)
                for field in schema
            ],
            schema=schema,
        )
        row += len(batch)


def _text_field(schema: Any, name: str, role: str) -> Any:
    """Return the field a column of texts is written as.

    Raises:
        ContentError: There is no such column, or it holds something else.
    """
    kind = column_type(schema, name, role)
    is_list = pa.types.is_list(kind) or pa.types.is_large_list(kind)
    inner = kind.value_type if is_list and role == "tokens" else kind
    inner = inner.value_type if pa.types.is_dictionary(inner) else inner
    is_text = pa.types.is_string(inner) or pa.types.is_large_string(inner) or pa.types.is_string_view(inner)
    if not is_text or is_list != (role == "tokens"):
        wanted = "tokens are lists of strings" if role == "tokens" else "texts are strings"
        raise ContentError(f"The column {name!r} has type {str(kind)[:200]}: {wanted}", field="/columns")
    written = (pa.large_list if pa.types.is_large_list(kind) else pa.list_)(inner) if is_list else inner
    return schema.field(name).with_type(written)
