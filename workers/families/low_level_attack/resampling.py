"""Every quantity of an audit on its sample and on resamples of it, the same for all attackers and levels.

An array named after a quantity has the sample's value in row 0 and those of resamples after it: see
:mod:`seatrial.statistics.clusters`. Since all were drawn with one seed from the same examples, what compares two of
them (a ratio, a place, a correlation) is computed row by row and is paired.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from seatrial.contracts.models import MULTI_LABEL
from seatrial.statistics.arrays import Floats, Ints, Mask
from seatrial.statistics.clusters import BinnedErrors, drawn_sums, drawn_values, ratio
from seatrial.statistics.estimating import seed_of
from seatrial.statistics.intervals import Interval
from workers.families.low_level_attack.areas import Areas, auroc_of
from workers.families.low_level_attack.audit import Audit, Noise, Scored
from workers.families.low_level_attack.intervals import surely_below


@dataclass(frozen=True)
class Cell:
    """One attacker at one level, or the texts as they are; arrays are (1 + resamples,).

    Attributes:
        score: Accuracy, token accuracy or macro AUROC.
        accuracy: Share of the decisions that are right.
        flip_rate: Share of the decisions that changed.
        characters_changed: Mean over examples.
        tokens_changed: Mean over examples.
        confidence: Mean over decisions that were made.
        ece: Expected calibration error of those.
        ece_interval: Its interval.
    """

    score: Floats
    accuracy: Floats
    flip_rate: Floats
    characters_changed: Floats
    tokens_changed: Floats
    confidence: Floats
    ece: Floats
    ece_interval: Interval | None


_UNKNOWN: Floats = np.full(1, np.nan)
_NOTHING = Cell(_UNKNOWN, _UNKNOWN, _UNKNOWN, _UNKNOWN, _UNKNOWN, _UNKNOWN, _UNKNOWN, None)


@dataclass(frozen=True)
class Attacked:
    """One attacker at all levels.

    Attributes:
        cells: By level.
        before: (1 + resamples,) the score without noise, of the examples this attacker was answered on.
        confidence_before: Mean confidence of those, without noise.
        accuracy_before: Share of their decisions that are right, without noise.
        persistent: By level, the score when each example is met by the worst of its draws; empty for one draw.
    """

    cells: dict[float, Cell]
    before: Floats
    confidence_before: Floats
    accuracy_before: Floats
    persistent: dict[float, Floats]


class Resampled:
    """The quantities of an audit; each attacker's are computed when they are first asked for.

    Args:
        audit: What was recorded.
        seed: The same seed gives the same resamples.
        check_cancelled: Called before whatever takes a second.
    """

    def __init__(self, audit: Audit, seed: int, check_cancelled: Callable[[], None] = lambda: None) -> None:
        self.audit = audit
        self._seed, self._check_cancelled = seed, check_cancelled
        self._shared = seed_of(seed, "examples")
        self._attacked: dict[str, Attacked] = {}

    @cached_property
    def clean(self) -> Cell:
        """The texts as they are: nothing has changed."""
        nothing = np.zeros(len(self.audit))
        noise = Noise(self.audit.clean, nothing, nothing, nothing)
        return self._cells([noise], "clean")[0]

    def attacked(self, attacker: str) -> Attacked:
        """Return what one attacker did, on the examples it was answered on."""
        if attacker not in self._attacked:
            self._check_cancelled()
            audit = self.audit
            noises = [audit.noise(attacker, level) for level in audit.levels]
            rows = noises[0].answers.rows
            cells = self._cells(noises, attacker)
            if len(rows) == len(audit):
                before = self.clean
            else:
                nothing = np.zeros(len(rows))
                (before,) = self._cells([Noise(audit.clean.of(rows), nothing, nothing, nothing)], "before")
            worst: dict[float, Floats] = {}
            if audit.params.draws > 1:
                scores = self.scores([audit.worst(attacker, level).answers.scored for level in audit.levels])
                worst = dict(zip(audit.levels, scores.T, strict=True))
            self._attacked[attacker] = Attacked(
                dict(zip(audit.levels, cells, strict=True)), before.score, before.confidence, before.accuracy, worst
            )
        return self._attacked[attacker]

    @cached_property
    def areas(self) -> Areas:
        """Intervals of macro AUROC, of multi-label texts."""
        return Areas(self.audit, seed_of(self._seed, "areas"), self._check_cancelled)

    @cached_property
    def surely_below(self) -> Mask:
        """(compared attackers, compared attackers) whether the first surely leaves less at the highest level."""
        audit = self.audit
        after = [audit.noise(name, audit.highest).answers.scored.of(audit.common) for name in audit.compared]
        if audit.task == MULTI_LABEL:
            return self.areas.surely_below(after)
        return surely_below([one.correct for one in after], audit.decisions[audit.common])

    def seed_of(self, purpose: str) -> list[int]:
        """Return a seed for one purpose."""
        return seed_of(self._seed, purpose)

    @cached_property
    def relative(self) -> Floats:
        """(1 + resamples, compared attackers, levels) relative scores, on the examples common to all compared."""
        audit = self.audit
        if len(audit.common) == 0:
            return np.full((1, len(audit.compared), len(audit.levels)), np.nan)
        found = []
        (before,) = self.scores([audit.clean.scored.of(audit.common)]).T
        for attacker in audit.compared:
            self._check_cancelled()
            attacked = self.attacked(attacker)
            if len(audit.noise(attacker, audit.highest).answers) == len(audit.common):
                scores = np.stack([attacked.cells[level].score for level in audit.levels], axis=1)
            else:
                noises = [audit.noise(attacker, level) for level in audit.levels]
                scores = self.scores([noise.answers.scored.of(audit.common) for noise in noises])
            found.append(ratio(scores, np.broadcast_to(before[:, None], scores.shape)))
        return np.stack(found, axis=1)

    def scores(self, answers: Sequence[Scored]) -> Floats:
        """Return the score of several sets of answers (1 + resamples, sets); NaN where there is nothing to score."""
        audit = self.audit
        self._check_cancelled()
        if len(audit) == 0:
            return np.full((1, len(answers)), np.nan)
        if audit.task == MULTI_LABEL:
            return drawn_values([self._auroc_of(one) for one in answers], len(audit), seed=self._shared)
        columns = [self._full(one.rows, one.correct) for one in answers]
        columns += [self._full(one.rows, audit.decisions[one.rows]) for one in answers]
        sums = drawn_sums(np.stack(columns, axis=1), seed=self._shared)
        return ratio(sums[:, : len(answers)], sums[:, len(answers) :])

    def _auroc_of(self, answers: Scored) -> Callable[[Floats], Floats]:
        areas = auroc_of(self.audit, answers)

        def ticking(weights: Floats) -> Floats:
            # Of many labels on many texts one matrix of weights takes seconds.
            self._check_cancelled()
            return areas(weights)

        return ticking

    def _cells(self, noises: Sequence[Noise], purpose: str) -> list[Cell]:
        """Return the cells of noises on the same examples."""
        self._check_cancelled()
        audit, rows = self.audit, noises[0].answers.rows
        if len(rows) == 0:
            return [_NOTHING for _ in noises]
        columns = [self._full(rows, np.ones(len(rows))), self._full(rows, audit.decisions[rows])]
        binned = []
        for noise in noises:
            answers = noise.answers
            made = np.isfinite(answers.confidences)
            sure, owner = answers.confidences[made], answers.owner[made]
            errors = BinnedErrors.of(sure, answers.right[made], owner, len(audit), audit.params.bins)
            binned.append(errors)
            of_rows = (answers.correct, noise.flipped, noise.characters_changed, noise.tokens_changed)
            columns += [self._full(rows, values) for values in of_rows]
            columns += [np.bincount(owner, sure, len(audit)).astype(np.float64), *errors.columns.T]
        sums = drawn_sums(np.stack(columns, axis=1), seed=self._shared)
        present, decisions = sums[:, 0], sums[:, 1]
        is_area = audit.task == MULTI_LABEL
        areas = self.scores([noise.answers.scored for noise in noises]) if is_area else None
        cells, width = [], 6 + audit.params.bins
        for place, errors in enumerate(binned):
            own = sums[:, 2 + place * width : 2 + (place + 1) * width]
            accuracy = ratio(own[:, 0], decisions)
            cells.append(
                Cell(
                    score=accuracy if areas is None else areas[:, place],
                    accuracy=accuracy,
                    flip_rate=ratio(own[:, 1], decisions),
                    characters_changed=ratio(own[:, 2], present),
                    tokens_changed=ratio(own[:, 3], present),
                    confidence=ratio(own[:, 4], own[:, -1]),
                    ece=BinnedErrors.error(own[:, 5:]),
                    ece_interval=errors.interval(seed=seed_of(self._seed, f"ece {purpose} {place}")),
                )
            )
        return cells

    def _full(self, rows: Ints, values: Floats) -> Floats:
        """Return a column over the whole clean sample, 0 where there is no value."""
        column = np.zeros(len(self.audit))
        column[rows] = values
        return column
