"""Random calibration problems and what an adversary could do to them by trying everything."""

import itertools

import numpy as np

from seatrial.statistics.calibration import bin_edges


def random_instance(rng, n, bins, *, width=1.0, snapped=0.3, exact=0.1):
    """Return (lower, upper, clean, correct), each (n,), lower <= clean <= upper.

    Args:
        rng: A numpy generator.
        n: Examples.
        bins: Bins whose edges ends are put on.
        width: Most an interval is wide before its ends are put on edges.
        snapped: Share of ends put on an edge of a bin, 0 and 1 among them. 0 keeps all ends off the inner edges.
        exact: Share of intervals of width zero.
    """
    lower = rng.uniform(0, 1, n)
    ends = np.stack([lower, np.minimum(lower + width * rng.uniform(0, 1, n), 1)])
    edges = bin_edges(bins)
    ends = np.where(rng.random((2, n)) < snapped, edges[rng.integers(0, bins + 1, (2, n))], ends)
    ends[1] = np.where(rng.random(n) < exact, ends[0], ends[1])
    lower, upper = ends.min(axis=0), ends.max(axis=0)
    clean = np.clip(lower + rng.random(n) * (upper - lower), lower, upper)
    return lower, upper, clean, rng.random(n) < rng.choice([0.0, 0.3, 0.7, 1.0], p=[0.1, 0.4, 0.4, 0.1])


def reachable(lower, upper, bins) -> list[tuple[int, float, float]]:
    """Return (bin, least, most) of each closed bin that a closed interval meets."""
    edges = bin_edges(bins)
    met = [(m, max(lower, edges[m]), min(upper, edges[m + 1])) for m in range(bins)]
    return [(m, least, most) for m, least, most in met if least <= most]


def best_by_assignments(lower, upper, correct, bins, *, free=0, least=0.0) -> float:
    """Return the largest ECE over every choice of bin, interval end and, for ``free`` examples, correctness."""
    outcomes = [(low, high, (hit,)) for low, high, hit in zip(lower, upper, correct, strict=True)]
    outcomes += [(least, 1.0, (0, 1))] * free
    sums = np.zeros((1, bins))
    for low, high, hits in outcomes:
        options = [
            np.eye(bins)[m] * (end - hit)
            for (m, *ends), hit in itertools.product(reachable(low, high, bins), hits)
            for end in ends
        ]
        sums = (sums[:, None, :] + np.array(options)[None]).reshape(-1, bins)
    return float(np.abs(sums).sum(axis=1).max() / len(outcomes))


def gains_by_signs(lower, upper, correct, bins, *, free=0, least=0.0):
    """Return what each example adds at best under each of the 2^bins sign vectors, (2^bins, n + free)."""
    signs = np.array(list(itertools.product([1, -1], repeat=bins)))
    columns = []
    for low, high, hits in [
        *((low, high, (hit,)) for low, high, hit in zip(lower, upper, correct, strict=True)),
        *[(least, 1.0, (0, 1))] * free,
    ]:
        met = reachable(low, high, bins)
        at = [m for m, *_ in met]
        rise = np.array([[end - hit for *_, end in met] for hit in hits]).max(axis=0)
        fall = np.array([[hit - end for _, end, _ in met] for hit in hits]).max(axis=0)
        columns.append(np.where(signs[:, at] > 0, rise, fall).max(axis=1))
    return np.stack(columns, axis=1)
