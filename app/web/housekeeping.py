"""What an API process tidies up by itself, so that no other process needs rights to it."""

import time

from app.web.services import Services
from seatrial.store.retention import sweep_old
from seatrial.store.staging import sweep_staging

EVERY_S = 300.0
"""Seconds between two rounds: what is swept has been of no use for hours."""


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
