"""SQL of models."""

from collections.abc import Iterable

from sqlalchemy import select
from sqlalchemy.orm import Session

from app.web.pagination import BATCH
from seatrial.contracts.states import ModelState
from seatrial.store.tables import ModelRow


def find(session: Session, project_id: str, model_id: str) -> ModelRow | None:
    """Return a model of the project."""
    return session.scalar(select(ModelRow).where(ModelRow.id == model_id, ModelRow.project_id == project_id))


def find_by_name(session: Session, project_id: str, name: str, version: str) -> ModelRow | None:
    """Return the model that holds a name and version; a rejected one holds nothing."""
    return session.scalar(
        select(ModelRow).where(
            ModelRow.project_id == project_id,
            ModelRow.name == name,
            ModelRow.version == version,
            ModelRow.state != ModelState.REJECTED,
        )
    )


def list_models(
    session: Session,
    project_id: str,
    *,
    name: str | None,
    task: str | None,
    state: str | None,
    before: str | None,
    limit: int,
) -> Iterable[ModelRow]:
    """Return models, newest first, read from the database a few at a time: each may hold a long list of labels."""
    query = select(ModelRow).where(ModelRow.project_id == project_id)
    for column, wanted in ((ModelRow.name, name), (ModelRow.task, task), (ModelRow.state, state)):
        if wanted is not None:
            query = query.where(column == wanted)
    if before is not None:
        query = query.where(ModelRow.id < before)
    query = query.order_by(ModelRow.id.desc()).limit(limit)
    return session.scalars(query.execution_options(yield_per=BATCH))
