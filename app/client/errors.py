"""What a client raises."""

from collections.abc import Mapping
from typing import Any

import httpx


class ClientError(Exception):
    """Base of everything the client raises."""


class ProblemResponseError(ClientError):
    """The service refused; ``problem`` is its answer (RFC 9457)."""

    def __init__(self, problem: Mapping[str, Any]) -> None:
        self.problem = dict(problem)
        title, detail, errors = problem.get("title", "Error"), problem.get("detail", ""), problem.get("errors", [])
        # What is wrong with one field alone is told once, at the field.
        is_told = len(errors) == 1 and errors[0].get("detail") == detail
        lines = [title if is_told or not detail else f"{title}: {detail}"]
        lines += [f"  {error.get('pointer', '')}: {error.get('detail', '')}" for error in errors]
        super().__init__("\n".join(lines))

    @property
    def status(self) -> int:
        """HTTP status of the answer."""
        return int(self.problem.get("status", 0))


class ServiceUnreachableError(ClientError):
    """No answer from the service."""


class WaitTimeoutError(ClientError):
    """The audit had not ended in time; it goes on."""


class NotJudgedError(WaitTimeoutError):
    """The audit has ended, and its verdict does not come."""


def problem_of(answer: httpx.Response) -> ProblemResponseError:
    """Return the error an answer tells; one that is no problem document is told all the same."""
    try:
        problem = answer.json()
    except ValueError:
        problem = None
    if not isinstance(problem, dict) or "title" not in problem:
        problem = {"title": f"HTTP {answer.status_code}", "detail": answer.text[:500], "status": answer.status_code}
    return ProblemResponseError(problem)
