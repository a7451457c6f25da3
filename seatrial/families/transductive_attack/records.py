"""What an example contributes to the numbers of ``transductive_attack``, from columns of its records."""

import numpy as np

from seatrial.contracts.family import value
from seatrial.families.shared.per_example import PerExample, Records, Values, combine, values_of
from seatrial.families.transductive_attack.params import game_of

STATIC_ATTACKS = {"transfer_autoattack": "robust_autoattack", "transfer_pgd": "robust_pgd"}
"""Column of ``static`` by attack; the first that was asked for counts as the static model's robustness."""


def static_robust(records: Records) -> Values | None:
    """Return who of the static model holds against AutoAttack, or PGD where that was not asked for."""
    for attack, column in STATIC_ATTACKS.items():
        if attack in records.params["attacks"]:
            return records.values(value("static", column))
    return None


def _game(attack: str, column: str) -> PerExample:
    """Return an example's share of repeats, of those that did not fail and the examples that errored in none."""

    def read(records: Records) -> Values | None:
        found = []
        for repeat in range(records.params["repeats"]):
            stage = game_of(records.qualifiers["defence"], attack.format(**records.qualifiers), repeat)
            columns = records.columns(stage, (column, "failed"))
            if columns is None:
                return None
            if all(reason is None for reason in columns["failed"]):
                found.append(values_of(columns["example_id"], columns[column]))
        return combine(found, lambda columns: np.mean(columns, axis=0))

    return read


CLEAN = _game("clean", "correct")
ATTACKED = _game("{attack}", "correct")
REJECTED = _game("{attack}", "rejected")
