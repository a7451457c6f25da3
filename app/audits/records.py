"""The per-example table behind a check's numbers, one stage at a time."""

import base64
import csv
import io
import json
import math
from collections.abc import Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import pyarrow as pa
from sqlalchemy.orm import Session
from starlette.responses import Response

from app.audits import repository
from app.deletions.service import missing
from app.web.computing import Piece
from app.web.heads import Stream
from app.web.problems import NotAcceptableError, NotFoundError
from app.web.services import Services
from seatrial.contracts.near_names import instead
from seatrial.contracts.states import PREFLIGHT
from seatrial.store.database import AnyRow
from seatrial.store.records import iter_records, parquet_pieces
from seatrial.store.tables import StageRow

RecordsFormat = Literal["parquet", "jsonl", "csv"]

PARQUET = "application/vnd.apache.parquet"
JSONL = "application/x-ndjson"
CSV = "text/csv"
MAX_ROWS = 10_000
"""Most rows of a page."""
_ROWS = 1000
_MEDIA_TYPES: dict[str, RecordsFormat] = {
    PARQUET: "parquet",
    "application/octet-stream": "parquet",
    JSONL: "jsonl",
    "application/jsonl": "jsonl",
    "application/json": "jsonl",
    CSV: "csv",
    "application/*": "parquet",
    "*/*": "parquet",
}


class NoRecordsError(NotFoundError):
    """The check has nothing to show (yet)."""

    code = "no-records"
    title = "There are no records yet"


@dataclass(frozen=True)
class StageRecords:
    """Where a stage's records so far are.

    Attributes:
        stage: Which stage.
        is_complete: Whether every shard of the stage has finished.
        digests: Their files, in the order of the stage's source; one row per example.
        measured_in: The audit that measured them, where it is an earlier one.
    """

    stage: str
    is_complete: bool
    digests: list[str]
    measured_in: str | None = None


@dataclass(frozen=True)
class Rows:
    """Which rows are asked for: ``limit`` of them from ``offset`` on, all of them where that is None."""

    offset: int = 0
    limit: int | None = None


ALL_ROWS = Rows()


def choose_format(asked: RecordsFormat | None, accept: str | None) -> RecordsFormat:
    """Return the format to answer in: the query's, else the first acceptable one of the Accept header.

    Raises:
        NotAcceptableError: Only other formats would do.

    >>> choose_format(None, "application/x-ndjson;q=0.9, text/html"), choose_format(None, "*/*")
    ('jsonl', 'parquet')
    """
    if asked is not None:
        return asked
    for part in (accept or "*/*").split(","):
        media_type = part.partition(";")[0].strip().lower()
        if media_type in _MEDIA_TYPES:
            return _MEDIA_TYPES[media_type]
    raise NotAcceptableError(
        f"Records come as {PARQUET}, {JSONL} or {CSV} (or ask with ?format=parquet, ?format=jsonl or ?format=csv)."
    )


def pick_check(session: Session, project_id: str, audit_id: str, named: str) -> AnyRow:
    """Return the check of an audit by id, by position from 0, or by kind where there is one of that kind.

    Raises:
        NotFoundError: There is none, or there are several.
        DeletedError: The audit was deleted.
    """
    checks = repository.list_checks(session, project_id, audit_id)
    if not checks:
        raise missing(session, project_id, audit_id, "audit")
    matching = [check for check in checks if named in (check.id, str(check.ordinal))]
    matching = matching or [check for check in checks if check.kind == named]
    if len(matching) == 1:
        return matching[0]
    ids = ", ".join(check.id for check in checks)
    reason = f"has {len(matching)} checks of kind {named}" if matching else f"has no check {named}"
    raise NotFoundError(f"Audit {audit_id} {reason}: name one by its id ({ids}) or its position from 0.")


def find_records(services: Services, project_id: str, audit_id: str, named: str, stage: str | None) -> StageRecords:
    """Return the records of a stage that are stored so far.

    Args:
        services: Where rows and bytes are.
        project_id: Whose audit it is.
        audit_id: Which audit.
        named: The check: its id, position or kind.
        stage: Which stage; by default the first that attacks, else the first after the preflight.

    Raises:
        NotFoundError: No such audit, check or stage, or nothing stored yet.
        ArtifactMissingError: A file of them is gone, or damaged.
    """
    with services.database.read() as session:
        check = pick_check(session, project_id, audit_id, named)
        stages = repository.list_stages(session, check.id)
        wanted = _main_stage(stages) if stage is None else next((one for one in stages if one.name == stage), None)
        if wanted is None:
            raise NoRecordsError(_no_stage(check.id, stage, [one.name for one in stages]))
        digests = repository.list_record_digests(session, check.id, wanted.name)
    if not digests:
        raise NoRecordsError(f"Stage {wanted.name} of check {check.id} has no finished shard yet.")
    for digest in digests:
        # Before the first byte of an answer, which could not be taken back.
        services.store.local_path(digest)
    measured_in = check.reused["audit"] if check.reused else None
    return StageRecords(wanted.name, len(digests) == wanted.shards, list(digests), measured_in)


