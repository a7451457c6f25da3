"""The base of every request body: strict types, no unknown fields."""

from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict


def _int_is_a_number(value: Any) -> Any:
    # Strict mode refuses an int for a float when FastAPI hands over parsed JSON, and JSON writes 1.0 as 1.
    # A bool is an int to Python but not a number to a caller.
    return float(value) if isinstance(value, int) and not isinstance(value, bool) and abs(value) < 2**53 else value


Real = Annotated[float, BeforeValidator(_int_is_a_number)]
"""A finite JSON number: ``1`` and ``1.0`` are the same, ``true`` and ``"1"`` are refused."""


class Request(BaseModel):
    """A body a client sends: nothing is coerced and an unknown field is an error."""

    model_config = ConfigDict(strict=True, extra="forbid", allow_inf_nan=False)


class Read(BaseModel):
    """A body the service sends."""

    model_config = ConfigDict(from_attributes=True)
