"""How many of the examples audited those stages attack that do not attack all."""

GROWTH_EXAMPLES = 100
"""Examples attacked again at twice the radius, at most: enough to see a mean grow."""

SURROGATE_EXAMPLES = 500
"""Examples that the surrogate learns from and the calibrated temperature is fitted to, at most: the first ones."""

TRANSFORMED_EXAMPLES = 32
"""Attacked after plain changes of the whole image, at most: enough to see a difference in pairs, and of no account in
a large audit."""


def transformed_examples(samples: int) -> int:
    """Return how many are attacked after plain changes: of fewer a smaller share, or it would be much of their cost.

    >>> [transformed_examples(samples) for samples in (1, 16, 40, 48)]
    [1, 6, 24, 30]
    """
    return max(1, min(TRANSFORMED_EXAMPLES, 3 * samples // 4 - 6))


INTEGRATED_EXAMPLES = 32
"""Whose pixels are moved to where gradients add up to least, at most: as with plain changes."""

DISPLACED_EXAMPLES = 24
"""Attacked beside as many copies that nobody can have remembered, at most: with 16 an interval is half as wide as the
differences looked for."""

PICTURED = 12
"""Of the widest spans, attacked once more to keep their images, at most."""


def pictured_examples(samples: int) -> int:
    """Return how many have their images kept: of few one in five, as each is attacked once more.

    >>> [pictured_examples(samples) for samples in (1, 16, 40, 60)]
    [1, 3, 8, 12]
    """
    return max(1, min(PICTURED, samples // 5))
