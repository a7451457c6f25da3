"""Class names of two sides: whether they number the classes alike."""

import re
from collections.abc import Iterator, Sequence

_NUMBERED = re.compile(r"(?:(?:label|class)[ _-]?)?\d+")


def moved(names: Sequence[str], others: Sequence[str]) -> Iterator[tuple[int, str, int]]:
    """Yield the number of each name that ``others`` has at another place, the name, and that place.

    Case and surrounding spaces do not matter. Names that ``others`` does not have are taken for other spellings.

    >>> list(moved(["cat", "dog", "fish"], ["Cat", "bird", "dog"]))
    [(1, 'dog', 2)]
    """
    numbers = {name.strip().casefold(): number for number, name in enumerate(others)}
    for number, name in enumerate(names):
        other = numbers.get(name.strip().casefold(), number)
        if other != number:
            yield number, name, other


def are_strangers(names: Sequence[str], others: Sequence[str]) -> bool:
    """Tell whether two sides that both name their classes have no name in common.

    Case and surrounding spaces do not matter.

    >>> are_strangers(["cat", "dog"], ["fish"]), are_strangers(["cat", "dog"], ["Dog "]), are_strangers([], ["fish"])
    (True, False, False)
    """
    return bool(names and others) and _folded(names).isdisjoint(_folded(others))


def are_generic(names: Sequence[str]) -> bool:
    """Tell whether names say nothing but the numbers of the classes.

    >>> are_generic(["LABEL_0", "LABEL_1"]), are_generic(["0", "1"]), are_generic(["class 1", "other"])
    (True, True, False)
    """
    return all(_NUMBERED.fullmatch(name) for name in _folded(names))


def _folded(names: Sequence[str]) -> set[str]:
    return {name.strip().casefold() for name in names}
