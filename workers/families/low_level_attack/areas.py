"""Macro AUROC of multi-label texts: of the sample, and with an interval that leaves room for texts not seen."""

import hashlib
from collections.abc import Callable, Sequence

import numpy as np

from seatrial.statistics.arrays import Floats, Mask
from seatrial.statistics.intervals import Interval, exponentials, resample, unseen_interval
from seatrial.statistics.macro_auroc import Function, MacroAuroc
from workers.families.low_level_attack.audit import Audit, Scored
from workers.families.low_level_attack.intervals import shared_tail


def auroc_of(audit: Audit, answers: Scored) -> MacroAuroc:
    """Return the macro AUROC of answers, as a function of weights of the clean sample."""
    logits, present = np.zeros(audit.truths.shape), np.zeros(len(audit), dtype=bool)
    present[answers.rows] = True
    if answers.logits is not None:
        logits[answers.rows] = answers.logits
    return MacroAuroc(audit.truths, logits, present)


class Areas:
    """Macro AUROC with random weights, a text that was not seen among them: the first way worst, the other way best.

    All are drawn with one seed, so that what compares two of them is paired.

    Args:
        audit: Of multi-label texts.
        seed: The same seed draws the same.
        check_cancelled: Called before whatever takes a second.
    """

    def __init__(self, audit: Audit, seed: list[int], check_cancelled: Callable[[], None] = lambda: None) -> None:
        self._audit, self._seed, self._check_cancelled = audit, seed, check_cancelled
        self._drawn: dict[tuple[bytes, bytes], tuple[Floats, Floats]] = {}

    def drawn(self, scored: Scored) -> tuple[Floats, Floats]:
        """Return macro AUROC (resamples,) with the text that lowers it most, and with the one that raises it most."""
        logits = np.empty(0) if scored.logits is None else scored.logits
        key = scored.rows.tobytes(), hashlib.sha256(np.ascontiguousarray(logits).tobytes()).digest()
        if key not in self._drawn:
            areas = auroc_of(self._audit, scored)
            size = len(self._audit) + 2 * len(areas.classes)
            self._drawn[key] = self._draw(areas.with_unseen(-1), size), self._draw(areas.with_unseen(1), size)
        return self._drawn[key]

    def _draw(self, areas: Function, size: int) -> Floats:
        def statistic(weights: Floats) -> Floats:
            # Of many labels on many texts one matrix of weights takes seconds.
            self._check_cancelled()
            return areas(weights)[:, None]

        return resample(statistic, [size], seed=self._seed, draw=exponentials)[:, 0]

    def score(self, value: float, scored: Scored) -> Interval | None:
        """Return the interval of a score."""
        return self._interval(value, *self.drawn(scored))

    def kept(self, value: float, after: Sequence[Scored], before: Scored) -> Interval | None:
        """Return the interval of the mean of scores under noise over the one without."""
        bad, good = (np.mean(sides, axis=0) for sides in zip(*(self.drawn(one) for one in after), strict=True))
        worst, best = self.drawn(before)
        found = self._interval(value, bad / best, good / np.where(worst > 0, worst, np.nan))
        return None if found is None else (max(0.0, found[0]), found[1])

    def drop(self, value: float, after: Scored, before: Scored) -> Interval | None:
        """Return the interval of the score without noise less the one under it."""
        (bad, good), (worst, best) = self.drawn(after), self.drawn(before)
        return self._interval(value, worst - good, best - bad)

    def surely_below(self, after: Sequence[Scored]) -> Mask:
        """Return (k, k) what :func:`surely_below` does."""
        drawn, tail = [self.drawn(one) for one in after], shared_tail(len(after))
        found = np.zeros((len(after), len(after)), dtype=bool)
        for first, (_, good) in enumerate(drawn):
            for second, (bad, _) in enumerate(drawn):
                found[first, second] = first != second and float(np.quantile(good - bad, 1 - tail)) < 0
        return found

    def _interval(self, value: float, low: Floats, high: Floats) -> Interval | None:
        defined = np.isfinite(low) & np.isfinite(high)
        if not np.isfinite(value) or 2 * int(defined.sum()) < len(defined):
            return None
        return unseen_interval(value, low[defined], high[defined])
