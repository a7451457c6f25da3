"""What an example contributes to the numbers of ``low_level_attack``, from columns of its records."""

from dataclasses import replace

import numpy as np

from seatrial.contracts.family import Formula, value
from seatrial.contracts.models import MULTI_LABEL, SINGLE_LABEL_TEXTS, TAGGING
from seatrial.families.low_level_attack.params import LowLevelAttackParams
from seatrial.families.shared.per_example import NoMeanError, PerExample, Records, Values, combine

LEAST_ANSWERED = 0.5
"""Share of the examples an attacker must have been answered on to be compared with others."""

_CORRECT = value("clean", "correct")
_DECISIONS = value("clean", "decisions")


def met(column: str) -> Formula:
    """Return a column of the texts one attacker has perturbed at a level."""
    return value("attack_{attacker}", f"{column}[level={{level}}]")


def _task(records: Records) -> str | None:
    """Return what a model met by noise does; None where nothing is recorded."""
    clean = records.read("clean")
    return None if clean is None or not clean.num_rows else str(clean.column("task")[0].as_py())


def _of_tasks(*tasks: str, mean: PerExample) -> PerExample:
    """Return a mean that there is for models of some tasks only."""

    def read(records: Records) -> Values | None:
        if (task := _task(records)) is not None and task not in tasks:
            raise NoMeanError
        return mean(records)

    return read


def _of_decisions(mean: PerExample) -> PerExample:
    """Return the sum of what ``mean`` reads over that of the decisions, which of one class for each text is a mean."""

    def read(records: Records) -> Values | None:
        values, decisions = mean(records), records.values(_DECISIONS)
        if values is None or decisions is None or _task(records) in SINGLE_LABEL_TEXTS:
            return values
        counted = combine([values, decisions], lambda columns: columns[1])
        return counted and Values(counted.example_ids, values.on(counted.example_ids), counted.values)

    return read


def _read(formula: Formula) -> PerExample:
    return lambda records: records.values(formula)


def _of_right(mean: PerExample) -> PerExample:
    """Return a share of right decisions; of several labels the score is an area, and no mean over anything."""
    return _of_tasks(*SINGLE_LABEL_TEXTS, TAGGING, mean=_of_decisions(mean))


def _of_sureness(formula: Formula) -> PerExample:
    """Return a mean over decisions where examples have equally many; under noise a token may lose its tag."""
    return _of_tasks(*SINGLE_LABEL_TEXTS, MULTI_LABEL, mean=_read(formula))


def _dropped(records: Records) -> Values | None:
    """Return what is right without noise less what is right under it."""
    each = [records.values(_CORRECT), records.values(met("correct"))]
    return combine(each, lambda columns: columns[0] - columns[1])


def _persisted(records: Records) -> Values | None:
    return records.values(value("attack_{attacker}", "correct[level={level},draw=worst]"))


def _withstood(records: Records) -> Values | None:
    """Return what is right whichever attacker made the noise, in the worst of its draws.

    An attacker that fewer than half of the examples were answered under is not among them.
    """
    params = LowLevelAttackParams.model_validate(records.params)
    clean = records.values(_CORRECT)
    found = []
    for attacker in params.runs(_task(records) or SINGLE_LABEL_TEXTS[0]):
        asked = replace(records, qualifiers={**records.qualifiers, "attacker": attacker})
        values = asked.values(met("correct")) if params.draws == 1 else _persisted(asked)
        if clean is None or values is None:
            return None
        if len(values.example_ids) >= LEAST_ANSWERED * len(clean.example_ids):
            found.append(values)
    return combine(found, lambda columns: np.min(columns, axis=0))


SCORE_WITHOUT: PerExample = _of_right(_read(_CORRECT))
SCORE: PerExample = _of_right(_read(met("correct")))
SCORE_DROP: PerExample = _of_right(_dropped)
WORST_CASE: PerExample = _of_right(_withstood)
PERSISTENT: PerExample = _of_right(_persisted)
FLIPPED: PerExample = _of_decisions(_read(met("flipped")))
CONFIDENCE_WITHOUT: PerExample = _of_sureness(value("clean", "mean_confidence"))
CONFIDENCE: PerExample = _of_sureness(met("mean_confidence"))
