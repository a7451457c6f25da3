"""How much is asked about edited texts behind ordinary ones: before all else, behind the attacks, and last."""

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


FIRST_PLAIN, IN_A_ROW = 960, 480
"""Ordinary texts that are asked before all else, at most, and those of them before the first edited one; the others
stand between these, eight and one in turn."""

FEWEST_EDITED = 20
"""Edited texts from which on they are compared."""


def first_texts(samples: int) -> tuple[int, int]:
    """Return how many texts are asked before all else as they are and how many edited, at most: of a small audit fewer.

    Args:
        samples: Examples audited.

    >>> first_texts(10), first_texts(30), first_texts(100)
    ((0, 0), (480, 30), (960, 60))
    """
    _, edited = quiet_texts(samples)
    return (FIRST_PLAIN // EDITED * edited, edited) if edited >= FEWEST_EDITED else (0, 0)


def in_a_row(plain: int, natural: int | None = None) -> int:
    """Return how many of so many ordinary texts come before the first edited one: half, but not too few for that.

    Args:
        plain: Ordinary texts.
        natural: Those of them that are put together from no others; None: all. The first edited one does not wait for
            the others, once there were enough.

    >>> in_a_row(960), in_a_row(400), in_a_row(200)
    (480, 300, 200)
    >>> in_a_row(960, 340), in_a_row(960, 40)
    (340, 300)
    """
    least = 5 * IN_A_ROW // 8
    row = min(plain, max(least, plain // 2), IN_A_ROW)
    return row if natural is None else min(row, max(least, natural))


SENT_AMID = 240
"""Texts that are edited once behind the attacks, at most: a quarter of them by themselves, a quarter behind the text as
it is, and half of them behind its thirds."""


def amid_texts(samples: int) -> tuple[int, int]:
    """Return how many are, and how many of the beginning are asked about again, at most: of a small audit fewer.

    >>> amid_texts(10), amid_texts(30), amid_texts(64)
    ((0, 0), (120, 30), (240, 60))
    """
    _, edited = first_texts(samples)
    return SENT_AMID * edited // EDITED, edited


def amid_questions(samples: int) -> int:
    """Return how many questions the stage behind the attacks asks, at most."""
    sent, edited = amid_texts(samples)
    # Each once edited and once as it is, thirds of half of them; and what is asked again.
    return 2 * sent + 3 * sent // 2 + edited * _AGAIN


_AGAIN = 5 + 2 * LATER
"""Questions about a text that was edited: it again, a piece of it, two to be asked before it is, those that are
compared, and it as it is."""


def quiet_questions(samples: int) -> int:
    """Return how many questions the last stage asks, at most."""
    plain, edited = quiet_texts(samples)
    return plain + edited * (1 + _AGAIN)
