"""Which examples an audit looks at."""

import numpy as np
from numpy.typing import NDArray


def stratified_sample(labels: NDArray[np.int64], samples: int, seed: int) -> NDArray[np.int64]:
    """Return positions of a seeded sample in which every class has its share, and so has every prefix of it.

    The order of the file does not matter to the class mix: the first ``k`` positions hold each class in proportion to
    the whole, to within rounding, so a stage that stops early is not biased by a file sorted by label.

    Args:
        labels: Labels (n,) of the dataset.
        samples: Examples wanted; all of them when the dataset has fewer.
        seed: Fixes the draw, at least 0.

    Returns:
        Distinct positions (min(n, samples),) int64.

    Raises:
        ValueError: No labels, or a negative number of samples.

    >>> labels = np.repeat([0, 1], [90, 10])
    >>> sample = stratified_sample(labels, 10, seed=0)
    >>> labels[sample].tolist().count(1)
    1
    """
    if labels.ndim != 1 or not len(labels) or samples < 0:
        raise ValueError(f"not something to sample from: labels of shape {labels.shape}, {samples=}")
    draw = np.random.default_rng(seed)
    _, members = np.unique(labels, return_inverse=True)
    counts = np.bincount(members)
    sizes = _largest_remainder(counts, min(samples, len(labels)), draw)
    by_class = np.split(np.argsort(members, kind="stable"), np.cumsum(counts)[:-1])
    positions, ranks = [], []
    for candidates, size in zip(by_class, sizes, strict=True):
        positions.append(draw.permutation(candidates)[:size])
        # Spreading each class evenly over (0, 1) and sorting interleaves the classes in proportion.
        ranks.append((np.arange(size) + 0.5) / max(size, 1))
    ties = draw.random(int(sizes.sum()))
    order = np.lexsort((ties, np.concatenate(ranks)))
    return np.concatenate(positions)[order].astype(np.int64)


def strata(labels: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the stratum (n,) of each example: its class, or where each has several labels (n, classes), one for all.

    A sample of a single stratum is a plain random one, and so is its every prefix.

    >>> strata(np.array([[0, 1, 1], [1, 0, 0]])).tolist()
    [0, 0]
    """
    return labels if labels.ndim == 1 else np.zeros(len(labels), dtype=np.int64)


def _largest_remainder(counts: NDArray[np.int64], samples: int, draw: np.random.Generator) -> NDArray[np.int64]:
    """Share out ``samples`` in proportion to ``counts``; leftovers go to the largest remainders, ties by lot."""
    # Integers: a quota like 0.3 * 10 must not lose its seat to rounding.
    quotas, remainders = np.divmod(counts.astype(np.int64) * samples, counts.sum())
    left = samples - int(quotas.sum())
    order = np.lexsort((draw.random(len(counts)), -remainders))
    quotas[order[:left]] += 1
    return quotas.astype(np.int64)
