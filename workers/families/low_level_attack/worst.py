"""Each example met by whichever attacker, in whichever of its draws, does it most harm."""

from dataclasses import dataclass

import numpy as np

from seatrial.statistics.arrays import Ints
from workers.families.low_level_attack.audit import Audit, Scored


@dataclass(frozen=True)
class Worst:
    """One level, each of the examples common to all compared attackers under its worst one.

    Attributes:
        attacker: (n,) which of ``audit.compared`` that is.
        scored: What it leaves of the score.
    """

    attacker: Ints
    scored: Scored


def worst_of(audit: Audit, level: float) -> Worst:
    """Return the worst case of each example at a level.

    The worst attacker leaves the fewest decisions right; of several that leave as few, it is the one with the highest
    loss; of equals the first. An example is met by one attacker, with all its labels or tokens: for macro AUROC, which
    compares examples with each other, that need not be the least there could be.
    """
    if not len(audit.common):
        return Worst(np.empty(0, dtype=np.int64), audit.clean.scored.of(audit.common))
    answers = [audit.worst(name, level).answers.of(audit.common) for name in audit.compared]
    correct, loss = np.stack([one.correct for one in answers]), np.stack([one.loss for one in answers])
    # The last key weighs most; the sort is stable, so that of equals the first attacker stays.
    attacker = np.lexsort((-loss, correct), axis=0)[0].astype(np.int64)
    rows = np.arange(len(audit.common))
    first = answers[0].logits
    logits = None if first is None else np.stack([one.scored.logits for one in answers])[attacker, rows]  # type: ignore
    return Worst(attacker, Scored(audit.common, correct[attacker, rows], logits))
