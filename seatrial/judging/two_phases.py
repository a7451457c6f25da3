"""Which of the two phases of an accuracy under attack to make larger, and by how much."""

import math
from collections.abc import Callable
from typing import NamedTuple

from seatrial.contracts.estimates import Estimate, metric_name, split_name
from seatrial.contracts.registry import family
from seatrial.families.shared.robust_accuracy import FIRST, SECOND, RobustAccuracyParams
from seatrial.judging.evidence import Evidence
from seatrial.judging.measured import MeasuredCheck
from seatrial.judging.sample_size import MOST_EXAMPLES, POWER
from seatrial.statistics.normal import normal_quantile
from seatrial.statistics.products import Phases, product_interval
from seatrial.statistics.proportions import corrected_interval

STRIDE = 1.25
"""By how much one number of examples that is tried exceeds the one before it."""

OF_IMAGES = ["robust_accuracy_first_standing", "robust_accuracy_first_n", "robust_accuracy_n"]
"""Counts of a robust accuracy; those of texts are by arm."""

Prices = tuple[float, float]


class Further(NamedTuple):
    """What would probably decide a rule.

    Attributes:
        examples: More of them, for the first phase.
        survivors: More of them, for the second.
    """

    examples: int
    survivors: int


def phases_of(metric: str, estimate: Estimate, check: MeasuredCheck) -> Phases | None:
    """Return what came of the two phases behind a share, None where it was measured in one.

    Args:
        metric: Full name, of which the arm tells whose counts they are.
        estimate: Of the check; what it says of the second phase is that of the attacks it is about.
        check: With the counts of both.
    """
    if check.result is None or estimate.method != "mover" or estimate.value is None:
        return None
    arm = split_name(metric)[1].get("arm")
    names = [metric_name(name, arm=arm) for name in ("standing", "first_n", "second_n")] if arm else OF_IMAGES
    standing, n, attacked = (check.result.counts.get(name) for name in names)
    if not standing or not n or not attacked:
        return None
    return Phases(standing, n, round(estimate.value * n / standing * attacked), attacked)


def prices_of(check: MeasuredCheck) -> Prices:
    """Return what one more example costs in either phase, in forward passes; one with its way back is three."""
    if check.params.get("robust_accuracy") is None:
        prices = family(check.kind).params.model_validate(check.params).phase_prices
        if prices is None:
            raise AssertionError(f"unreachable: {check.kind} has no phases of its own")
        return prices
    passes = RobustAccuracyParams.model_validate(check.params["robust_accuracy"]).phases(1)
    first, second = (passes[stage].forward + 3.0 * passes[stage].backward for stage in (FIRST, SECOND))
    return first, second


def further_of(
    evidence: Evidence, bound: float, prices: Prices, *, times: int = 1, most: int | None = None
) -> Further | None:
    """Return the cheapest numbers of further examples and survivors that would decide four times in five.

    Both shares are taken to stay as they are. For ever more examples in the first phase, the fewest survivors that
    decide with them are found from the interval itself, and of all such pairs the cheapest is told.

    Args:
        evidence: Undecided, with its phases.
        bound: What it is held against.
        prices: Of an example in either phase.
        times: Hypotheses it shares its error rate with.
        most: Further examples there are; where they do not do, or it is None, as many as it takes.

    Returns:
        None where the value is the bound, and where a billion examples do not decide.
    """
    found = evidence.phases
    if found is None or evidence.judged.value is None:
        raise ValueError("it was not measured in two phases")
    gap, is_above = abs(bound - evidence.judged.value), bound > evidence.judged.value
    p, q = found.standing / found.n, found.held / found.attacked
    stretch = normal_quantile(1 - evidence.level / (2 * times)) / normal_quantile(1 - evidence.level / 2)

    def is_decided(n: int, attacked: int) -> bool:
        if attacked >= p * n:
            # Of all that stand: one share, and no product.
            low, high = corrected_interval(p * q, n, alpha=evidence.level)
            by_chance = math.sqrt(p * q * (1 - p * q) / n)
        else:
            of_first = corrected_interval(p, n, alpha=evidence.level)
            of_second = corrected_interval(q, attacked, alpha=evidence.level)
            low, high = product_interval(p, of_first, q, of_second)
            by_chance = math.sqrt(q**2 * p * (1 - p) / n + p**2 * q * (1 - q) / attacked)
        side = high - p * q if is_above else p * q - low
        return gap >= side * stretch + normal_quantile(POWER) * by_chance

    within = None if most is None else _cheapest(is_decided, found, p, prices, found.n + most)
    return within or _cheapest(is_decided, found, p, prices, int(MOST_EXAMPLES))


def _cheapest(
    is_decided: Callable[[int, int], bool], found: Phases, p: float, prices: Prices, most: int
) -> Further | None:
    """Return the cheapest pair with at most so many examples in the first phase, None where none decides."""
    cheapest: tuple[float, Further] | None = None
    n = found.n
    while True:
        dear = (n - found.n) * prices[0]
        if cheapest is not None and dear >= cheapest[0]:
            break
        if is_decided(n, standing := max(found.attacked, round(p * n))):
            attacked = _fewest(lambda m, n=n: is_decided(n, m), found.attacked, standing)  # type: ignore[misc]
            price = dear + (attacked - found.attacked) * prices[1]
            if cheapest is None or price < cheapest[0]:
                cheapest = price, Further(n - found.n, attacked - found.attacked)
        if n >= most:
            break
        n = min(most, math.ceil(n * STRIDE))
    return None if cheapest is None else cheapest[1]


def _fewest(is_decided: Callable[[int], bool], few: int, many: int) -> int:
    """Return the fewest from ``few`` to ``many``, which do, by halving."""
    if is_decided(few):
        return few
    while many - few > 1:
        middle = (few + many) // 2
        few, many = (few, middle) if is_decided(middle) else (middle, many)
    return many
