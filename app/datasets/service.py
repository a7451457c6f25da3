"""Storing a dataset that came in."""

from typing import Any, cast

from fastapi import Request

from app.datasets import repository
from app.deletions.service import missing
from app.web.committing import commit
from app.web.services import Services
from app.web.uploads import Upload
from seatrial.contracts.datasets import DatasetFacts, DatasetFactsSummary, DatasetManifest, DatasetRead, DatasetSummary
from seatrial.contracts.models import Task
from seatrial.store.ids import new_id
from seatrial.store.tables import DatasetRow


async def store_dataset(
    request: Request, services: Services, project_id: str, upload: Upload[DatasetManifest]
) -> DatasetRow:
    """Inspect what came in and store it; the same name, version, bytes and manifest again give the same row.

    Args:
        request: What brought it; when its client goes away, the inspection ends.
        services: Where rows and bytes go.
        project_id: Whose it is.
        upload: What came.

    Raises:
        InspectionError: The bytes are not an acceptable dataset; nothing is stored.
        ConflictError: The name and version belong to something else.
    """

    async def inspect() -> DatasetRow:
        manifest = upload.manifest
        arguments = [upload.path, upload.filename, manifest]
        facts = DatasetFacts.model_validate(
            await services.inspections.run(
                request, project_id, "app.datasets.inspection:dataset_facts", arguments, size_bytes=upload.size_bytes
            ),
            strict=False,
        )
        return DatasetRow(
            id=new_id("dat"),
            project_id=project_id,
            name=manifest.name,
            version=manifest.version,
            task=manifest.task,
            split=manifest.split,
            manifest=manifest.model_dump(mode="json"),
            digest=upload.digest,
            size_bytes=upload.size_bytes,
            format=facts.format,
            facts=facts.model_dump(mode="json"),
        )

    return await commit(services, project_id, upload, repository.find_by_name, inspect)


def get_dataset(services: Services, project_id: str, dataset_id: str) -> DatasetRow:
    """Return a dataset of the project.

    Raises:
        NotFoundError: There is none of that id.
        DeletedError: There was.
    """
    with services.database.read() as session:
        row = repository.find(session, project_id, dataset_id)
        if row is None:
            raise missing(session, project_id, dataset_id, "dataset")
    return row


def render_dataset(row: DatasetRow) -> dict[str, Any]:
    """Return a dataset as JSON."""
    return DatasetRead.model_validate(row).model_dump(mode="json")


def render_summary(row: DatasetRow) -> dict[str, Any]:
    """Return a dataset as a list has it."""
    labels = row.facts.get("labels") or row.manifest.get("labels")
    summary = DatasetSummary(
        id=row.id,
        name=row.name,
        version=row.version,
        task=cast(Task, row.task),
        split=row.split,
        digest=row.digest,
        size_bytes=row.size_bytes,
        facts=DatasetFactsSummary.model_validate(row.facts),
        label_count=len(labels) if labels else None,
        url=f"/v1/datasets/{row.id}",
        created_at=row.created_at,
    )
    return summary.model_dump(mode="json")
