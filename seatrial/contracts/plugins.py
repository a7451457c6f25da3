"""What a check may name that packages bring by entry point."""

from typing import NamedTuple


class Plugin(NamedTuple):
    """Something that a package brings by entry point.

    Attributes:
        group: Of the entry points.
        name: In that group.
        shipped: Names that come with the service.
    """

    group: str
    name: str
    shipped: tuple[str, ...]
