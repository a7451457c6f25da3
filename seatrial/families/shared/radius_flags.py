"""Doubts about the radius of attacks: that next to nothing lies within it."""

from collections.abc import Sequence

from seatrial.contracts.family import FlagSpec

REMEDY = "Audit with the radius that the model has to withstand: 8/255 is usual for photographs."

SMALL = (
    "The radius is less than 2/255, or in l_2 than 36/255: published comparisons begin there, and most models "
    "withstand less without having been made to. Of a table it is less than a tenth of the deviation of a column."
)

BELOW = (
    "The radius is less than 1/255, a level of 8-bit images, or in l_2 a quarter of one in each number of an image: "
    "attacks that change next to nothing show nothing about the model."
)

NAMED = " A policy that names the check with its radius does not take it for a doubt."


def radius_flags(speaks_of: Sequence[str], spares: Sequence[str] = (), told: str = "") -> tuple[FlagSpec, FlagSpec]:
    """Return what a family says of a radius that is too small for its numbers to say something.

    Args:
        speaks_of: Metrics of attacks within the radius.
        spares: Metrics measured before any attack.
        told: When they are told, a sentence after a space, where not always.
    """
    return (
        FlagSpec(
            code="radius_below_a_level",
            severities=("error",),
            speaks_of=tuple(speaks_of),
            spares=tuple(spares),
            meaning=BELOW + told,
            remedy=REMEDY,
        ),
        FlagSpec(
            code="small_radius",
            severities=("warning",),
            speaks_of=tuple(speaks_of),
            spares=tuple(spares),
            meaning=SMALL + told,
            remedy=REMEDY + NAMED,
            of_scope=True,
        ),
    )
