"""From an Authorization header to a principal."""

import hmac
import threading
import time
from datetime import datetime

from app.access import repository
from app.access.schemas import DEFAULT_PROJECT, SCOPES, Principal
from app.access.service import digest_of_secret, ensure_project
from seatrial.store.database import Database
from seatrial.store.settings import Settings
from seatrial.store.settings_errors import InvalidSettingsError
from seatrial.store.tables.base import utc_now

# A revoked key works this long at most on the other API processes; on the one that revoked it, not at all.
CACHE_S = 2.0
CACHE_KEYS = 10_000
BOOTSTRAP_LENGTH = 32


class Authenticator:
    """Knows keys, and remembers each for a moment."""

    def __init__(self, settings: Settings, database: Database) -> None:
        bootstrap = settings.bootstrap_key.get_secret_value() if settings.bootstrap_key else None
        if bootstrap is not None and len(bootstrap) < BOOTSTRAP_LENGTH:
            raise InvalidSettingsError(f"SEATRIAL_BOOTSTRAP_KEY: must have at least {BOOTSTRAP_LENGTH} characters")
        self._bootstrap = digest_of_secret(bootstrap) if bootstrap else None
        self._is_keyless = not settings.require_keys
        self._database = database
        self._default_project: str | None = None
        self._known: dict[str, tuple[float, Principal]] = {}
        self._lock = threading.Lock()

    @property
    def is_keyless(self) -> bool:
        """Whether a request without a key is the operator's."""
        return self._is_keyless

    def recall(self, secret: str | None) -> Principal | None:
        """Return who was known by this secret a moment ago, without asking the database."""
        if secret is None:
            return self._operator_if_known() if self._is_keyless else None
        known = self._known.get(digest_of_secret(secret))
        return known[1] if known is not None and known[0] > time.monotonic() else None

    def identify(self, secret: str | None) -> Principal | None:
        """Return who holds this secret; None when nobody (any more) does."""
        if secret is None:
            return self._operator() if self._is_keyless else None
        return self.identify_digest(digest_of_secret(secret))

    def identify_digest(self, digest: str) -> Principal | None:
        """Return who holds the secret with this digest; None when nobody (any more) does."""
        if self._bootstrap is not None and hmac.compare_digest(digest, self._bootstrap):
            return self._operator(digest)
        with self._database.read() as session:
            row = repository.find_by_digest(session, digest)
        if row is None or row.revoked_at is not None or row.scope not in SCOPES:
            return None
        # Not remembered beyond the moment it expires.
        left_s = CACHE_S if row.expires_at is None else min(CACHE_S, (row.expires_at - utc_now()).total_seconds())
        if left_s <= 0:
            return None
        principal = Principal(row.project_id, row.scope, key_digest=digest, key_id=row.id)
        with self._lock:
            if len(self._known) >= CACHE_KEYS:
                self._known.clear()
            self._known[digest] = (time.monotonic() + left_s, principal)
        return principal

    def is_known(self, principal: Principal) -> bool:
        """Return whether a principal still is one: no key was needed, or its key is valid."""
        return principal.key_digest is None or self.identify_digest(principal.key_digest) is not None

    def expired_at(self, secret: str) -> datetime | None:
        """Return when the key with this secret expired; None for what never was a key, was revoked or is valid."""
        with self._database.read() as session:
            row = repository.find_by_digest(session, digest_of_secret(secret))
        if row is None or row.revoked_at is not None or row.expires_at is None or row.expires_at > utc_now():
            return None
        return row.expires_at

    def forget(self, digest: str) -> None:
        """Drop a key from memory: it has been revoked."""
        with self._lock:
            self._known.pop(digest, None)

    def _operator_if_known(self) -> Principal | None:
        return Principal(self._default_project, "admin", is_operator=True) if self._default_project else None

    def _operator(self, key_digest: str | None = None) -> Principal:
        if self._default_project is None:
            self._default_project = ensure_project(self._database, DEFAULT_PROJECT)
        return Principal(self._default_project, "admin", is_operator=True, key_digest=key_digest)
