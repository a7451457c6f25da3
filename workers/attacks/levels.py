"""8-bit pixels: whether images have no others, and radii that are less than a level of them."""

import math

from torch import Tensor

from seatrial.contracts.estimates import Flag
from workers.attacks.regions import Norm
from workers.models import GREY_LEVELS, VALID_PIXELS, Box

ON_GRID = 1e-3
"""How far from a level, in levels, a pixel may lie and be at it."""

ON_AVERAGE = 0.25
"""Share of a level from which on a radius in l_2, divided by the root of how many numbers an image has, is one: .25 of
32 x 32 pixels in colour is 1.15, .5 of 224 x 224 .33."""

TOLERATED = 0.95
"""Share of a round number that stands for it: whoever means 1/255 may write .0039."""

USUAL = {"linf": 2 / GREY_LEVELS, "l2": 36 / GREY_LEVELS}
"""Radii from which on results are published, of photographs and of digits."""


def is_on_grid(images: Tensor, box: Box = VALID_PIXELS) -> bool:
    """Tell whether all values of images (n, ...) are 8-bit pixels over 255; a table's have no such levels."""
    if box is not VALID_PIXELS:
        return False
    scaled = images * GREY_LEVELS
    return bool(((scaled - scaled.round()).abs() <= ON_GRID).all())


VALUES = "values"
"""Column of records that keep it. Records from before it was kept have none."""


def values_of(images: Tensor, box: Box) -> int:
    """Return how many numbers an image has; 0 of a table's rows, whose columns have no levels."""
    return images[0].numel() if box is VALID_PIXELS and len(images) else 0


def told_radius(norm: Norm, epsilon: float, values: int | None) -> list[Flag]:
    """Flag a radius within which next to nothing lies, or that hardly any published comparison has.

    Args:
        norm: Of the ball.
        epsilon: Radius, in pixels' units.
        values: Numbers of an image; 0 and None where there are no levels, or nobody knows.
    """
    if message := below_a_level(norm, epsilon, values):
        return [Flag(code="radius_below_a_level", severity="error", message=message)]
    message = small_radius(norm, epsilon, values)
    return [] if message is None else [Flag(code="small_radius", severity="warning", message=message)]


def small_radius(norm: Norm, epsilon: float, values: int | None) -> str | None:
    """Return what is said of a radius that hardly any published comparison has; None of others.

    Arguments are those of :func:`told_radius`.
    """
    if not values or epsilon >= TOLERATED * USUAL[norm]:
        return None
    usual = "2/255 in l_inf" if norm == "linf" else "36/255 in l_2"
    return (
        f"The radius of {epsilon:g} is less than {usual}, where published comparisons begin: most models withstand so "
        "little without having been made to, and the bounds of shipped policies are of larger ones."
    )


def below_a_level(norm: Norm, epsilon: float, values: int | None) -> str | None:
    """Return what is said of a radius within which next to no 8-bit image but the one itself lies; None of others.

    Args:
        norm: Of the ball.
        epsilon: Radius, in pixels' units.
        values: Numbers of an image; 0 and None where there are no levels, or nobody knows.
    """
    if not values:
        return None
    level = epsilon * GREY_LEVELS if norm == "linf" else epsilon * GREY_LEVELS / math.sqrt(values)
    if level >= (TOLERATED if norm == "linf" else ON_AVERAGE):
        return None
    how = "" if norm == "linf" else f" in each of an image's {values:,} numbers"
    return (
        f"The radius of {epsilon:g} is {level:.2g} levels of 8-bit images, each 1/255{how}: attacks that change next "
        "to nothing show nothing about the model."
    )
