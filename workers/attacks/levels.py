"""8-bit pixels: whether images have no others, and radii within which there is no other image of such pixels."""

from torch import Tensor

from workers.models import GREY_LEVELS, VALID_PIXELS, Box

ON_GRID = 1e-3
"""How far from a level, in levels, a pixel may lie and be at it."""

ROUNDED = 0.95
"""Share of a level from which on a radius is one: whoever means 1/255 may write .0039."""


def is_on_grid(images: Tensor, box: Box = VALID_PIXELS) -> bool:
    """Tell whether all values of images (n, ...) are 8-bit pixels over 255; a table's have no such levels."""
    if box is not VALID_PIXELS:
        return False
    scaled = images * GREY_LEVELS
    return bool(((scaled - scaled.round()).abs() <= ON_GRID).all())


def is_below_a_level(epsilon: float) -> bool:
    """Return whether no 8-bit image but the one itself lies within a radius, in l_inf and in l2.

    >>> is_below_a_level(1e-6), is_below_a_level(0.0039), is_below_a_level(8 / 255)
    (True, False, False)
    """
    return epsilon * GREY_LEVELS < ROUNDED


def below_a_level(epsilon: float) -> str:
    """Return what is said of such a radius."""
    return (
        f"The radius of {epsilon:g} is less than a level of 8-bit images, 1/255, which all of these are: no other such "
        "image lies within it, and an attack that changes nothing shows nothing about the model."
    )
