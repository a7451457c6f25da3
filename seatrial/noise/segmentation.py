"""The attacker that joins words: segment, on white space."""

import random
import re
from typing import NamedTuple

_WHITE_SPACE = re.compile(r"(\s+)")


class Segmented(NamedTuple):
    """A text whose words were joined.

    Attributes:
        text: As it reads now.
        words: Words of the text before, between white space.
        merged: Those of them that stand joined to the one before.
    """

    text: str
    words: int
    merged: int


def segment(text: str, level: float, rng: random.Random, *, phi: float, fades: bool) -> Segmented:
    """Return a text with white space between words deleted; that before the first and behind the last word stays.

    A run of white space, whatever it holds, is deleted as one. ``level`` is the probability of the first merge of a
    chunk. That of its k-th, k from 2, is ``phi`` in the released code and ``phi**k`` as the paper's text reads:

    - not ``fades``, ``phi`` = ``level``: n words become n - (n - 1) level in the mean, and the merges of a chunk are
      geometric;
    - ``fades``, ``phi`` = ``level``: a chunk has k merges or more with probability ``phi**(k * (k + 1) / 2)``.

    >>> segment("as plain as the nose on a face", 0.5, random.Random(3), phi=0.5, fades=False)
    Segmented(text='asplain asthe nose onaface', words=8, merged=4)
    """
    parts = _WHITE_SPACE.split(text)
    # Words stand at even places; an empty one at an end has white space beside it that is between no words.
    first = 0 if parts[0] else 2
    last = len(parts) - (1 if parts[-1] else 3)
    merges = merged = 0
    for at in range(first + 1, last, 2):
        chance = level if merges == 0 else phi ** (merges + 1) if fades else phi
        if rng.random() < chance:
            parts[at] = ""
            merges += 1
            merged += 1
        else:
            merges = 0
    return Segmented("".join(parts), max(0, (last - first) // 2 + 1), merged)