def _no_stage(check_id: str, stage: str | None, begun: Sequence[str]) -> str:
    if not begun:
        return f"Check {check_id} has not begun: no stage has records yet."
    if stage is None:
        return f"Check {check_id} has not begun its first stage; begun so far: {', '.join(begun)}."
    return f"Check {check_id} has no stage {stage!r} with records{instead(stage, begun, 'begun so far:')}."


def _main_stage(stages: Sequence[StageRow]) -> StageRow | None:
    # Families that fit something first attack in a later stage; what they attacked is what a reader looks for.
    after = [one for one in stages if one.name != PREFLIGHT]
    return next((one for one in after if one.name.startswith("attack")), after[0] if after else None)


def records_response(
    services: Services, records: StageRecords, wanted: RecordsFormat, name: str, rows: Rows = ALL_ROWS
) -> Response:
    """Return the records for download; of all of them some thousand rows are in memory at a time."""
    headers = {
        "Seatrial-Complete": "true" if records.is_complete else "false",
        "Seatrial-Stage": records.stage,
        "Vary": "Accept",
        "Content-Disposition": f'attachment; filename="{name}-{records.stage}.{wanted}"',
    }
    if records.measured_in is not None:
        headers["Seatrial-Reused-From"] = records.measured_in
    tables = iter_records(services.store, records.digests, offset=rows.offset)
    if rows.limit is not None:
        page, following = _page(tables, rows.limit)
        if following:
            headers["Seatrial-Next-Offset"] = str(rows.offset + rows.limit)
        tables = iter([page])
    stream = services.computations.stream
    if wanted == "jsonl":
        return Stream(stream(_released(_lines(tables))), media_type=JSONL, headers=headers)
    if wanted == "csv":
        return Stream(stream(_released(_rows(tables))), media_type=f"{CSV}; charset=utf-8", headers=headers)
    return Stream(stream(_released(parquet_pieces(tables))), media_type=PARQUET, headers=headers)


def _page(tables: Iterator[Any], limit: int) -> tuple[Any, bool]:
    """Return so many rows as a table, and whether others follow."""
    taken, rows = [], 0
    for table in tables:
        taken.append(table.slice(0, limit - rows))
        rows += table.num_rows
        if rows > limit:
            break
    return pa.concat_tables(taken) if taken else pa.table({}), rows > limit


def _released(pieces: Iterator[Piece]) -> Generator[Piece]:
    """Yield pieces, and give the memory they took back to the system."""
    try:
        yield from pieces
    finally:
        pa.default_memory_pool().release_unused()


def _lines(tables: Iterable[Any]) -> Iterator[str]:
    for table in tables:
        for batch in table.to_batches(max_chunksize=_ROWS):
            yield "".join(json.dumps(_plain(row), separators=(",", ":")) + "\n" for row in batch.to_pylist())


def _rows(tables: Iterable[Any]) -> Iterator[str]:
    """Yield tables as CSV (RFC 4180), nothing where a value is missing, lists and structures as JSON."""
    page = io.StringIO()
    writer = csv.writer(page)
    for number, table in enumerate(tables):
        if not number:
            writer.writerow(table.column_names)
        for batch in table.to_batches(max_chunksize=_ROWS):
            writer.writerows([_csv_cell(value) for value in row.values()] for row in batch.to_pylist())
            yield page.getvalue()
            page.seek(0)
            page.truncate()
    yield page.getvalue()


def _csv_cell(value: Any) -> Any:
    """Return a value for a cell; a text that a spreadsheet would run as a formula begins with an apostrophe.

    Texts of datasets and what attacks make of them are hostile (OWASP, CSV injection).

    >>> _csv_cell("=HYPERLINK(1)"), _csv_cell(-1.5), _csv_cell([1, None]), _csv_cell(float("nan"))
    ("'=HYPERLINK(1)", -1.5, '[1, null]', None)
    """
    plain = _plain(value)
    if isinstance(plain, dict | list):
        return json.dumps(plain, ensure_ascii=False)
    if isinstance(plain, str) and plain.startswith(("=", "+", "-", "@", "\t", "\r")):
        return f"'{plain}"
    return plain


def _plain(value: Any) -> Any:
    # JSON has no NaN; an example that errored has null. Nor has it bytes, as perturbed images are.
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, dict):
        return {key: _plain(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [_plain(inner) for inner in value]
    return value
