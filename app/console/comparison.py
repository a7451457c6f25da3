"""Pages that compare: two audits, and a model's versions."""

from fastapi import APIRouter, Request, Response

from app.console import chart, repository
from app.console.comparing import history, side_by_side
from app.console.pages import page
from app.console.service import progress_of
from app.console.viewer import ConsoleRoute, Reader, Viewer
from app.web.identifiers import ModelName, is_id
from app.web.problems import NotFoundError
from app.web.services import Service, Services
from seatrial.contracts.metric_ranges import Reach, reach_of
from seatrial.contracts.policies import described_metric

router = APIRouter(route_class=ConsoleRoute, include_in_schema=False)


@router.get("/compare")
async def compare_audits(request: Request, viewer: Reader, services: Service, a: str = "", b: str = "") -> Response:
    """Show two audits side by side; ask for what is not named yet."""
    return await services.computations.run(
        request, viewer.project_id, lambda: _compare(request, viewer, services, a, b)
    )


def _compare(request: Request, viewer: Viewer, services: Services, a: str, b: str) -> Response:
    audits = []
    with services.database.read() as session:
        choices = repository.measured_audits(session, viewer.project_id)
        for named in (a, b):
            if named and not is_id(named):
                raise NotFoundError("There is no such audit in this project.")
            audits.append(progress_of(session, viewer.project_id, named).audit if named else None)
        ids = {one for audit in audits if audit is not None for one in (audit.model, audit.dataset)}
        names = repository.names_of(session, viewer.project_id, ids)
    first, second = audits
    shown = side_by_side(services, viewer.project_id, first, second) if first and second else None
    return page(
        request,
        "compare.html",
        title="Compare audits",
        choices=choices,
        asked={"a": a, "b": b},
        first=first,
        second=second,
        names=names,
        shown=shown,
    )


@router.get("/models/{name}/history")
async def show_history(
    request: Request,
    name: ModelName,
    viewer: Reader,
    services: Service,
    metric: str = "",
) -> Response:
    """Show a number over the versions of a model, with its interval."""
    return await services.computations.run(
        request, viewer.project_id, lambda: _history(request, viewer, services, name, metric)
    )


def _reach(metric: str) -> Reach | None:
    try:
        return reach_of(described_metric(metric))
    except ValueError:
        # Of a family or a version this one does not know.
        return None


def _history(request: Request, viewer: Viewer, services: Services, name: str, metric: str) -> Response:
    with services.database.read() as session:
        shown = history(session, viewer.project_id, name, metric)
        if not shown.metrics and not repository.has_model(session, viewer.project_id, name):
            raise NotFoundError(f"There is no model {name} in this project.")
        baselines = repository.current_baselines(session, viewer.project_id, name)
        names = repository.names_of(session, viewer.project_id, {point.dataset for point in shown.points})
    # Versions in the order they were uploaded, whenever they were audited.
    newest = sorted((point for point in shown.points if point.is_newest), key=lambda point: (point.model, point.audit))
    drawn = [(point.version, point.estimate, not point.unlike) for point in newest]
    return page(
        request,
        "history.html",
        title=f"History of {name}",
        name=name,
        shown=shown,
        names=names,
        baselines={audit: [one for one, of in baselines.items() if of == audit] for audit in baselines.values()},
        drawing=chart.draw(drawn, None if shown.metric is None else _reach(shown.metric)),
        size=chart,
    )
