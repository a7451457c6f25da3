"""What every room works with: one of each per process, made by ``create_app``."""

from dataclasses import dataclass, field
from typing import Annotated, Any, TypeVar

from fastapi import Depends, Request

from app.web.computing import Computations
from app.web.inspecting import Inspections
from seatrial.store.artifacts import ArtifactStore, open_store
from seatrial.store.database import Database, connect
from seatrial.store.queue import WakeupNotifier
from seatrial.store.settings import Settings

Part = TypeVar("Part")


@dataclass(frozen=True)
class Services:
    """What is one per process: database, artifacts, notifier of workers, inspections, computations, and rooms' own.

    Attributes:
        settings: Settings everything was opened by.
        database: Database.
        store: Artifacts.
        notifier: Tells workers that there may be something to claim.
        inspections: Inspect uploads in children.
        computations: Run what takes a while on threads of their own.
        parts: What rooms keep for the whole process, by type; see :meth:`of`.
    """

    settings: Settings
    database: Database
    store: ArtifactStore
    notifier: WakeupNotifier
    inspections: Inspections
    computations: Computations
    parts: dict[type[Any], Any] = field(default_factory=dict, repr=False)

    def add(self, part: object) -> None:
        """Keep what a room needs one of, for as long as the process lives."""
        self.parts[type(part)] = part

    def of(self, kind: type[Part]) -> Part:
        """Return what a room keeps for the whole process.

        Raises:
            KeyError: ``create_app`` opened none.
        """
        part: Part = self.parts[kind]
        return part


def open_services(settings: Settings) -> Services:
    """Connect to everything the settings name."""
    # On SQLite as many connections as the thread pool has threads: a route never waits for one.
    database = connect(settings, pool_size=40)
    return Services(
        settings, database, open_store(settings), WakeupNotifier(settings), Inspections(settings), Computations()
    )


async def _services(request: Request) -> Services:
    services: Services = request.app.state.services
    return services


Service = Annotated[Services, Depends(_services)]
