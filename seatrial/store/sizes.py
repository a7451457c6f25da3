"""Which models a worker takes by their size, so that small ones can be left to workers without a GPU."""

from dataclasses import dataclass

from sqlalchemy import ColumnElement, and_, select, true

from seatrial.store.tables import AuditRow, ModelRow


@dataclass(frozen=True)
class Sizes:
    """Sizes of the models that a worker takes, as they are stored.

    Attributes:
        least_bytes: None smaller than this.
        most_bytes: None larger than this; None takes all.
    """

    least_bytes: int = 0
    most_bytes: int | None = None

    def of_models(self) -> ColumnElement[bool]:
        """Return the condition that a model is of such a size; true where all are."""
        smallest = ModelRow.size_bytes >= self.least_bytes if self.least_bytes else true()
        return smallest if self.most_bytes is None else and_(smallest, ModelRow.size_bytes <= self.most_bytes)

    def of_audits(self) -> ColumnElement[bool]:
        """Return the condition that an audit's model is of such a size."""
        # The plans of hot queries stay what they are where nobody chooses.
        return true() if self == ANY_SIZE else AuditRow.model_id.in_(select(ModelRow.id).where(self.of_models()))


ANY_SIZE = Sizes()
