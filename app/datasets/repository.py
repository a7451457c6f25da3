"""SQL of datasets."""

from collections.abc import Iterable

from sqlalchemy import select
from sqlalchemy.orm import Session

from app.web.pagination import BATCH
from seatrial.store.tables import DatasetRow


def find(session: Session, project_id: str, dataset_id: str) -> DatasetRow | None:
    """Return a dataset of the project."""
    return session.scalar(select(DatasetRow).where(DatasetRow.id == dataset_id, DatasetRow.project_id == project_id))


def find_by_name(session: Session, project_id: str, name: str, version: str) -> DatasetRow | None:
    """Return the dataset that holds a name and version."""
    return session.scalar(
        select(DatasetRow).where(
            DatasetRow.project_id == project_id, DatasetRow.name == name, DatasetRow.version == version
        )
    )


def list_datasets(
    session: Session, project_id: str, *, name: str | None, task: str | None, before: str | None, limit: int
) -> Iterable[DatasetRow]:
    """Return datasets, newest first, read from the database a few at a time: each may hold a long list of labels."""
    query = select(DatasetRow).where(DatasetRow.project_id == project_id)
    for column, wanted in ((DatasetRow.name, name), (DatasetRow.task, task)):
        if wanted is not None:
            query = query.where(column == wanted)
    if before is not None:
        query = query.where(DatasetRow.id < before)
    query = query.order_by(DatasetRow.id.desc()).limit(limit)
    return session.scalars(query.execution_options(yield_per=BATCH))
