"""The API: routers, error handlers, lifespan; nothing else."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import cache
from importlib.metadata import PackageNotFoundError, version

from fastapi import APIRouter, FastAPI
from fastapi.routing import APIRoute
from starlette.routing import BaseRoute

from app.access.authenticator import Authenticator
from app.access.routes import router as access
from app.access.schemas import KeyCreate
from app.attestations.routes import router as attestations
from app.attestations.routes import well_known
from app.attestations.service import attest_judged
from app.audits.routes import router as audits
from app.audits.streams import EventStreams
from app.comparisons.routes import router as comparisons
from app.console import routes as console
from app.datasets.routes import router as datasets
from app.deletions.routes import router as deletions
from app.gates.routes import router as gates
from app.gates.service import judge_ended
from app.hardenings.advancing import advance_hardenings
from app.hardenings.routes import router as hardenings
from app.health.metrics import Metrics
from app.health.routes import router as health
from app.leaderboards.routes import router as leaderboards
from app.models.routes import router as models
from app.perturb.routes import router as perturb
from app.plans.advancing import advance_plans
from app.plans.routes import router as plans
from app.policies.routes import router as policies
from app.projects.routes import router as projects
from app.reports.badges import router as badges
from app.reports.routes import router as reports
from app.tags.routes import router as tags
from app.web import docs, openapi, problems
from app.web.heads import HeadAsGet
from app.web.housekeeping import Housekeeping, Keeping, Reaping
from app.web.logs import configure_logs
from app.web.middleware import BodyLimit, LoopbackGuard, RequestContext
from app.web.periodic import Hurry, PeriodicRunner
from app.web.queries import KnownQueryOnly
from app.web.quotas import Quotas
from app.web.services import open_services
from app.web.signals import at_signals
from app.web.telemetry import telemetry
from app.webhooks.delivery import Deliverer, deliver_due
from app.webhooks.routes import router as webhooks
from app.webhooks.schemas import SecretRotation, WebhookChange, WebhookCreate
from seatrial import tracing
from seatrial.attestation.key_folder import KeyFolder
from seatrial.contracts.projects import ProjectChange
from seatrial.store.settings import Settings, get_settings


def _version() -> str:
    try:
        return version("seatrial")
    except PackageNotFoundError:
        return "0.1.0"


@cache
def _routes() -> list[BaseRoute]:
    """Return the routes of the REST API, which depend on no settings.

    The models of a route are made when it is first asked for: 3 ms, once a process and not once an app.
    """
    rest = APIRouter()
    for router in (
        models,
        datasets,
        audits,
        policies,
        gates,
        reports,
        badges,
        attestations,
        leaderboards,
        comparisons,
        tags,
        deletions,
        projects,
        plans,
        hardenings,
        perturb,
        webhooks,
        access,
    ):
        rest.include_router(router, dependencies=[KnownQueryOnly], generate_unique_id_function=_operation_id)
    for router in (health, well_known):
        rest.include_router(router, generate_unique_id_function=_operation_id)
    return rest.routes


def _operation_id(route: APIRoute) -> str:
    """Return what the functions of generated clients are called by; FastAPI's own holds path and method as well."""
    return route.name


def create_app(settings: Settings | None = None) -> FastAPI:
    """Return the API for these settings, the environment's by default.

    Raises:
        ValueError: The bootstrap key is too short to be one.
    """
    settings = settings or get_settings()
    configure_logs(settings)
    services = open_services(settings)
    services.add(Authenticator(settings, services.database))
    services.add(Quotas(services.database))
    services.add(Deliverer(settings, services.database))
    services.add(EventStreams(settings))
    services.add(KeyFolder.of(settings))
    services.add(Hurry())
    metrics = Metrics(services.database, settings)
    traces = tracing.start("seatrial-api") if settings.traces else None

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        periodic = PeriodicRunner(
            {
                "judging": lambda: judge_ended(services),
                "attesting": lambda: attest_judged(services),
                "plans": lambda: advance_plans(services),
                "hardenings": lambda: advance_hardenings(services),
                "webhooks": lambda: deliver_due(services),
                "housekeeping": Housekeeping(services),
                "reaping": Reaping(services),
            },
            hurry=services.of(Hurry),
        )
        # On a thread of its own: what deletes files must keep no verdict waiting.
        keeping = PeriodicRunner({"keeping": Keeping(services)})
        periodic.start()
        keeping.start()
        # A server waits for open responses before it tells the application that it ends, and streams are open for ever.
        at_signals(services.of(EventStreams).stop)
        yield
        periodic.stop()
        keeping.stop()
        # Sent and not recorded would be sent again by the next process.
        services.of(Deliverer).settle(2.0)
        services.database.dispose()
        if traces is not None:
            tracing.stop(traces)

    app = FastAPI(
        title="Seatrial",
        version=_version(),
        routes=_routes(),
        lifespan=lifespan,
        openapi_url=None,
        docs_url=None,
        redoc_url=None,
        telemetry=telemetry(traces),
    )
    app.state.services = services
    app.state.metrics = metrics
    docs.install(app)
    console.install(app)
    openapi.install(app, bodies=(KeyCreate, ProjectChange, SecretRotation, WebhookChange, WebhookCreate))
    problems.install(app)
    # The last one added is the first to see a request.
    app.add_middleware(HeadAsGet)
    app.add_middleware(BodyLimit, settings=settings)
    if not settings.require_keys:
        app.add_middleware(LoopbackGuard)
    app.add_middleware(RequestContext, observe=metrics.observe)
    return app
