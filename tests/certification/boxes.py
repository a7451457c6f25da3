"""Random boxes around probability vectors, and what is in them by trying everything."""

import itertools

import numpy as np


def random_box(rng, k, *, alike=False):
    """Return lower and upper (k,), with a probability vector between them; ties, zero widths and ends at 0 and 1."""
    centre = rng.dirichlet(np.full(k, rng.choice([0.2, 1.0, 5.0])))
    if rng.random() < 0.2:
        centre = np.eye(k)[rng.integers(k)]
    width = rng.choice([0.0, 0.05, 0.3, 1.0]) * rng.random((2, k))
    width *= rng.random((2, k)) < rng.choice([0.5, 1.0])
    lower, upper = np.clip(centre - width[0], 0, 1), np.clip(centre + width[1], 0, 1)
    if rng.random() < 0.3:
        lower, upper = np.floor(lower * 10) / 10, np.ceil(upper * 10) / 10
    if alike:
        lower, upper = -np.sort(-lower), -np.sort(-upper)
    return lower, upper


def vertices(lower, upper):
    """Return every vertex (m, k) of the box cut with the simplex: all coordinates but one at an end."""
    k, found = len(lower), []
    for free in range(k):
        others = [one for one in range(k) if one != free]
        ends = np.array(list(itertools.product((0, 1), repeat=k - 1))).reshape(-1, k - 1)
        points = np.empty((len(ends), k))
        points[:, others] = np.where(ends, upper[others], lower[others])
        points[:, free] = 1 - points[:, others].sum(1)
        inside = (points[:, free] >= lower[free] - 1e-10) & (points[:, free] <= upper[free] + 1e-10)
        found.append(points[inside])
    return np.concatenate(found).clip(0, 1)
