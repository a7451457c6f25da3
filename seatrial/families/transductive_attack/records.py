"""What an example contributes to the numbers of ``transductive_attack``, from columns of its records.

Of a defence that may refuse, an example holds against an attack where its unperturbed copy is answered rightly and its
perturbed one rightly or not at all, by one and the same adapted model (Tramer, "Detecting Adversarial Examples Is
(Nearly) As Hard As Classifying Them", ICML 2022). Refusing everything holds nothing; refusing what was attacked, and
nothing else, holds all that is answered rightly unattacked.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from seatrial.contracts.family import value
from seatrial.families.shared.per_example import Columns, PerExample, Records, Values, combine, values_of
from seatrial.families.transductive_attack.params import game_of

STATIC_ATTACKS = {
    "transfer_autoattack": "robust_autoattack",
    "transfer_pgd": "robust_pgd",
    "transfer_confidence": "robust_confidence",
}
"""Column of ``static`` by attack; the first that was asked for counts as the static model's robustness."""

ROBUST = "robust"
"""Whether an example holds; equal to ``correct`` where the defence refuses nothing. Older records lack it."""

Flags = NDArray[np.bool_]


def holds(right: Flags, rejected: Flags, clean_right: Flags, clean_rejected: Flags) -> Flags:
    """Return which examples (n,) hold against an attack on a defence that may refuse.

    Args:
        right: (n,) the perturbed example would be answered rightly if it is answered.
        rejected: (n,) it is not answered.
        clean_right: (n,) the same of the unperturbed one.
        clean_rejected: (n,) likewise.

    >>> yes, no = np.array([True]), np.array([False])
    >>> bool(holds(no, yes, yes, no)[0]), bool(holds(yes, no, yes, yes)[0]), bool(holds(no, no, yes, no)[0])
    (True, False, False)
    """
    return (right | rejected) & clean_right & ~clean_rejected


def is_wrong_answer(correct: Flags, rejected: Flags) -> Flags:
    """Return which examples (n,) were answered, and wrongly: those of err_U'(F|S) (Chen et al., eq. 1)."""
    return ~correct & ~rejected


def static_robust(records: Records) -> Values | None:
    """Return who of the static model holds against AutoAttack, or the first of PGD's that was asked for."""
    for attack, column in STATIC_ATTACKS.items():
        if attack in records.params["attacks"]:
            return records.values(value("static", column))
    return None


def _games(records: Records, attack: str, *columns: str) -> list[Columns] | None:
    """Return columns of the repeats that did not fail; None where a game was not recorded, or not with these."""
    found = []
    for repeat in range(records.params["repeats"]):
        stage = game_of(records.qualifiers["defence"], attack.format(**records.qualifiers), repeat)
        read = records.columns(stage, (*columns, "failed"))
        if read is None:
            return None
        if all(reason is None for reason in read["failed"]):
            found.append(read)
    return found


def _mean(games: list[Columns], of: Callable[[Columns], NDArray[Any]]) -> Values | None:
    """Return an example's mean over repeats, of the examples that errored in none."""
    each = [values_of(columns["example_id"], of(columns)) for columns in games]
    return combine(each, lambda values: np.mean(values, axis=0))


def _game(attack: str, column: str, *, before: str | None = None) -> PerExample:
    """Return an example's share of repeats; ``before``: the column of records that lack the other."""

    def read(records: Records) -> Values | None:
        games = _games(records, attack, column)
        if games is not None:
            return _mean(games, lambda columns: columns[column])
        return None if before is None else _game(attack, before)(records)

    return read


def _selective_error(records: Records) -> Values | None:
    """Return how often an example was answered wrongly, over how often it was answered."""
    games = _games(records, "{attack}", "correct", "rejected")
    if games is None:
        return None
    wrong = _mean(games, lambda of: is_wrong_answer(of["correct"].astype(bool), of["rejected"].astype(bool)))
    kept = _mean(games, lambda of: ~of["rejected"].astype(bool))
    return None if wrong is None or kept is None else Values(wrong.example_ids, wrong.values, kept.values)


CLEAN = _game("clean", "correct")
ATTACKED = _game("{attack}", ROBUST, before="correct")
REJECTED = _game("{attack}", "rejected")
CLEAN_REJECTED = _game("{attack}", "clean_rejected")
SELECTIVE_ERROR: PerExample = _selective_error
