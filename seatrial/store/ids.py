"""Prefixed, sortable identifiers: ``mdl_``, ``dat_``, ``aud_``, ``chk_`` + UUIDv7 in hex."""

from uuid6 import uuid7


def new_id(prefix: str) -> str:
    """Return a new identifier; later ones sort after earlier ones (to the millisecond)."""
    return f"{prefix}_{uuid7().hex}"
