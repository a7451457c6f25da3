"""Storing a dataset that came in."""

from typing import Any

from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Session

from app.contracts.datasets import DatasetManifest, DatasetRead
from app.core.ids import new_id
from app.core.tables import DatasetRow
from app.datasets import repository
from app.datasets.inspection import inspect_dataset
from app.web.intake import Arrival
from app.web.problems import ConflictError, NotFoundError
from app.web.services import Services


def store_dataset(services: Services, project_id: str, arrival: Arrival[DatasetManifest]) -> DatasetRow:
    """Inspect what came in and store it; the same name, version, bytes and manifest again give the same row.

    Raises:
        InspectionError: The bytes are not an acceptable dataset; nothing is stored.
        ConflictError: The name and version belong to something else.
    """
    manifest = arrival.manifest.model_dump(mode="json")
    with services.database.read() as session:
        if (same := _same(session, project_id, arrival, manifest)) is not None:
            return same
    facts = inspect_dataset(arrival.path, arrival.filename, arrival.manifest, services.settings)
    row = DatasetRow(
        id=new_id("dat"),
        project_id=project_id,
        name=arrival.manifest.name,
        version=arrival.manifest.version,
        task=arrival.manifest.task,
        split=arrival.manifest.split,
        manifest=manifest,
        digest=arrival.digest,
        size_bytes=arrival.size_bytes,
        format=facts.format,
        facts=facts.model_dump(mode="json"),
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
    return row


def _same(
    session: Session, project_id: str, arrival: Arrival[DatasetManifest], manifest: dict[str, Any]
) -> DatasetRow | None:
    name, version = arrival.manifest.name, arrival.manifest.version
    row = repository.find_by_name(session, project_id, name, version)
    if row is not None and (row.digest, row.manifest) != (arrival.digest, manifest):
        raise ConflictError(
            f"{name} version {version} is another dataset already ({row.id}): give this one another version.",
            pointer="/manifest/version",
        )
    return row


def get_dataset(services: Services, project_id: str, dataset_id: str) -> DatasetRow:
    """Return a dataset of the project.

    Raises:
        NotFoundError: There is none of that id.
    """
    with services.database.read() as session:
        row = repository.find(session, project_id, dataset_id)
    if row is None:
        raise NotFoundError(f"There is no dataset {dataset_id} in this project.")
    return row


def render_dataset(row: DatasetRow) -> dict[str, Any]:
    """Return a dataset as JSON."""
    return DatasetRead.model_validate(row).model_dump(mode="json")
