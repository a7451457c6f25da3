"""What the clients make of a response: a type of the contracts, or an error that says why not."""

from typing import TypeVar

import httpx
from pydantic import BaseModel, ValidationError

from seatrial.client.errors import UnexpectedAnswerError
from seatrial.client.requests import Request
from seatrial.contracts.events import EventRead

M = TypeVar("M", bound=BaseModel)


def parse_response(request: Request, response: httpx.Response, into: type[M]) -> M:
    """Return the body of a response.

    Raises:
        UnexpectedAnswerError: It is not of that type.
    """
    try:
        return into.model_validate_json(response.content)
    except ValidationError as error:
        raise _unexpected(request, response, error) from error


def parse_page(request: Request, response: httpx.Response, into: type[M]) -> tuple[list[M], str | None]:
    """Return the items of a page of a list, and the cursor of the next page; None on the last.

    Raises:
        UnexpectedAnswerError: It is not a page of these, or leads to no other.
    """
    try:
        page = response.json()
        items, following = [into.model_validate(item) for item in page["items"]], page["next"]
    except (ValueError, RecursionError, LookupError, TypeError) as error:
        raise _unexpected(request, response, error) from error
    if following is None:
        return items, None
    if not isinstance(following, str) or following == request.params.get("cursor") or not items:
        raise UnexpectedAnswerError(f"GET {request.path}: the pages of this list do not end")
    return items, following


def parse_event(data: str) -> EventRead:
    """Return an event of a stream.

    Raises:
        UnexpectedAnswerError: It is not one of Seatrial's.
    """
    try:
        return EventRead.model_validate_json(data)
    except ValidationError as error:
        raise UnexpectedAnswerError("the stream holds an event that is not one of Seatrial's") from error


def _unexpected(request: Request, response: httpx.Response, error: Exception) -> UnexpectedAnswerError:
    media_type = response.headers.get("content-type", "no Content-Type")[:100]
    reason = "it is not JSON"
    if isinstance(error, ValidationError):
        reason = f"{error.error_count()} fields are wrong or missing"
    return UnexpectedAnswerError(
        f"{request.method} {request.path}: the response (status {response.status_code}, {media_type}) is not from "
        f"Seatrial: {reason}. Is the address right, and is there a proxy in between?"
    )
