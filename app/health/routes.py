"""Routes of health and metrics: no key, nothing secret."""

from fastapi import APIRouter, Request, Response
from prometheus_client import CONTENT_TYPE_LATEST
from sqlalchemy.exc import SQLAlchemyError
from starlette.responses import JSONResponse

from app.health import repository
from app.health.metrics import Metrics
from app.health.schemas import Health, Readiness
from app.web.services import Service, Services
from seatrial.store.migrations import is_compatible
from seatrial.store.retention import scheduler_age_s
from seatrial.store.staging import temporary_file

router = APIRouter(tags=["health"])


@router.get("/healthz", summary="Is the process up?")
async def healthz(request: Request) -> Health:
    """Answer without touching anything: whether the process is up."""
    return Health(status="ok", version=request.app.version)


@router.get(
    "/readyz",
    response_model=Readiness,
    responses={503: {"model": Readiness, "description": "Not ready"}},
    summary="Can requests be answered?",
)
def readyz(services: Service) -> Response:
    """Look at the database, its schema, the storage, the broker and the workers."""
    database, workers, scheduler = _look_at_database(services)
    storage = _look_at_storage(services)
    reachable = services.notifier.is_reachable()
    # A broker that is down delays work to the next sweep; requests are answered all the same.
    broker = {None: "none", True: "ok", False: "unreachable"}[reachable]
    is_ready = database == storage == "ok"
    body = Readiness(
        status="ready" if is_ready else "not-ready",
        database=database,
        storage=storage,
        broker=broker,
        workers=workers,
        scheduler_age_s=scheduler,
    )
    return JSONResponse(body.model_dump(), status_code=200 if is_ready else 503)


@router.get("/metrics", response_class=Response, summary="Prometheus metrics")
def read_metrics(request: Request) -> Response:
    """Give requests, audits by state, the queue and the workers in Prometheus's text format."""
    metrics: Metrics = request.app.state.metrics
    return Response(metrics.text(), media_type=CONTENT_TYPE_LATEST)


def _look_at_database(services: Services) -> tuple[str, int, float | None]:
    try:
        if not is_compatible(services.database):
            return "its schema is not one that this version works with: run the migrations", 0, None
        with services.database.read() as session:
            return "ok", repository.count_workers(session), scheduler_age_s(session)
    except SQLAlchemyError as error:
        # The class only: the message may hold the address and the user.
        return f"unreachable ({type(error).__name__})", 0, None


def _look_at_storage(services: Services) -> str:
    try:
        with temporary_file(services.store.staging()) as path:
            path.write_bytes(b"ready?")
    except OSError as error:
        return f"not writable ({error.strerror})"
    return "ok"
