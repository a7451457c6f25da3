"""Rules that several requests share; a refusal names the field it is raised for."""

from typing import TypeVar

from pydantic import ValidationInfo

T = TypeVar("T")


def all_different(values: list[T], info: ValidationInfo) -> list[T]:
    """Return a list none of whose members stands twice.

    Raises:
        ValueError: One does.
    """
    if len(set(values)) != len(values):
        raise ValueError(f"{info.field_name} must differ from each other")
    return values
