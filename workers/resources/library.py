"""Where the language resources of an installation are."""

from dataclasses import dataclass
from pathlib import Path
from typing import Self

from app.core.settings import Settings, get_settings


@dataclass(frozen=True)
class Library:
    """A folder of language resources; each resource is a folder in it.

    Attributes:
        folder: What ``SEATRIAL_RESOURCES`` names. It need not exist: what is shipped is always there.
    """

    folder: Path

    @classmethod
    def of(cls, settings: Settings | None = None) -> Self:
        """Return the library the settings name."""
        return cls((settings or get_settings()).resolved_resources)
