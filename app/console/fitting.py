"""Which dataset a form starts with: the newest that the chosen model can be audited on."""

from collections.abc import Sequence

from sqlalchemy.orm import Session

from app.audits.compatibility import TaskMismatchError, check_data
from app.datasets import repository as datasets
from seatrial.store.tables import DatasetRow, ModelRow

LEFT_OPEN = "the newest that fits the model"
HELD_OUT = ("test", "validation")
"""Splits that no model should have been trained on."""


def options(data: Sequence[DatasetRow]) -> list[tuple[str, str]]:
    """Return datasets to choose from by id, each with what tells it from others of its name."""
    return [(row.id, f"{row.name} {row.version}, {row.split}, {row.task}") for row in data]


def newest_held_out(
    session: Session, project_id: str, model: ModelRow, data: Sequence[DatasetRow]
) -> DatasetRow | None:
    """Return the newest held-out dataset a model can be audited on, else the newest of any split; None without one."""
    held_out = newest_fitting(session, project_id, model, data, splits=HELD_OUT)
    return held_out or newest_fitting(session, project_id, model, data)


def newest_fitting(
    session: Session,
    project_id: str,
    model: ModelRow,
    data: Sequence[DatasetRow],
    *,
    splits: Sequence[str] = (),
    other_than: DatasetRow | None = None,
) -> DatasetRow | None:
    """Return the newest dataset a model can be audited on; None where there is none.

    Args:
        session: Of the database.
        project_id: Whose dataset it is.
        model: What it has to fit.
        data: To choose from, newest first, as lists have them: what decides is read one at a time, and may be large.
        splits: Which it must be of, where it matters.
        other_than: A dataset whose content it may not have.
    """
    for one in data:
        if one.task != model.task or (splits and one.split not in splits):
            continue
        if other_than is not None and one.digest == other_than.digest:
            continue
        dataset = datasets.find(session, project_id, one.id)
        if dataset is not None and mismatch(model, dataset) is None:
            return dataset
    return None


def mismatch(model: ModelRow, dataset: DatasetRow) -> str | None:
    """Return why a model cannot be audited on a dataset; None where it can."""
    try:
        check_data(model, dataset)
    except TaskMismatchError as error:
        return error.detail
    return None
