"""The page of the leaderboard."""

import json

from fastapi import APIRouter, Request, Response

from app.console import repository, tradeoffs
from app.console.pages import page
from app.console.tradeoffs import draw_curves, draw_scatter
from app.console.viewer import ConsoleRoute, Reader, Viewer
from app.leaderboards.service import Asked, leaderboard
from app.leaderboards.tables import columns, has_ranges, place_in_words, varied_in_words
from app.web.identifiers import is_id
from app.web.problems import InvalidRequestError, NotFoundError
from app.web.services import Service, Services
from seatrial.contracts.leaderboards import LeaderboardRead
from seatrial.contracts.registry import families

router = APIRouter(route_class=ConsoleRoute, include_in_schema=False)


@router.get("/leaderboard")
async def show_leaderboard(
    request: Request,
    viewer: Reader,
    services: Service,
    dataset: str = "",
    check: str = "",
    metric: str = "",
    against: str = "",
    group: str = "",
    across: str = "",
    beside: str = "",
) -> Response:
    """Show the models audited alike on a dataset; ask for what is not named yet."""
    asked = {"dataset": dataset, "check": check, "metric": metric, "against": against, "group": group}
    asked |= {"across": across, "beside": beside}
    return await services.computations.run(request, viewer.project_id, lambda: _show(request, viewer, services, asked))


def _show(request: Request, viewer: Viewer, services: Services, asked: dict[str, str]) -> Response:
    with services.database.read() as session:
        datasets = repository.recent_datasets(session, viewer.project_id)
    board, refusal = None, ""
    if asked["dataset"] and asked["check"]:
        if not all(is_id(asked[name]) for name in ("dataset", "check")):
            raise NotFoundError("There is no such dataset in this project.")
        # Another dataset or check has other numbers and groups: what was picked for the last one is no mistake then.
        others = ("metric", "against", "group", "across", "beside")
        chosen = Asked(asked["dataset"], asked["check"], **{name: asked[name] or None for name in others})
        try:
            board = leaderboard(services, viewer.project_id, chosen)
        except InvalidRequestError as error:
            refusal = error.detail
            board = leaderboard(services, viewer.project_id, Asked(chosen.dataset, chosen.check))
    return page(
        request,
        "leaderboard.html",
        title="Leaderboard",
        datasets=datasets,
        kinds=list(families()),
        asked=asked,
        board=board,
        columns=[] if board is None else columns(board),
        place=place_in_words,
        has_ranges=board is not None and has_ranges(board),
        refusal=refusal,
        parameters=[] if board is None else _may_differ(board),
        varied=varied_in_words,
        scatter=None if board is None else draw_scatter(board),
        curves=None if board is None else draw_curves(board),
        size=tradeoffs,
    )


def _may_differ(board: LeaderboardRead) -> list[str]:
    """Return the parameters in which groups differ, with the one asked for: what rows may be told to differ in."""
    names = {name for one in board.groups for name in one.params}
    told = {name: {json.dumps(one.params.get(name), default=str) for one in board.groups} for name in names}
    differing = {name for name, values in told.items() if len(values) > 1 and name != "kind"}
    return sorted(differing | ({board.across} if board.across else set()))
