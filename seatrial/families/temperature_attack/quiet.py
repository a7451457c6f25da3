"""How much is asked in the stage that looks at edited texts after ordinary ones in a row."""

PLAIN, EDITED, LATER = 480, 60, 6
"""Further texts of the data, at most, that are asked as they are; those after them that are asked with words misspelt;
and how often each of the latter is misspelt anew, in the same words and in others, once texts like it were asked."""


def quiet_texts(samples: int) -> tuple[int, int]:
    """Return how many texts are asked as they are and how many edited, at most: of a small audit fewer.

    Args:
        samples: Examples audited, or as many of them as are probed.

    >>> quiet_texts(30), quiet_texts(64)
    ((240, 30), (480, 60))
    """
    edited = min(samples, EDITED)
    return PLAIN // EDITED * edited, edited


def quiet_questions(samples: int) -> int:
    """Return how many questions the stage asks, at most."""
    plain, edited = quiet_texts(samples)
    # Each edited text twice, a piece of it, two to be asked before it is again, and those that are compared.
    return plain + edited * (5 + 2 * LATER)
