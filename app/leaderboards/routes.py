"""The route of leaderboards."""

from typing import Annotated, Literal

from fastapi import APIRouter, Query, Request
from starlette.responses import JSONResponse, Response

from app.access.principal import Reader
from app.leaderboards.service import Asked, leaderboard
from app.leaderboards.tables import render_csv, render_markdown
from app.web.identifiers import ID
from app.web.problems import raises
from app.web.services import Service
from seatrial.contracts.leaderboards import LeaderboardRead
from seatrial.contracts.registry import families

router = APIRouter(prefix="/v1", tags=["reports"], responses=raises(401, 403))

LeaderboardFormat = Literal["json", "csv", "markdown"]


@router.get(
    "/leaderboard",
    response_model=LeaderboardRead,
    responses={
        200: {
            "description": "The leaderboard, as asked for.",
            "content": {"text/csv": {"schema": {"type": "string"}}, "text/markdown": {"schema": {"type": "string"}}},
        },
        **raises(404, 422, 429),
    },
    summary="Read a leaderboard",
)
async def read_leaderboard(
    request: Request,
    principal: Reader,
    services: Service,
    dataset: Annotated[
        str, Query(pattern=ID, description="Id of the dataset.", examples=["dat_0199f0c4e0c27b6c8a3e5d1f9b7a2c12"])
    ],
    check: Annotated[
        str, Query(pattern=ID, description="Kind of the check, as audits name it.", examples=sorted(families())[:1])
    ],
    metric: Annotated[
        str | None,
        Query(
            max_length=200,
            pattern=r"^[ -~]+$",
            description="What to sort by, one of `metrics`; by default the first that shipped policies judge, else "
            "the family's first with a better way.",
            examples=["clean_accuracy"],
        ),
    ] = None,
    against: Annotated[
        str | None, Query(pattern=ID, description="Audit, one of the rows', to measure differences from.")
    ] = None,
    group: Annotated[
        str | None, Query(pattern=ID, description="One of `groups`; by default the one with most models.")
    ] = None,
    across: Annotated[
        str | None,
        Query(
            pattern=r"^[a-z0-9_]{1,64}$",
            description="Parameter of the check in which audits may differ: a model has a row for each of its values.",
            examples=["sigma"],
        ),
    ] = None,
    beside: Annotated[
        str | None,
        Query(
            max_length=200,
            pattern=r"^[ -~]+$",
            description="A second number: rows that none other beats in both are on the Pareto front.",
        ),
    ] = None,
    format: Annotated[LeaderboardFormat, Query(description="`json` (default), `csv` or `markdown`.")] = "json",
) -> Response:
    """Put the models that were audited alike into one table, with intervals and ranks.

    Alike are audits of the same bytes of data with the same parameters, number of examples and seed; of a model the
    newest counts. With `across` they may differ in one parameter, the noise of smoothed models say. A rank comes with
    the places that comparisons of every two models, example by example where their records allow it, leave open at
    95 %. Up to 50 models, the newest.
    """
    asked = Asked(dataset, check, metric, against, group, across, beside)
    project_id = principal.project_id

    def answer() -> Response:
        board = leaderboard(services, project_id, asked)
        if format == "json":
            return JSONResponse(board.model_dump(mode="json"))
        text = render_csv(board) if format == "csv" else render_markdown(board)
        kind = "csv" if format == "csv" else "markdown"
        return Response(text, media_type=f"text/{kind}; charset=utf-8", headers={"X-Content-Type-Options": "nosniff"})

    return await services.computations.run(request, project_id, answer)
