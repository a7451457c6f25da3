"""What an API process tidies up by itself, so that no other process needs rights to it."""

import logging
import time

from app.web.services import Services
from seatrial.store.keeping import apply_retention
from seatrial.store.reaping import reap
from seatrial.store.releasing import sweep_released, sweep_unnamed
from seatrial.store.retention import sweep_old
from seatrial.store.staging import sweep_staging

log = logging.getLogger(__name__)

EVERY_S = 300.0
"""Seconds between two rounds: what is swept has been of no use for hours."""

WALK_EVERY_S = 86_400.0
"""Seconds between two walks through the whole store, for files that no row ever named."""


class Housekeeping:
    """Drops expired rows and abandoned files, at the start and then every few minutes."""

    def __init__(self, services: Services, *, every_s: float = EVERY_S) -> None:
        self._services = services
        self._every_s = every_s
        self._due_at = float("-inf")

    def __call__(self) -> None:
        """Do what is due; called every moment by the periodic runner."""
        if time.monotonic() < self._due_at:
            return
        self._due_at = time.monotonic() + self._every_s
        sweep_staging(self._services.store, self._services.settings.staging_kept_s)
        sweep_old(self._services.database)


class Keeping:
    """Deletes what projects keep no longer, then the files that nobody names: every few minutes, the rest daily."""

    def __init__(self, services: Services, *, every_s: float = EVERY_S, walk_every_s: float = WALK_EVERY_S) -> None:
        self._services = services
        self._every_s, self._walk_every_s = every_s, walk_every_s
        # The first walk comes after a whole period: a restart is no reason for one.
        self._due_at, self._walk_at = float("-inf"), time.monotonic() + walk_every_s

    def __call__(self) -> None:
        """Do what is due; called every moment by the periodic runner."""
        if time.monotonic() < self._due_at:
            return
        database, store = self._services.database, self._services.store
        if kept := apply_retention(database):
            log.info("deleted %d audits, models and datasets that projects keep no longer", kept)
        if (freed := sweep_released(database, store)).files:
            log.info("freed %d files, %d bytes", freed.files, freed.size_bytes)
        if time.monotonic() >= self._walk_at:
            self._walk_at = time.monotonic() + self._walk_every_s
            walked = [size for _, size in sweep_unnamed(database, store)]
            if walked:
                log.info("freed %d files that no row named, %d bytes", len(walked), sum(walked))
        # Not before it went well: the runner calls again, after pauses.
        self._due_at = time.monotonic() + self._every_s


class Reaping:
    """Takes back what dead workers held: where the scheduler is lost, and no worker lives, too."""

    def __init__(self, services: Services) -> None:
        self._services = services
        self._due_at = float("-inf")

    def __call__(self) -> None:
        """Do what is due; called every moment by the periodic runner."""
        if time.monotonic() < self._due_at:
            return
        settings = self._services.settings
        self._due_at = time.monotonic() + settings.reap_s
        if taken := reap(self._services.database, max_attempts=settings.max_attempts):
            log.warning("took back %d expired leases", taken)
            self._services.notifier.notify(taken)
