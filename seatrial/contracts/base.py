"""The base of every request body: strict types, no unknown fields."""

from typing import TypeAlias

from pydantic import BaseModel, ConfigDict

Real: TypeAlias = float
"""A finite JSON number: in a strict model ``1`` and ``1.0`` are the same, ``true`` and ``"1"`` are refused."""


class Request(BaseModel):
    """A body a client sends: nothing is coerced and an unknown field is an error."""

    model_config = ConfigDict(strict=True, extra="forbid", allow_inf_nan=False)


class Read(BaseModel):
    """A body the service sends."""

    model_config = ConfigDict(from_attributes=True)
