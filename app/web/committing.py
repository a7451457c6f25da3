"""Commits an upload: bytes and the row that names them, stored together or not at all.

The slow part, writing through to a disk or uploading to a bucket, comes before the transaction: SQLite has one write
lock, and a large model must not hold it for minutes. Only a rename is left for inside.
"""

from collections.abc import Awaitable, Callable
from typing import TypeVar

from sqlalchemy import select
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Session
from starlette.concurrency import run_in_threadpool

from app.web.problems import ConflictError
from app.web.quotas import check_storage
from app.web.services import Services
from app.web.uploads import Upload
from seatrial.contracts.datasets import DatasetManifest
from seatrial.contracts.models import ModelManifest
from seatrial.store.releasing import lock_digest
from seatrial.store.tables import DatasetRow, ModelRow

ManifestT = TypeVar("ManifestT", ModelManifest, DatasetManifest)
RowT = TypeVar("RowT", ModelRow, DatasetRow)

Find = Callable[[Session, str, str, str], RowT | None]
"""From project, name and version to the row that holds them."""


async def commit(
    services: Services,
    project_id: str,
    upload: Upload[ManifestT],
    find: Find[RowT],
    inspect: Callable[[], Awaitable[RowT]],
) -> RowT:
    """Commit an upload and return its row; the same name, version, bytes and manifest again give the same row.

    Args:
        services: Where rows and bytes go.
        project_id: Whose it is.
        upload: What came.
        find: Looks for a row of that name and version.
        inspect: Makes the row; raises for bytes that are refused.

    Raises:
        ConflictError: The name and version belong to something else. Nothing is stored, as after any other error.
    """

    def look() -> RowT | None:
        with services.database.read() as session:
            return _same(session, project_id, upload, find)

    if (same := await run_in_threadpool(look)) is not None:
        await run_in_threadpool(_mend, services, upload)
        return same
    row = await inspect()
    return await run_in_threadpool(_write, services, project_id, upload, find, row)


def _mend(services: Services, upload: Upload[ManifestT]) -> None:
    """Put the bytes in the place of those that are there, which may have been damaged or lost since."""
    services.store.prepare(upload.path, upload.digest)
    with services.database.write() as session:
        lock_digest(session, upload.digest)
        services.store.put_file(upload.path, upload.digest)


def _write(services: Services, project_id: str, upload: Upload[ManifestT], find: Find[RowT], row: RowT) -> RowT:
    is_new = services.store.prepare(upload.path, upload.digest)
    try:
        with services.database.write() as session:
            lock_digest(session, upload.digest)
            check_storage(session, project_id, upload.size_bytes)
            session.add(row)
            # The name is ours once this returns; only then do the bytes go in, and the row is seen only with them.
            session.flush()
            is_new |= services.store.put_file(upload.path, upload.digest)
    except BaseException as error:
        if is_new:
            _drop_unless_named(services, upload.digest)
        if not isinstance(error, IntegrityError):
            raise
        with services.database.read() as session:
            if (same := _same(session, project_id, upload, find)) is None:
                raise
        return same
    return row


def _same(session: Session, project_id: str, upload: Upload[ManifestT], find: Find[RowT]) -> RowT | None:
    name, version = upload.manifest.name, upload.manifest.version
    row = find(session, project_id, name, version)
    if row is not None and (row.digest, row.manifest) != (upload.digest, upload.manifest.model_dump(mode="json")):
        raise ConflictError(
            f"{name} version {version} is another upload already ({row.id}): give this one another version.",
            pointer="/manifest/version",
        )
    return row


def _drop_unless_named(services: Services, digest: str) -> None:
    with services.database.write() as session:
        lock_digest(session, digest)
        for table in (ModelRow, DatasetRow):
            if session.scalar(select(table.id).where(table.digest == digest).limit(1)) is not None:
                return
        services.store.delete(digest)
