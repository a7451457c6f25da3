"""The list of keys an installation signs with, as it publishes it: a JWK Set (RFC 7517)."""

from typing import Annotated, Literal

from pydantic import AwareDatetime, ConfigDict, Field

from seatrial.contracts.base import Read


class PublishedKey(Read):
    """One key of the published list: a JWK (RFC 7517; RFC 8037 for Ed25519), and when it counts."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    kty: Literal["OKP", "EC"] = Field(description="Kind of key: `OKP` of Ed25519, `EC` of ECDSA.")
    crv: Literal["Ed25519", "P-256"] = Field(description="Curve.")
    x: Annotated[str, Field(max_length=100)] = Field(description="The key, or its first coordinate, Base64url.")
    y: Annotated[str, Field(max_length=100)] | None = Field(default=None, description="Second coordinate; null of OKP.")
    use: Literal["sig"] = Field(default="sig", description="What the key is for: signatures.")
    kid: Annotated[str, Field(max_length=100)] = Field(description="Thumbprint of the key (RFC 7638).")
    nbf: AwareDatetime | None = Field(default=None, description="When it was made: nothing dated before counts.")
    exp: AwareDatetime | None = Field(
        default=None, description="From when on nothing it signed counts; null: it does not expire."
    )
    revoked_at: AwareDatetime | None = Field(
        default=None, description="When it was revoked: nothing counts, whenever it was signed; null: it is not."
    )
    retired_at: AwareDatetime | None = Field(
        default=None, description="Since when another key signs; what this one signed before still counts."
    )


class PublishedKeys(Read):
    """What `/.well-known/seatrial-keys.json` holds."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    keys: Annotated[list[PublishedKey], Field(max_length=1000)] = Field(description="Oldest first.")
