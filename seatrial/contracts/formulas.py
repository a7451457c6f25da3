"""What one example contributes to a metric that is a mean over examples, from columns of its records."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Formula:
    """What an example contributes to a metric that is a mean over examples, from columns of its records.

    Attributes:
        stage: Whose records; ``{arm}`` is filled in from the metric's qualifiers, here and in the columns.
        columns: Their names.
        of: Columns (n,) to values (n,), NaN where an example has none; called with arrays in the order of ``columns``.
    """

    stage: str
    columns: tuple[str, ...]
    of: Callable[..., Any]

    def on(self, sample: Any, **qualifiers: str) -> Any:
        """Return the values (n,) of a sample's rows, in their order.

        Args:
            sample: Columns by name: ``sample["label"]`` is an array (n,).
            **qualifiers: Of the metric.
        """
        return self.of(*(sample[name.format(**qualifiers)] for name in self.columns))


def formula(stage: str, *columns: str, of: Callable[..., Any]) -> Formula:
    """Return the formula that makes ``of`` of some columns."""
    return Formula(stage, columns, of)


def value(stage: str, column: str) -> Formula:
    """Return the formula that is a column itself."""
    return Formula(stage, (column,), lambda values: values)


def equals(stage: str, column: str, to: str = "label") -> Formula:
    """Return the formula that is whether two columns are equal."""
    return Formula(stage, (column, to), lambda found, wanted: found == wanted)


def difference(stage: str, upper: str, lower: str, *, power: int = 1) -> Formula:
    """Return the formula that is one column less another, to a power."""
    return Formula(stage, (upper, lower), lambda above, below: (above - below) ** power)
