"""The measuring halves of the families. Imported when first asked for: a family may bring in heavy libraries."""

import logging

from seatrial.contracts.family import load
from seatrial.contracts.registry import families, family
from workers.families.protocol import AnyFamily

log = logging.getLogger(__name__)


def find_family(kind: str) -> AnyFamily:
    """Return a family by its slug.

    Raises:
        KeyError: There is no such family.
    """
    loaded: AnyFamily = load(family(kind).worker)
    return loaded


def import_families() -> None:
    """Import all of them; one of another distribution that cannot be is told, and fails when it is asked for."""
    for kind in families():
        try:
            find_family(kind)
        except Exception:
            log.exception("the family %s cannot be imported here", kind)
