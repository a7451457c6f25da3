"""Storing a model that came in."""

import asyncio
from typing import Any

from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Session
from starlette.concurrency import run_in_threadpool

from app.contracts.problems import StoredProblem
from app.contracts.states import ModelState
from app.contracts.targets import ModelManifest, ModelRead
from app.core.ids import new_id
from app.core.tables import ModelRow
from app.models import repository
from app.models.inspection import inspect_model
from app.web.intake import Arrival
from app.web.problems import ConflictError, NotFoundError, StoredProblemError
from app.web.services import Services

# How often a waiting upload looks whether a worker has judged it.
LOOK_S = 0.1


def store_model(services: Services, project_id: str, arrival: Arrival[ModelManifest]) -> ModelRow:
    """Inspect what came in and store it; the same name, version, bytes and manifest again give the same row.

    Raises:
        InspectionError: The bytes are not an acceptable model; nothing is stored.
        ConflictError: The name and version belong to something else.
    """
    manifest = arrival.manifest.model_dump(mode="json")
    with services.database.read() as session:
        if (same := _same(session, project_id, arrival, manifest)) is not None:
            return same
    found_format = inspect_model(arrival.path, arrival.filename, arrival.manifest, services.settings)
    row = ModelRow(
        id=new_id("mdl"),
        project_id=project_id,
        name=arrival.manifest.name,
        version=arrival.manifest.version,
        task=arrival.manifest.task,
        manifest=manifest,
        digest=arrival.digest,
        size_bytes=arrival.size_bytes,
        format=found_format,
    )
    try:
        with services.database.write() as session:
            session.add(row)
            # The name is ours once this returns; only then do the bytes go in, and the row is seen only with them.
            session.flush()
            services.store.put_file(arrival.path, arrival.digest)
    except IntegrityError:
        with services.database.read() as session:
            if (same := _same(session, project_id, arrival, manifest)) is not None:
                return same
        raise
    services.bell.ring()
    return row


def _same(
    session: Session, project_id: str, arrival: Arrival[ModelManifest], manifest: dict[str, Any]
) -> ModelRow | None:
    name, version = arrival.manifest.name, arrival.manifest.version
    row = repository.find_by_name(session, project_id, name, version)
    if row is not None and (row.digest, row.manifest) != (arrival.digest, manifest):
        raise ConflictError(
            f"{name} version {version} is another model already ({row.id}): give this one another version.",
            pointer="/manifest/version",
        )
    return row


def get_model(services: Services, project_id: str, model_id: str) -> ModelRow:
    """Return a model of the project.

    Raises:
        NotFoundError: There is none of that id.
    """
    with services.database.read() as session:
        row = repository.find(session, project_id, model_id)
    if row is None:
        raise NotFoundError(f"There is no model {model_id} in this project.")
    return row


async def wait_until_checked(services: Services, row: ModelRow, seconds: float) -> ModelRow:
    """Return the model once a worker has judged it, or as it is after ``seconds``.

    Raises:
        StoredProblemError: It was rejected; the problem says why.
    """
    end = asyncio.get_running_loop().time() + seconds
    while row.state == ModelState.CHECKING and asyncio.get_running_loop().time() < end:
        await asyncio.sleep(LOOK_S)
        row = await run_in_threadpool(get_model, services, row.project_id, row.id)
    if row.state == ModelState.REJECTED and row.problem is not None:
        raise StoredProblemError(StoredProblem.model_validate(row.problem), model=row.id)
    return row


def render_model(row: ModelRow) -> dict[str, Any]:
    """Return a model as JSON."""
    return ModelRead.model_validate(row).model_dump(mode="json")
