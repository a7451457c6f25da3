"""What every room works with: one of each per process, made by ``create_app``."""

from dataclasses import dataclass, field
from typing import Annotated

from fastapi import Depends, Request

from app.access.authenticator import Authenticator
from app.audits.streams import EventStreams
from app.web.computing import Computations
from app.web.inspecting import Inspections
from app.webhooks.delivery import Deliverer
from seatrial.store.artifacts import ArtifactStore, open_store
from seatrial.store.database import Database, connect
from seatrial.store.queue import Bell
from seatrial.store.settings import Settings


@dataclass(frozen=True)
class Services:
    """The process's database, store, bell, deliverer, inspections, computations, keys and event streams."""

    settings: Settings
    database: Database
    store: ArtifactStore
    bell: Bell
    deliverer: Deliverer
    inspections: Inspections
    computations: Computations
    authenticator: Authenticator = field(repr=False)
    streams: EventStreams


def open_services(settings: Settings) -> Services:
    """Connect to everything the settings name."""
    # As many connections as the thread pool has threads: a route never waits for one.
    database = connect(settings, pool_size=40)
    return Services(
        settings,
        database,
        open_store(settings),
        Bell(settings),
        Deliverer(settings, database),
        Inspections(settings),
        Computations(),
        Authenticator(settings, database),
        EventStreams(settings),
    )


async def _services(request: Request) -> Services:
    services: Services = request.app.state.services
    return services


Service = Annotated[Services, Depends(_services)]
