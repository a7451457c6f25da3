"""Lists that go on: the rows a page shows, and where its links lead."""

from collections.abc import Sequence
from typing import Any

from app.web.pagination import encode_cursor


def paged(rows: Sequence[Any], path: str, *, per_page: int, is_first: bool) -> dict[str, Any]:
    """Return what a template with ``parts.pager`` shows: ``rows``, and the links ``newest`` and ``following``.

    Args:
        rows: Newest first, one more than fits where the list goes on; each has an ``id``.
        path: Of the list.
        per_page: Rows that fit.
        is_first: Whether the page begins with the newest.
    """
    shown = rows[:per_page]
    following = f"{path}?cursor={encode_cursor(shown[-1].id)}" if len(rows) > per_page else None
    return {"rows": shown, "newest": None if is_first else path, "following": following}
