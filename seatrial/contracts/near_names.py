"""Names that nothing has: refused with the one that was probably meant, and with those there are."""

from collections.abc import Iterable
from difflib import get_close_matches

_MOST_COMPARED = 100
"""Characters of a name that is not known, and names it is compared with by each: the work is their product."""
_MOST_NAMES = 2_000
_LEAST_BEGUN = 3


def instead(said: object, known: Iterable[object], there_are: str = "there are") -> str:
    """Return how a sentence about an unknown name ends: which one is near to it, and which there are.

    Args:
        said: What was given.
        known: What could have been.
        there_are: What stands before the names.

    >>> f"there is no family 'noisse'{instead('noisse', ['noise', 'span'])}"
    "there is no family 'noisse': did you mean 'noise'? There are noise, span"
    >>> f"there is no family 'x'{instead('x', ['noise', 'span'])}"
    "there is no family 'x'; there are noise, span"
    """
    names = [str(one) for one in known]
    told = f"{there_are} {', '.join(names)}" if names else "there are none"
    meant = nearest(said, names)
    return f"; {told}" if meant is None else f": did you mean {meant!r}? {told[0].upper()}{told[1:]}"


def nearest(said: object, known: Iterable[str]) -> str | None:
    """Return the name that was probably meant, whatever its case and whether - or _ parts it; None if none is near.

    >>> nearest("Mus-Wrost", ["clean_accuracy", "mus_worst"]), nearest("x", ["mus"]), nearest(3, ["3"])
    ('mus_worst', None, None)
    >>> nearest("eps", ["steps", "epsilon"])
    'epsilon'
    """
    if not isinstance(said, str) or len(said) > _MOST_COMPARED:
        return None
    names = {_plain(name): name for name in list(known)[:_MOST_NAMES]}
    # Of a name cut short the letters that follow say nothing: eps is no typo of steps.
    begun = [name for name in names if len(said) >= _LEAST_BEGUN and name.startswith(_plain(said))]
    found = begun or get_close_matches(_plain(said), names, n=1)
    return names[found[0]] if found else None


def not_a_choice(said: object, choices: Iterable[object]) -> str:
    """Return what a value is refused with that is none of a few.

    >>> not_a_choice("linff", ["linf", "l2"])
    "'linff' is not a choice here: did you mean 'linf'? Choices are linf, l2"
    """
    named = repr(said[:_MOST_COMPARED]) if isinstance(said, str) else "this"
    return f"{named} is not a choice here{instead(said, choices, 'choices are')}"


def _plain(name: str) -> str:
    return name.lower().replace("-", "_")
