"""A judged number, its interval and its bound for a sentence: in per cent where it is a share, else with its unit.

Every number of one rule is written to the same decimals, with as many as it takes to tell the value from the bound.
"""

from dataclasses import dataclass

from seatrial.contracts.policies import RuleOutcome
from seatrial.reporting.numbers import format_bound, format_number

_MOST_DECIMALS = 6


@dataclass(frozen=True)
class Quantity:
    """A judged number in words.

    Attributes:
        value: The value.
        low: Lower end of its interval; empty where it has none.
        high: Upper end; empty where it has none.
        bound: What it is held against.
        is_negative: Whether the value, written without its sign, is below 0: of a loss, that nothing was lost.
    """

    value: str
    low: str
    high: str
    bound: str
    is_negative: bool = False


def quantity_of(outcome: RuleOutcome) -> Quantity | None:
    """Return what was judged; None where nothing was.

    >>> from seatrial.contracts.estimates import Estimate
    >>> mus = Estimate(value=0.97, low=0.9, high=1.05, n=500, method="bootstrap")
    >>> said = {"rule": 0, "label": "span", "metric": "a.mus", "severity": "block", "bound": 0.6, "outcome": "failed"}
    >>> said |= {"requirement": "at most 0.6", "counts_as": "failed", "reason": "Too large.", "estimate": mus}
    >>> quantity_of(RuleOutcome(**said, judged=mus, unit="nat", highest=2.302585))
    Quantity(value='42% of its range', low='39%', high='46%', bound='26%', is_negative=False)
    >>> quantity_of(RuleOutcome(**said, judged=mus, unit="nat")).value
    '0.9700 nat'
    """
    judged = outcome.judged
    if judged is None or judged.value is None:
        return None
    whole = 1.0 if outcome.unit == "1" else outcome.highest
    is_loss = outcome.baseline is not None
    value = abs(judged.value) if is_loss else judged.value
    if whole is None:
        unit = f" {outcome.unit}" if outcome.unit else ""
        low, high = ("" if end is None else format_number(end) for end in (judged.low, judged.high))
        bound = f"{format_bound(outcome.bound)}{unit}"
        return Quantity(f"{format_number(value)}{unit}", low, high, bound, is_loss and judged.value < 0)
    numbers = [100 * one / whole for one in (value, outcome.bound)]
    decimals = _decimals(numbers[0], numbers[1], at_least=0 if outcome.highest else 1)
    value_text, bound = (_written(one, decimals) for one in numbers)
    low, high = ("" if end is None else _written(100 * end / whole, decimals) for end in (judged.low, judged.high))
    sign = "%"
    if is_loss and not outcome.highest:
        sign = " points"
    return Quantity(
        f"{value_text}{sign}{' of its range' if outcome.highest else ''}",
        low and f"{low}{sign}",
        high and f"{high}{sign}",
        f"{_trimmed(bound)}{sign}",
        is_loss and judged.value < 0,
    )


def _decimals(value: float, bound: float, *, at_least: int) -> int:
    """Return how many decimals tell a value from its bound."""
    for decimals in range(at_least, _MOST_DECIMALS):
        if value == bound or _written(value, decimals) != _written(bound, decimals):
            return decimals
    return _MOST_DECIMALS


def _written(percentage: float, decimals: int) -> str:
    written = f"{percentage:.{decimals}f}"
    return written.removeprefix("-") if not float(written) else written


def _trimmed(written: str) -> str:
    return written.rstrip("0").rstrip(".") if "." in written else written
