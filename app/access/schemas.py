"""Scopes, principals, and the bodies of the key routes."""

from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Literal, Self

from pydantic import Field, field_validator, model_validator

from seatrial.contracts.base import Read, Request

ScopeName = Literal["read", "run", "admin"]

# Each scope contains those before it.
SCOPES: tuple[ScopeName, ...] = ("read", "run", "admin")

PROJECT_PATTERN = r"^[a-z0-9][a-z0-9._-]{0,62}$"
DEFAULT_PROJECT = "default"
MAX_EXPIRY_DAYS = 3650


@dataclass(frozen=True)
class Principal:
    """Who is asking.

    Attributes:
        project_id: The project everything is read from and written to.
        scope: What may be done there.
        is_operator: Whether this is the bootstrap key or keyless loopback, which may act for any project.
        key_digest: Which key it is; None where none is needed.
        key_id: Its id; None of the bootstrap key, and where none is needed.
    """

    project_id: str
    scope: ScopeName
    is_operator: bool = False
    key_digest: str | None = field(default=None, repr=False, compare=False)
    key_id: str | None = field(default=None, compare=False)

    def may(self, scope: ScopeName) -> bool:
        """Return whether the scope covers another.

        >>> Principal("prj_1", "run").may("read"), Principal("prj_1", "run").may("admin")
        (True, False)
        """
        return SCOPES.index(self.scope) >= SCOPES.index(scope)


class KeyCreate(Request):
    """A key to make."""

    name: str = Field(
        min_length=1,
        max_length=100,
        pattern=r"^[^\x00-\x1f\x7f]+$",
        description="What the key is for.",
        examples=["ci"],
    )
    scope: ScopeName = Field(
        default="run", description="`read` sees, `run` also uploads and audits, `admin` also makes keys."
    )
    project: str | None = Field(
        default=None,
        pattern=PROJECT_PATTERN,
        description="Project of the key, created when new; default: one's own. Only the operator may name another.",
        examples=["vision"],
    )
    expires_at: datetime | None = Field(
        default=None,
        description="When it stops working by itself: a moment in the future with its offset (RFC 3339); default: "
        "never. Not together with `expires_in_days`.",
        examples=["2031-01-31T12:00:00Z"],
    )
    expires_in_days: int | None = Field(
        default=None, ge=1, le=MAX_EXPIRY_DAYS, description="The same, in days from now.", examples=[90]
    )

    @field_validator("expires_at")
    @classmethod
    def _expiry_is_to_come(cls, expires_at: datetime | None) -> datetime | None:
        if expires_at is None:
            return None
        if expires_at.tzinfo is None:
            raise ValueError("expires_at must name its offset from UTC: 2031-01-31T12:00:00Z")
        now = datetime.now(UTC)
        if not now < expires_at <= now + timedelta(days=MAX_EXPIRY_DAYS):
            raise ValueError(f"expires_at must lie in the future, at most {MAX_EXPIRY_DAYS:,} days from now")
        return expires_at

    @model_validator(mode="after")
    def _expiry_is_said_once(self) -> Self:
        if self.expires_at is not None and self.expires_in_days is not None:
            raise ValueError("give expires_at or expires_in_days, not both")
        return self

    def expiry(self) -> datetime | None:
        """Return when the key expires; None for never."""
        if self.expires_in_days is not None:
            return datetime.now(UTC) + timedelta(days=self.expires_in_days)
        return self.expires_at


class KeyRead(Read):
    """A key, without its secret."""

    id: str = Field(description="Identifier.", examples=["key_..."])
    name: str = Field(description="What it is for.")
    project: str = Field(description="Name of the project the key belongs to.")
    scope: ScopeName = Field(description="What it may do.")
    prefix: str = Field(description="First characters of the secret, to tell keys apart.", examples=["sea_3fT9xQ2L"])
    created_at: datetime = Field(description="When it was made (UTC).")
    expires_at: datetime | None = Field(
        default=None, description="When it stops working by itself, or did (UTC); null: never."
    )
    revoked_at: datetime | None = Field(default=None, description="When it was revoked (UTC).")


class KeyCreated(KeyRead):
    """A key and its secret, shown this once."""

    secret: str = Field(description="Send as `Authorization: Bearer <secret>`. Only its SHA-256 is stored.")
