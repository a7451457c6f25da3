"""Which words of a text are attacked, in both readings of section 3.1 (Eger and Benz 2020)."""

import random

from seatrial.contracts.noise import Reading
from seatrial.noise.draws import shuffled


def attempts(words: int, level: float, rng: random.Random, *, how: Reading) -> list[int]:
    """Return the places of the words to attack, in the order in which to: stop once ``words * level`` have changed.

    ``code``: all places in random order, so that exactly min(ceil(words * level), words that can change) change.
    ``paper``: those of them for which a coin of probability ``level`` fell, so fewer do: a share of 0.152 at level 0.2
    and of 0.752 at 0.8 among ten words.

    All draws are made before the first word is attacked: what an attacker draws does not move the selection.

    >>> attempts(5, 0.5, random.Random(0), how="code"), attempts(5, 0.5, random.Random(0), how="paper")
    ([2, 0, 1, 3, 4], [0, 3, 4])
    """
    order = shuffled(range(words), rng)
    return order if how == "code" else [place for place in order if rng.random() < level]
