"""How many of the examples audited those stages attack that do not attack all."""

GROWTH_EXAMPLES = 100
"""Examples attacked again at twice the radius, at most: enough to see a mean grow."""

SURROGATE_EXAMPLES = 500
"""Examples that the surrogate learns from and the calibrated temperature is fitted to, at most: the first ones."""

ENOUGH_EXAMPLES = 100
"""Examples from which on all is looked at that may be, whatever the steps."""

FULL_STEPS = 100
"""Steps of the paper's attacks from which on the same holds, whatever the examples. Fewer are too short to say what an
attacker reaches: of 97 fakes of a gauntlet eight pass a shipped policy with 20 steps, two with 40, and none with
these."""

LEAST_SHARE = 0.45
"""Of what is looked at beside the attacks, with as few steps and examples as there may be."""


def looked_share(samples: int, steps: int) -> float:
    """Return the share of what may be looked at beside the attacks, which all cost steps: less of few with few steps.

    Those looks cost about the same whatever the steps of the attacks. Beside 20 of them on 40 images they would be half
    of the check.

    >>> [looked_share(*of) for of in ((40, 100), (100, 20), (4, 20))]
    [1.0, 1.0, 0.45]
    """
    lacking = max(0.0, 1 - samples / ENOUGH_EXAMPLES) * max(0.0, 1 - steps / FULL_STEPS)
    return max(LEAST_SHARE, 1 - lacking)


def looked_examples(most: int, samples: int, steps: int) -> int:
    """Return how many of ``most`` examples are looked at.

    >>> [looked_examples(32, *of) for of in ((40, 100), (40, 40), (20, 40), (1, 20))]
    [32, 20, 10, 1]
    """
    return max(1, int(looked_share(samples, steps) * min(most, samples)))


TRANSFORMED_EXAMPLES = 32
"""Attacked after plain changes of the whole image, at most: enough to see a difference in pairs, and of no account in
a large audit."""


def transformed_examples(samples: int, steps: int) -> int:
    """Return how many are attacked after plain changes: of fewer a smaller share, or it would be much of their cost.

    >>> [transformed_examples(samples, 150) for samples in (1, 16, 40, 48)]
    [1, 3, 21, 27]
    """
    return looked_examples(min(TRANSFORMED_EXAMPLES, 3 * samples // 4 - 9), samples, steps)


INTEGRATED_EXAMPLES = 32
"""Whose pixels are moved to where gradients add up to least, at most: as with plain changes."""


def integrated_examples(samples: int, steps: int) -> int:
    """Return whose are: of few three in four.

    >>> [integrated_examples(samples, 150) for samples in (1, 16, 40, 48)]
    [1, 12, 30, 32]
    """
    return looked_examples(min(INTEGRATED_EXAMPLES, 3 * samples // 4), samples, steps)


DISPLACED_EXAMPLES = 24
"""Attacked beside as many copies that nobody can have remembered, at most: with 16 an interval is half as wide as the
differences looked for."""

CROSSING_EXAMPLES = 100
"""Followed to where their prediction changes, at most: of fewer the share is known well enough."""

PICTURED = 12
"""Of the widest spans, attacked once more to keep their images, at most."""


def pictured_examples(samples: int) -> int:
    """Return how many have their images kept: of few one in seven, as each is attacked once more.

    >>> [pictured_examples(samples) for samples in (1, 16, 40, 84)]
    [1, 2, 5, 12]
    """
    return max(1, min(PICTURED, samples // 7))
