"""Query parameters: one that a route does not know is a mistake to be told, not a filter to be dropped."""

from fastapi import Depends, Request, params
from fastapi.dependencies.utils import get_flat_params

from app.web.problems import FieldError, InvalidRequestError
from seatrial.contracts.near_names import instead

# A stranger may send ten thousand in one line.
_MOST_TOLD = 20


async def _refuse_unknown(request: Request) -> None:
    """Compare the names in the query with the parameters the route declares.

    Raises:
        InvalidRequestError: Some are unknown; ``errors`` names each, ``detail`` those there are.
    """
    asked = dict.fromkeys(request.query_params.keys())
    if not asked:
        return
    fields = get_flat_params(request.scope["route"].dependant)
    known = [field.alias for field in fields if isinstance(field.field_info, params.Query)]
    errors = [
        FieldError(
            part="query",
            pointer="/" + name[:100].replace("~", "~0").replace("/", "~1"),
            detail=f"This route has no parameter {name[:100]!r}{instead(name, sorted(known))}.",
        )
        for name in [name for name in asked if name not in known][:_MOST_TOLD]
    ]
    if errors:
        raise InvalidRequestError(" ".join(one.detail for one in errors[:5]), errors=errors)


KnownQueryOnly = Depends(_refuse_unknown)
"""A dependency for whole routers."""
