"""What a client raises."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import httpx

_MOST_IN_DETAIL = 5
"""Errors that the service joins into one detail, each behind its pointer, or behind the name in it."""

_WRITTEN: tuple[Callable[[Mapping[str, Any]], str], ...] = (
    lambda _: "",
    lambda error: f"{error.get('pointer') or 'body'}: ",
    lambda error: f"{str(error.get('pointer', '')).removeprefix('/')}: ",
)


class ClientError(Exception):
    """Base of everything the client raises."""


class ProblemResponseError(ClientError):
    """The service refused; ``problem`` is its response (RFC 9457)."""

    def __init__(self, problem: Mapping[str, Any]) -> None:
        self.problem = dict(problem)
        listed = problem.get("errors")
        # The response may come from something other than Seatrial.
        errors = [one for one in listed if isinstance(one, dict)] if isinstance(listed, list) else []
        self.problem["errors"] = errors
        title, detail = str(problem.get("title", "Error")), str(problem.get("detail", ""))
        # What is wrong with fields is told once, at the fields.
        lines = [title if not detail or _repeats(detail, errors) else f"{title}: {detail}"]
        lines += [f"  {error.get('pointer', '')}: {error.get('detail', '')}" for error in errors]
        super().__init__("\n".join(lines))

    @property
    def status(self) -> int:
        """HTTP status of the response."""
        status = self.problem.get("status", 0)
        return status if isinstance(status, int) else 0


def _repeats(detail: str, errors: Sequence[Mapping[str, Any]]) -> bool:
    """Tell whether a detail says no more than its errors, with or without their pointers."""
    told = {
        "; ".join(f"{written(one)}{one.get('detail', '')}" for one in errors[:_MOST_IN_DETAIL]) for written in _WRITTEN
    }
    return bool(errors) and detail in told


class ServiceUnreachableError(ClientError):
    """The service did not respond, even after retries."""


class UnexpectedAnswerError(ClientError):
    """The response does not come from Seatrial: a proxy's page, other JSON, or a body that does not end."""


class WaitTimeoutError(ClientError):
    """The audit did not end in time; it goes on."""


class DeadlineError(ClientError):
    """The time given for a request was over before it succeeded; the message ends with the last reason."""


class NotJudgedError(WaitTimeoutError):
    """The audit has ended, and no verdict has come."""


def problem_of(response: httpx.Response) -> ProblemResponseError:
    """Return the error of a response; where it is not a problem document, its status and the beginning of its text."""
    try:
        problem = response.json()
    except (ValueError, RecursionError):
        problem = None
    if not isinstance(problem, dict) or "title" not in problem:
        problem = {"title": f"HTTP {response.status_code}", "detail": response.text[:500]}
    return ProblemResponseError({**problem, "status": response.status_code})
