"""Storing a model that came in."""

import asyncio
from typing import Any, cast

from fastapi import Request
from starlette.concurrency import run_in_threadpool

from app.access import repository as keys
from app.deletions.service import missing
from app.models import repository
from app.models.inspection import inspect_endpoint
from app.web.committing import commit
from app.web.problems import ConflictError, InvalidRequestError, StoredProblemError
from app.web.services import Services
from app.web.uploads import Upload
from seatrial.contracts.endpoints import SERVED
from seatrial.contracts.model_facts import ModelFactsSummary
from seatrial.contracts.models import ModelManifest, ModelRead, ModelSummary, Task
from seatrial.contracts.problems import StoredProblem
from seatrial.contracts.states import ModelState
from seatrial.ingest.inspection.errors import ManifestMismatchError
from seatrial.net.endpoint_rules import EndpointRuleError
from seatrial.store.ids import new_id
from seatrial.store.tables import ModelRow
from seatrial.store.transitions import move

CHECK_CANCELLED = "check-cancelled"

# How often a waiting upload looks whether a worker has judged it.
LOOK_S = 0.1


async def store_model(request: Request, services: Services, project_id: str, upload: Upload[ModelManifest]) -> ModelRow:
    """Inspect what came in and store it; the same name, version, bytes and manifest again give the same row.

    Args:
        request: What brought it; when its client goes away, the inspection ends.
        services: Where rows and bytes go.
        project_id: Whose it is.
        upload: What came.

    Raises:
        InspectionError: The bytes are not an acceptable model; nothing is stored.
        InvalidRequestError: An endpoint that could never be asked; nothing is stored.
        ConflictError: The name and version belong to something else.
    """
    manifest = upload.manifest
    if manifest.architecture.kind in SERVED and not upload.is_manifest:
        raise ManifestMismatchError(
            'an endpoint has no file: send application/json with {"manifest": {...}} alone',
            field="/manifest/architecture/kind",
        )

    async def inspect() -> ModelRow:
        return ModelRow(
            id=new_id("mdl"),
            project_id=project_id,
            name=manifest.name,
            version=manifest.version,
            task=manifest.task,
            manifest=manifest.model_dump(mode="json"),
            digest=upload.digest,
            size_bytes=upload.size_bytes,
            format=await _format(request, services, project_id, upload),
        )

    row = await commit(services, project_id, upload, repository.find_by_name, inspect)
    await run_in_threadpool(services.notifier.notify)
    return row


async def _format(request: Request, services: Services, project_id: str, upload: Upload[ModelManifest]) -> str:
    if not upload.is_manifest:
        arguments = [upload.path, upload.filename, upload.manifest]
        file_format: str = await services.inspections.run(
            request, project_id, "app.models.inspection:inspect_model", arguments, size_bytes=upload.size_bytes
        )
        return file_format

    def project_name() -> str:
        with services.database.read() as session:
            return keys.get_project_name(session, project_id)

    try:
        return inspect_endpoint(upload.manifest, services.settings, await run_in_threadpool(project_name))
    except EndpointRuleError as error:
        raise InvalidRequestError(error.detail, pointer=error.field) from error


def get_model(services: Services, project_id: str, model_id: str) -> ModelRow:
    """Return a model of the project.

    Raises:
        NotFoundError: There is none of that id.
        DeletedError: There was.
    """
    with services.database.read() as session:
        row = repository.find(session, project_id, model_id)
        if row is None:
            raise missing(session, project_id, model_id, "model")
    return row


def cancel_check(services: Services, project_id: str, model_id: str) -> ModelRow:
    """End the check of a model, which is rejected; cancelling twice is the same as once.

    Raises:
        NotFoundError: There is none of that id.
        ConflictError: It has been checked already.
    """
    row = get_model(services, project_id, model_id)
    problem = StoredProblem(
        code=CHECK_CANCELLED,
        title="The check of the model was cancelled",
        detail="it was cancelled: upload the model under another version to have it checked",
    )
    with services.database.write() as session:
        # Whoever works on it finds that it is no longer theirs, and ends its process.
        end = {"problem": problem.model_dump(), "token": None, "lease_until": None}
        move(session, ModelRow, ModelState.REJECTED, ModelRow.id == row.id, **end)
    row = get_model(services, project_id, model_id)
    if row.state == ModelState.READY or (row.problem or {}).get("code") != CHECK_CANCELLED:
        raise ConflictError(f"The model is {row.state} already: only a check that has not ended can be cancelled.")
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


def render_summary(row: ModelRow) -> dict[str, Any]:
    """Return a model as a list has it."""
    facts = row.facts or {}
    labels = row.manifest.get("labels") or facts.get("labels")
    summary = ModelSummary(
        id=row.id,
        name=row.name,
        version=row.version,
        task=cast(Task, row.task),
        digest=row.digest,
        size_bytes=row.size_bytes,
        state=ModelState(row.state),
        problem=None if row.problem is None else StoredProblem.model_validate(row.problem),
        facts=None if row.facts is None else ModelFactsSummary.model_validate(row.facts),
        derived_from=row.derived_from,
        architecture=str((row.manifest.get("architecture") or {}).get("kind", "unknown")),
        label_count=len(labels) if labels else None,
        url=f"/v1/models/{row.id}",
        created_at=row.created_at,
    )
    return summary.model_dump(mode="json")
