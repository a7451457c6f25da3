"""How a command that judges, or that runs what is judged, ends: one table of exit statuses.

A pipeline must be able to tell a bad model (1) from a tool that broke (4), so nothing else may end with status 1: not a
crash, not Ctrl-C, not a refusal.
"""

import signal
import sys
import threading
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from enum import IntEnum
from types import FrameType
from typing import NoReturn

import click

from app.cli.showing import echo, echo_line, show_error
from seatrial.client import ClientError, DeadlineError, ProblemResponseError, ServiceUnreachableError
from seatrial.contracts.policies import Verdict


class Exit(IntEnum):
    """Exit statuses."""

    PASSED = 0
    FAILED = 1
    BAD_REQUEST = 2
    INCONCLUSIVE = 3
    COULD_NOT_RUN = 4
    TIMED_OUT = 5
    INTERRUPTED = 130


MEANINGS: dict[Exit, str] = {
    Exit.PASSED: "passed: every blocking rule holds",
    Exit.FAILED: "failed: a blocking rule does not hold",
    Exit.BAD_REQUEST: "bad request: an option, a file or the model itself is refused",
    Exit.INCONCLUSIVE: "inconclusive: more examples are needed to decide",
    Exit.COULD_NOT_RUN: "could not run: a check or the service failed, so there is no verdict",
    Exit.TIMED_OUT: "timed out",
    Exit.INTERRUPTED: "interrupted (Ctrl-C, SIGTERM)",
}

OF_VERDICT: dict[Verdict, Exit] = {
    "passed": Exit.PASSED,
    "failed": Exit.FAILED,
    "inconclusive": Exit.INCONCLUSIVE,
    "errored": Exit.COULD_NOT_RUN,
}


def exit_table() -> str:
    """Return the statuses as the end of a ``--help`` page.

    >>> print(exit_table().splitlines()[2])
      0    passed: every blocking rule holds
    """
    # \b keeps click from filling the lines into a paragraph.
    return "\b\nExit status:\n" + "\n".join(f"  {code:<4} {meaning}" for code, meaning in MEANINGS.items())


class BadRequestError(click.ClickException):
    """The request is wrong: an answer of the service, or a file that cannot be one."""

    exit_code = Exit.BAD_REQUEST


class CouldNotRunError(click.ClickException):
    """The service could not be asked, or could not answer."""

    exit_code = Exit.COULD_NOT_RUN


class TimedOutError(click.ClickException):
    """The time given by an option was over before the service had taken the request."""

    exit_code = Exit.TIMED_OUT


def as_click(error: ClientError) -> click.ClickException:
    """Return what a command ends with for an error of the client."""
    is_request_wrong = isinstance(error, ProblemResponseError) and 400 <= error.status < 500
    told = str(error)
    if isinstance(error, DeadlineError):
        return TimedOutError(f"Timed out (--timeout): {told}")
    if isinstance(error, ServiceUnreachableError) and "refused" in told.lower():
        told += (
            "\nNo service listens there: start one with `seatrial serve`, or name another by --server (SEATRIAL_URL)."
        )
    if isinstance(error, ProblemResponseError) and error.status == 401:
        told += (
            "\nAt a command line a key is given by SEATRIAL_KEY or --key; `seatrial keys create NAME --home HOME` makes"
            " one, with the home that the service names when it starts."
        )
    return (BadRequestError if is_request_wrong else CouldNotRunError)(told)


def database_trouble(error: Exception) -> str | None:
    """Return what is told of a database that does not answer; None of other errors."""
    # What has not been imported has not raised it, and to import it takes longer than most commands.
    if "sqlalchemy" not in sys.modules:
        return None
    from seatrial.store.database import UNREACHABLE

    if not isinstance(error, UNREACHABLE):
        return None
    why = str(getattr(error, "orig", None) or error).strip().partition("\n")[0]
    return (
        f"The database cannot be used: {why}. Is it running, and is SEATRIAL_DATABASE_URL right? See seatrial doctor."
    )


@contextmanager
def ending_as_documented() -> Iterator[None]:
    """End the process with one of :data:`MEANINGS`, whatever happens inside; a crash is 4, with its traceback.

    Raises:
        BrokenPipeError: Nobody reads the output any more, which is neither a crash nor a verdict.
    """
    try:
        with sigterm_interrupts():
            yield
    except click.ClickException as error:
        show_error(error)
        # Click's own status of a plain error is 1, which means here that the model is bad.
        sys.exit(error.exit_code if error.exit_code != 1 else Exit.COULD_NOT_RUN)
    except ClientError as error:
        shown = as_click(error)
        show_error(shown)
        sys.exit(shown.exit_code)
    except KeyboardInterrupt:
        echo_line("Interrupted.", err=True)
        sys.exit(Exit.INTERRUPTED)
    except BrokenPipeError:
        raise
    except Exception:
        echo(traceback.format_exc(), err=True)
        sys.exit(Exit.COULD_NOT_RUN)


@contextmanager
def sigterm_interrupts() -> Iterator[None]:
    """Make SIGTERM, with which CI systems cancel a job, what Ctrl-C is: the blocks being left clean up."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGTERM, _interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _interrupt(_number: int, _frame: FrameType | None) -> NoReturn:
    raise KeyboardInterrupt
