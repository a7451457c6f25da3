"""The families by name. Imported when first asked for: a family may bring in heavy libraries."""

from importlib import import_module

from seatrial.families import METRICS
from workers.families.protocol import AnyFamily


def find_family(kind: str) -> AnyFamily:
    """Return a family by its slug.

    Raises:
        KeyError: There is no such family.
    """
    if kind not in METRICS:
        raise KeyError(kind)
    family: AnyFamily = import_module(f"workers.families.{kind}.family").FAMILY
    return family
