"""Errors a worker stores instead of raising them at anybody.

::

    WorkError
    +-- TargetError       the model cannot be used: weights and architecture disagree, outputs are not scores, ...
    +-- DataError         the dataset cannot be used: an image does not decode, a shape differs from the model's, ...
    +-- PreflightError    model, data and parameters do not fit together; retrying changes nothing

    AccidentError         what may go well another time; its words are ours and may be told to anybody
    +-- MachineError      trouble of the machine, which is no attempt: a full disk, a store that does not answer, ...
"""

import logging
import secrets
import traceback

from seatrial.contracts.problems import StoredProblem

log = logging.getLogger(__name__)


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


class MachineError(AccidentError):
    """The machine is in trouble: whatever ran there would have met it."""


def log_fault(error: BaseException) -> str:
    """Log a library's error for the operator, and return what people are told instead of its text.

    The text of an error may hold what the library read: a line of a file, a path, a part of somebody's data. So people
    learn its type and a reference, under which the log has the rest.

    Returns:
        ``KeyError, reference 3f9c2a71``.
    """
    reference = secrets.token_hex(4)
    kind = type(error).__name__
    # The text is written as a literal: line breaks in it would look like entries of their own.
    frames = "".join(traceback.format_tb(error.__traceback__)).rstrip()
    log.warning("reference %s: %s: %.4000r\n%s", reference, kind, str(error), frames)
    return f"{kind}, reference {reference}"
