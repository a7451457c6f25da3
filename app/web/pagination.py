"""Pages by cursor: newest first, in constant time however deep.

Ids sort by time, so a cursor is the last id seen and a page is one range scan of the index (project, id). A page never
repeats or skips what was there when paging began, whatever is added meanwhile.
"""

import base64
import binascii
import json
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Annotated, Any, Generic, TypeVar

from fastapi import Query, Request, Response
from pydantic import BaseModel, Field

from app.web.problems import InvalidRequestError

ItemT = TypeVar("ItemT")
RowT = TypeVar("RowT")

MAX_LIMIT = 200
MAX_PAGE_BYTES = 2**22
"""A page ends early when it has more than this: 200 policies with every field filled would be 25 MB."""
BATCH = 10
"""Rows of a list that are in memory at once, where rows can be large."""

Limit = Annotated[
    int, Query(ge=1, le=MAX_LIMIT, description="Items per page at most; fewer come where items are large.")
]
Cursor = Annotated[
    str | None, Query(max_length=200, description="`next` of the page before; leave out for the first page.")
]


class Page(BaseModel, Generic[ItemT]):
    """Part of a list, newest first."""

    items: list[ItemT] = Field(description="The items of this page.")
    next: str | None = Field(description="Cursor of the next page (also in the Link header); null on the last one.")


@dataclass(frozen=True)
class PageRequest:
    """Which page is wanted.

    Attributes:
        limit: Items per page.
        before: Id the page begins after (older than); None for the first page.
    """

    limit: int
    before: str | None

    @property
    def fetch(self) -> int:
        """Rows to ask the database for: one more than shown tells whether there is a next page."""
        return self.limit + 1


def encode_cursor(last_id: str) -> str:
    """Return the cursor of the page after ``last_id``.

    >>> decode_cursor(encode_cursor("aud_0199f0c4e0c27b6c8a3e5d1f9b7a2c11"), "aud")
    'aud_0199f0c4e0c27b6c8a3e5d1f9b7a2c11'
    """
    return base64.urlsafe_b64encode(last_id.encode()).decode().rstrip("=")


def decode_cursor(cursor: str, prefix: str) -> str:
    """Return the id in a cursor.

    Raises:
        InvalidRequestError: It is not a cursor of this list.
    """
    try:
        last_id = base64.b64decode(cursor + "=" * (-len(cursor) % 4), altchars=b"-_", validate=True).decode("ascii")
    except (binascii.Error, ValueError):
        last_id = ""
    if not re.fullmatch(rf"{prefix}_[0-9a-f]{{32}}", last_id):
        raise InvalidRequestError("cursor is not the `next` of a page of this list", part="query", pointer="/cursor")
    return last_id


def page_request(prefix: str) -> Callable[..., PageRequest]:
    """Return a dependency reading ``limit`` and ``cursor`` of a list whose ids begin with ``prefix``."""

    async def read(limit: Limit = 50, cursor: Cursor = None) -> PageRequest:
        return PageRequest(limit, decode_cursor(cursor, prefix) if cursor is not None else None)

    return read  # type: ignore[return-value]


def page_response(
    request: Request, page: PageRequest, rows: Iterable[RowT], render: Callable[[RowT], dict[str, Any]]
) -> Response:
    """Return a page of ``rows``, of ``MAX_PAGE_BYTES`` and one item at most.

    Args:
        request: Whose path leads to the next page.
        page: What is wanted.
        rows: At most ``page.fetch``, newest first; each has an ``id``. Read one by one, so that rows streamed from the
            database are never in memory together.
        render: Makes an item of a row.
    """
    items: list[bytes] = []
    size, following, last_id = 0, None, ""
    for row in rows:
        if len(items) == page.limit or size > MAX_PAGE_BYTES:
            following = encode_cursor(last_id)
            break
        item = json.dumps(render(row), ensure_ascii=False, allow_nan=False, separators=(",", ":"))
        items.append(item.encode())
        size += len(items[-1])
        last_id = row.id  # type: ignore[attr-defined]
    headers = {}
    if following is not None:
        # A path, not a host: behind a proxy we do not know our own name.
        url = request.url.include_query_params(cursor=following)
        headers["Link"] = f'<{url.path}?{url.query}>; rel="next"'
    body = b'{"items":[%b],"next":%b}' % (b",".join(items), json.dumps(following).encode())
    return Response(body, media_type="application/json", headers=headers)
