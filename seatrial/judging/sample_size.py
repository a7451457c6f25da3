"""How many more examples would decide what is open."""

import math
from collections.abc import Callable

from seatrial.judging.evidence import ROUNDING, Evidence, Range, Z, critical
from seatrial.statistics.normal import normal_quantile
from seatrial.statistics.proportions import score_interval

POWER = 0.8
"""How often the further examples would decide, if the value stays."""

FEWEST = 30
"""Examples of which a mean is normally distributed, nearly: of fewer their spread says little of how many decide."""

MOST_EXAMPLES = 1e9
"""Beyond that many further examples nobody is told a number."""


def log_tail(level: float) -> float:
    """Return what a standard exponential, the weight of an example not seen, exceeds its mean by at an error rate."""
    return -math.log(level / 2) - 1


def further_examples(evidence: Evidence, bound: float, *, times: int = 1) -> int | None:
    """Return how many more examples would decide four times in five, if the value stays.

    With d the distance to the bound, s the standard error the side towards it stands for, z at alpha / 2 and z' at 0.8:
    n ((z + z') s / d)^2 examples in all, since intervals shrink with 1/sqrt(n); the room they leave for an example not
    seen shrinks with 1/n. Of a proportion v that is held against b exactly: the sample size of its test,
    ((z sqrt(b(1-b)) + z' sqrt(v(1-v))) / d)^2, continuity-corrected (Fleiss, Levin and Paik 2003, ch. 2); of one that
    is 0 or 1, log(alpha / 2) over the log of what is left. Of paired proportions as :func:`_pairs` says: where few
    pairs are discordant their interval shrinks with 1/n, too.

    Args:
        evidence: Undecided.
        bound: What it is held against.
        times: Hypotheses it shares its error rate with.

    Returns:
        None where the value is the bound, where examples do not help, and beyond a billion.
    """
    value, found = evidence.judged.value, evidence.interval
    if value is None or found is None or evidence.is_fixed or abs(value - bound) < ROUNDING:
        return None
    n, alpha = evidence.judged.n, evidence.level / times
    if evidence.judged.method == "clopper-pearson" or (evidence.judged.method == "least" and bound < value):
        wanted = _trials(value, bound, alpha)
    elif evidence.discordant is not None:
        wanted = _pairs(evidence.discordant, n, bound, alpha)
    else:
        wanted = _scaled(evidence, found, bound, alpha)
    if not math.isfinite(wanted) or wanted - n > MOST_EXAMPLES:
        return None
    return max(1, math.ceil(wanted) - n)


def _pairs(discordant: tuple[int, int], n: int, bound: float, alpha: float) -> float:
    """Return the fewest pairs whose score interval leaves out the bound, infinite where a billion do not.

    As many of them are discordant as before, and their difference is as near to the bound as it comes once in five
    times: found from the interval itself, by doubling and halving. With Holm's correction its side towards the bound is
    stretched as a normal distribution's, as where it decides (:func:`seatrial.judging.evidence.p_value`).

    Args:
        discordant: Pairs that only the first has, and only the second.
        n: Pairs in all.
        bound: What their difference is held against.
        alpha: Rate of error.
    """
    rate, value = sum(discordant) / n, (discordant[0] - discordant[1]) / n
    side = 1 if bound > value else -1
    stretch = normal_quantile(1 - alpha / 2) / Z

    def is_decided(pairs: int) -> bool:
        unlucky = value + side * normal_quantile(POWER) * math.sqrt(max(rate - value**2, 0.0) / pairs)
        unlucky = min(max(unlucky, -1.0), 1.0)
        total = max(rate, abs(unlucky))
        first, second = pairs * (total + unlucky) / 2, pairs * (total - unlucky) / 2
        end = score_interval(first, second, pairs)[side > 0]
        return side * (bound - unlucky) >= side * (end - unlucky) * stretch

    return _fewest(is_decided, n)


def _scaled(evidence: Evidence, found: Range, bound: float, alpha: float) -> float:
    """Return the examples that decide a number whose side is spread by chance and by an example not seen."""
    value = evidence.judged.value or 0.0
    n = max(1, evidence.judged.n if evidence.examples is None else evidence.examples)
    gap, width = abs(bound - value), found[1] - value if bound > value else value - found[0]
    room = _room(evidence, value, is_above=bound > value)
    if width <= 0 or (room and gap > room):
        return math.inf
    shift, tail = room / n, log_tail(evidence.level) * room / n
    z = critical(evidence.level)
    spread = math.sqrt(max(0.0, (width - shift) ** 2 - tail**2)) / z
    stretch = normal_quantile(1 - alpha / 2) / z

    def is_decided(examples: float) -> bool:
        scale = n / examples
        side = shift * scale + math.hypot(z * spread * math.sqrt(scale), tail * scale)
        unseen = -room * math.expm1(math.log(alpha / 2) / examples)
        unlucky = normal_quantile(POWER) * spread * math.sqrt(scale)
        return gap >= max(side * stretch + unlucky, unseen)

    return max(_fewest(is_decided, n), FEWEST) * evidence.judged.n / n


def _room(evidence: Evidence, value: float, *, is_above: bool) -> float:
    """Return how far an example not seen may lie from the value; 0 where the interval leaves no room for one."""
    if evidence.span is None:
        return 0.0
    return max(0.0, evidence.span[1] - value if is_above else value - evidence.span[0])


def _fewest(is_decided: Callable[[int], bool], n: int) -> float:
    """Return the fewest examples above n that decide, by doubling and halving; infinite where a billion do not."""
    few, many = n, 2 * n
    while not is_decided(many):
        few, many = many, 2 * many
        if many > MOST_EXAMPLES + n:
            return math.inf
    while many - few > 1:
        middle = (few + many) // 2
        few, many = (few, middle) if is_decided(middle) else (middle, many)
    return many


def _trials(value: float, bound: float, alpha: float) -> float:
    """Return the trials that decide a proportion at least four times in five, infinite where none do."""
    if not 0 < bound < 1:
        return math.inf
    if value in (0, 1):
        return math.log(alpha / 2) / (math.log1p(-bound) if value == 0 else math.log(bound))
    gap = abs(bound - value)
    spread = normal_quantile(1 - alpha / 2) * math.sqrt(bound * (1 - bound))
    spread += normal_quantile(POWER) * math.sqrt(value * (1 - value))
    trials = (spread / gap) ** 2
    return trials / 4 * (1 + math.sqrt(1 + 2 / (trials * gap))) ** 2
