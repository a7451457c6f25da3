"""The route of comparisons."""

from typing import Annotated, Literal

from fastapi import APIRouter, Query, Request
from starlette.responses import JSONResponse, Response

from app.access.principal import Reader
from app.comparisons.service import MOST_AUDITS, comparison
from app.comparisons.tables import members, render_csv, render_markdown
from app.web.identifiers import ID
from app.web.links import console_address
from app.web.problems import InvalidRequestError, raises
from app.web.services import Service
from seatrial.contracts.comparisons import ComparisonRead

router = APIRouter(prefix="/v1", tags=["reports"], responses=raises(401, 403))

ComparisonFormat = Literal["json", "csv", "markdown"]

# Lists are short enough for the line of a request, of at most 64 KiB.
_GROUP = r"^[A-Za-z0-9][A-Za-z0-9._ -]{0,99}:[A-Za-z0-9_]+(,[A-Za-z0-9_]+)*$"


@router.get(
    "/comparison",
    response_model=ComparisonRead,
    responses={
        200: {
            "description": "The comparison, as asked for.",
            "content": {"text/csv": {"schema": {"type": "string"}}, "text/markdown": {"schema": {"type": "string"}}},
        },
        **raises(404, 422, 429),
    },
    summary="Compare training runs",
)
async def read_comparison(
    request: Request,
    principal: Reader,
    services: Service,
    audit: Annotated[
        list[Annotated[str, Query(pattern=ID)]] | None,
        Query(
            max_length=MOST_AUDITS,
            description="Ids of audits, grouped by the name of their model: every version is a training run.",
        ),
    ] = None,
    group: Annotated[
        list[Annotated[str, Query(pattern=_GROUP, max_length=500)]] | None,
        Query(
            max_length=10,
            description="Audits put together by a name: `name:aud_...,aud_...`.",
            examples=[["baseline:aud_1,aud_2,aud_3"]],
        ),
    ] = None,
    metric: Annotated[
        list[Annotated[str, Query(max_length=200, pattern=r"^[ -~]+$")]] | None,
        Query(
            max_length=10,
            description="Full metric names, `*` for any value of a qualifier; by default all that can be compared.",
        ),
    ] = None,
    format: Annotated[ComparisonFormat, Query(description="`json` (default), `csv` or `markdown`.")] = "json",
) -> Response:
    """Give mean and standard deviation over training runs that were audited alike, as papers' tables do.

    Alike are audits of the same bytes of data with the same number of examples and seed; others are refused. A number
    is compared where every audit has it and its parameters make it mean the same; `not_compared` says why others are
    not. Of two audits `differences` has the second less the first with its interval, by which a gate would judge it.
    """
    groups: dict[str, list[str]] = {}
    for one in group or ():
        name, _, listed = one.partition(":")
        if name in groups:
            raise InvalidRequestError(f"There are two groups named {name!r}.", part="query", pointer="/group")
        groups[name] = listed.split(",")
    project_id, console = principal.project_id, console_address(services.settings, request)

    def answer() -> Response:
        compared = comparison(services, project_id, audit or [], groups, metric or [])
        if compared.differences and console is not None:
            first, second = (one.audit for one in members(compared))
            compared = compared.model_copy(update={"page": f"{console}/compare?a={first}&b={second}"})
        if format == "json":
            return JSONResponse(compared.model_dump(mode="json"))
        text = render_csv(compared) if format == "csv" else render_markdown(compared)
        kind = "csv" if format == "csv" else "markdown"
        return Response(text, media_type=f"text/{kind}; charset=utf-8", headers={"X-Content-Type-Options": "nosniff"})

    return await services.computations.run(request, project_id, answer)
