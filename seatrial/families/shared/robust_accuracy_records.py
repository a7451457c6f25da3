"""What an example contributes to a robust accuracy, from columns of its records."""

from collections.abc import Collection, Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from seatrial.families.shared.per_example import NoMeanError, Records, Values, values_of
from seatrial.families.shared.robust_accuracy import ATTACKS, WITHOUT_GRADIENTS


def holds(
    correct: Iterable[Any], errored: Iterable[Any], broken_by: Iterable[Any], attacks: Collection[str]
) -> NDArray[np.bool_]:
    """Return (n,) who is right and was broken by none of some attacks; an example that errored did not hold.

    Args:
        correct: (n,) null where an example errored.
        errored: (n,).
        broken_by: (n,) the attack that did; null where none did.
        attacks: Their names.
    """
    rows = zip(correct, errored, broken_by, strict=True)
    return np.array([bool(right) and not failed and by not in attacks for right, failed, by in rows], dtype=bool)


def holding(records: Records) -> Values | None:
    """Return who is right and held AutoAttack, all of it or up to an attack.

    In two phases not every example is attacked by it, and the number is a product of two shares.

    Raises:
        NoMeanError: There were two phases.
    """
    if (records.params.get("robust_accuracy") or {}).get("survivors") is not None:
        raise NoMeanError
    columns = records.columns("robust_accuracy", ("correct", "errored", "broken_by"), where="example_id")
    asked = records.params.get("robust_accuracy") or {}
    # What an attack left is what it and those before it left.
    order, last = ATTACKS.get(asked.get("version", ""), ()), records.qualifiers.get("attack")
    # Those of an endpoint, which gives no gradients, come last: none of the others ran then.
    order = (*order, *(name for name in WITHOUT_GRADIENTS if name not in order))
    if columns is None or (last is not None and last not in order):
        return None
    breaking = set(order if last is None else order[: order.index(last) + 1])
    held = holds(columns["correct"], columns["errored"], columns["broken_by"], breaking)
    return values_of(columns["example_id"], held)
