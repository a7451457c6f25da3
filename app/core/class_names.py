"""Class names of two sides: whether they number the classes alike."""

from collections.abc import Iterator, Sequence


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
