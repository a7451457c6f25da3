"""The per-example table behind a check's numbers, one stage at a time."""

import base64
import csv
import io
import json
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from starlette.responses import Response

from app.audits import repository
from app.audits.reading import not_found
from app.web.heads import Stream
from app.web.problems import NotAcceptableError, NotFoundError
from app.web.services import Services
from seatrial.contracts.states import PREFLIGHT
from seatrial.store import records as stored
from seatrial.store.database import AnyRow
from seatrial.store.records import to_parquet
from seatrial.store.tables import StageRow

RecordsFormat = Literal["parquet", "jsonl", "csv"]

PARQUET = "application/vnd.apache.parquet"
JSONL = "application/x-ndjson"
CSV = "text/csv"
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
class RecordsTable:
    """A stage's records so far.

    Attributes:
        stage: Which stage.
        is_complete: Whether every shard of the stage has finished.
        table: One row per example (a pyarrow Table), in the order of the stage's source.
    """

    stage: str
    is_complete: bool
    table: Any


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


def pick_check(checks: Sequence[AnyRow], named: str, audit_id: str) -> AnyRow:
    """Return the check of an audit by id, by position from 0, or by kind where there is one of that kind.

    Raises:
        NotFoundError: There is none, or there are several.
    """
    if not checks:
        raise not_found(audit_id)
    matching = [check for check in checks if named in (check.id, str(check.ordinal))]
    matching = matching or [check for check in checks if check.kind == named]
    if len(matching) == 1:
        return matching[0]
    ids = ", ".join(check.id for check in checks)
    reason = f"has {len(matching)} checks of kind {named}" if matching else f"has no check {named}"
    raise NotFoundError(f"Audit {audit_id} {reason}: name one by its id ({ids}) or its position from 0.")


def read_records(services: Services, project_id: str, audit_id: str, named: str, stage: str | None) -> RecordsTable:
    """Return the records of a stage that are stored so far.

    Args:
        services: Where rows and bytes are.
        project_id: Whose audit it is.
        audit_id: Which audit.
        named: The check: its id, position or kind.
        stage: Which stage; by default the first that attacks, else the first after the preflight.

    Raises:
        NotFoundError: No such audit, check or stage, or nothing stored yet.
    """
    with services.database.read() as session:
        check = pick_check(repository.list_checks(session, project_id, audit_id), named, audit_id)
        stages = repository.list_stages(session, check.id)
        wanted = _main_stage(stages) if stage is None else next((one for one in stages if one.name == stage), None)
        if wanted is None:
            begun = ", ".join(one.name for one in stages) or "none"
            raise NoRecordsError(f"Check {check.id} has not begun {stage or 'its first stage'}; begun so far: {begun}.")
        digests = repository.list_record_digests(session, check.id, wanted.name)
    if not digests:
        raise NoRecordsError(f"Stage {wanted.name} of check {check.id} has no finished shard yet.")
    table = stored.read_records(services.store, digests)
    return RecordsTable(wanted.name, len(digests) == wanted.shards, table)


def _main_stage(stages: Sequence[StageRow]) -> StageRow | None:
    # Families that fit something first attack in a later stage; what they attacked is what a reader looks for.
    after = [one for one in stages if one.name != PREFLIGHT]
    return next((one for one in after if one.name.startswith("attack")), after[0] if after else None)


def records_response(services: Services, records: RecordsTable, wanted: RecordsFormat, name: str) -> Response:
    """Return the records for download."""
    headers = {
        "Seatrial-Complete": "true" if records.is_complete else "false",
        "Seatrial-Stage": records.stage,
        "Vary": "Accept",
        "Content-Disposition": f'attachment; filename="{name}-{records.stage}.{wanted}"',
    }
    if wanted == "jsonl":
        return Stream(_lines(records.table), media_type=JSONL, headers=headers)
    if wanted == "csv":
        return Stream(_rows(records.table), media_type=f"{CSV}; charset=utf-8", headers=headers)
    return Response(to_parquet(records.table), media_type=PARQUET, headers=headers)


def _lines(table: Any) -> Iterator[str]:
    for batch in table.to_batches(max_chunksize=_ROWS):
        yield "".join(json.dumps(_plain(row), separators=(",", ":")) + "\n" for row in batch.to_pylist())


def _rows(table: Any) -> Iterator[str]:
    """Yield a table as CSV (RFC 4180), nothing where a value is missing, lists and structures as JSON."""
    page = io.StringIO()
    writer = csv.writer(page)
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
