"""Errors a worker stores instead of raising them at anybody.

::

    WorkError
    +-- TargetError       the model cannot be used: weights and architecture disagree, outputs are not scores, ...
    +-- DataError         the dataset cannot be used: an image does not decode, a shape differs from the model's, ...
    +-- PreflightError    model, data and parameters do not fit together; retrying changes nothing

    AccidentError         what may go well another time; its words are ours and may be told to anybody
"""

from app.contracts.problems import StoredProblem


class WorkError(Exception):
    """A permanent fault with a reason for the person who sent the input; never retried."""

    def __init__(self, code: str, title: str, detail: str, *, field: str | None = None) -> None:
        super().__init__(f"{title}: {detail}")
        self.problem = StoredProblem(code=code, title=title, detail=detail, field=field)


class TargetError(WorkError):
    """The model cannot be used."""


class DataError(WorkError):
    """The dataset cannot be used."""


class PreflightError(WorkError):
    """Model, data and parameters do not fit together."""


class AccidentError(Exception):
    """Something that may go well at the next attempt; the words are ours, and tell nothing of the worker's machine."""
