"""Trouble of the machine, which is no fault of the work: put off ever longer, and never counted as an attempt.

A disk that is full, a stored file that is missing, a database that is away, memory that the machine has not got: the
next attempt would meet the same within seconds, and three of them would fail what is in order.
"""

import errno
import os

from sqlalchemy.exc import SQLAlchemyError

from seatrial.contracts.problems import StoredProblem
from seatrial.store.artifacts import ArtifactDamagedError, ArtifactMissingError
from seatrial.store.database import UNREACHABLE
from workers.errors import MachineError

FIRST_S = 5.0
"""Seconds of the first deferral; each further one takes twice as long."""

LONGEST_S = 300.0
"""Seconds of the longest."""

MOST_DEFERRALS = 290
"""A day, with the pauses above; then the work fails with its reason. Uploads run in the processes that tell of trouble,
and must not keep a place in the queue for ever by telling of some."""

MOST_MISSING = 8
"""A quarter of an hour for a file to come back: it may be on a disk that is mounted anew, but hardly later."""

TROUBLE = frozenset(
    {errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EROFS, errno.ENOMEM, errno.EMFILE, errno.ENFILE, errno.ESTALE}
)


def trouble_of(error: BaseException) -> str | None:
    """Return what is wrong with the machine, or None where the error is another one's fault.

    >>> trouble_of(OSError(errno.ENOSPC, "cannot write /a/path"))
    'No space left on device'
    >>> trouble_of(ValueError("of the work"))
    """
    if isinstance(error, MachineError):
        return str(error)
    if isinstance(error, OSError) and error.errno in TROUBLE:
        return os.strerror(error.errno)
    if isinstance(error, ArtifactMissingError) and not isinstance(error, ArtifactDamagedError):
        return f"a stored file is missing: {error.args[0].partition(' ')[0]}"
    # The last is what a child process tells of its parent's database.
    if isinstance(error, UNREACHABLE) or type(error) is SQLAlchemyError:
        return "the database does not answer"
    # Of this process. One in a child is answered by its limit.
    if isinstance(error, MemoryError):
        return os.strerror(errno.ENOMEM)
    return None


def put_off_s(deferrals: int) -> float:
    """Return the seconds until the next attempt, after so many deferrals.

    >>> [put_off_s(n) for n in (0, 1, 2, 10, 10_000)]
    [5.0, 10.0, 20.0, 300.0, 300.0]
    """
    return float(min(LONGEST_S, FIRST_S * 2 ** min(deferrals, 10)))


def may_defer(error: BaseException, deferrals: int) -> bool:
    """Return whether the work waits for the machine once more."""
    return deferrals < (MOST_MISSING if isinstance(error, ArtifactMissingError) else MOST_DEFERRALS)


def told(trouble: str) -> StoredProblem:
    """Return trouble as a problem for the person who asked."""
    return StoredProblem(
        code="machine-trouble",
        title="The worker's machine is in trouble",
        detail=f"{trouble}. Work waits for it and is tried again by itself, at last every 5 minutes; what failed of it "
        "after a day, or a quarter of an hour without a file, can be retried",
    )
