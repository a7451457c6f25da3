"""The adversarial temperature: where DeepWordBug does most harm (Raina et al., section 4.2 and appendix G.1).

Q(T) is the adversarial accuracy on validation examples attacked at temperature T, on top of the served logits. It costs
an attack on every one of them, so the search asks for whole rounds of temperatures and is told their Q. It keeps no
state: what comes next follows from what is known alone, on any machine, as often as it is asked.

Q is a step function: few examples, and temperatures between which not one of them changes. So there is no slope to
follow, only plateaus, and the smallest value may be shared by decades of T; of those the T nearest 1 is taken.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

from scipy.optimize import brent

from seatrial.families.temperature_attack.params import ROUND

Method = Literal["bounded", "paper_bracket"]
Evaluated = Sequence[tuple[float, float]]
"""Pairs of a temperature and Q there."""

RANGE = (-10.0, 6.0)
"""Logarithms to base 10 of the least and the largest temperature."""

GRID = 33
"""Temperatures of the first round's grid at most: half a decade apart."""

RESOLUTION = 0.05
"""Decades: a bracket narrower than this is resolved."""

DIGITS = 6
"""Significant digits of a temperature asked for; 10^u differs between machines in the last one of sixteen."""

PAPER_ITERATIONS = 10


@dataclass(frozen=True)
class Found:
    """What a search found.

    Attributes:
        temperature: With the smallest Q seen, the nearest to 1 of those that tie; in ``paper_bracket`` what Brent's
            method returns.
        failure: None, or why it is not what the method promises: ``nothing_evaluated``, ``bracket_refused`` (SciPy
            takes no bracket whose middle is not below its ends; the best temperature seen is returned),
            ``budget_spent`` (before the paper's ten iterations were done; the best seen).
    """

    temperature: float
    failure: str | None = None


def next_round(evaluated: Evaluated, fitted: float, budget: int, method: Method = "bounded") -> list[float]:
    """Return the temperatures to evaluate next, all at once; none when the search is over.

    ``bounded``: 1, 10, the fitted temperature and a grid over ten to the -10 to 6 with half the budget; then the widest
    gaps around the best plateau are halved, those nearest its middle first, until the budget is spent, the plateau is
    resolved to 0.05 decades, or Q is 0. ``paper_bracket``: what the paper's code would evaluate next.

    Args:
        evaluated: Everything known so far, in any order; a Q that is not a number ends the search.
        fitted: The calibrated temperature.
        budget: Temperatures to evaluate in all, at least 3.
        method: Which search.

    >>> next_round([], 2.0, 4)
    [1.0, 10.0, 2.0]
    """
    if any(math.isnan(accuracy) for _, accuracy in evaluated):
        return []
    known = dict(evaluated)
    if method == "paper_bracket":
        wanted = _replay(known).wanted
    else:
        planned = _first_round(fitted, budget)
        wanted = planned if any(temperature not in known for temperature in planned[:3]) else _refine(known)
    fresh = [temperature for temperature in dict.fromkeys(wanted) if temperature not in known]
    return fresh[: max(0, budget - len(known))]


def conclude(evaluated: Evaluated, method: Method = "bounded") -> Found:
    """Return what a finished search found.

    >>> conclude([(1.0, 0.5), (10.0, 0.25), (100.0, 0.25)])
    Found(temperature=10.0, failure=None)
    """
    known = {temperature: accuracy for temperature, accuracy in evaluated if not math.isnan(accuracy)}
    if not known:
        return Found(1.0, "nothing_evaluated")
    if method == "paper_bracket":
        end = _replay(known)
        if end.found is not None:
            return Found(end.found)
        return Found(best(list(known.items())), "bracket_refused" if not end.wanted else "budget_spent")
    return Found(best(list(known.items())))


def best(evaluated: Evaluated) -> float:
    """Return the temperature with the smallest Q; of several the one nearest 1, the lower of two as near.

    >>> best([(1e-3, 0.5), (100.0, 0.2), (1e3, 0.2)])
    100.0
    """
    return min(evaluated, key=lambda pair: (pair[1], abs(math.log10(pair[0])), pair[0]))[0]


def _first_round(fitted: float, budget: int) -> list[float]:
    fixed = [1.0, 10.0, _round(fitted)]
    points = min(GRID, (budget - len(fixed)) // 2)
    if points < 2:
        return fixed
    low, high = RANGE
    return fixed + [_round(10 ** (low + (high - low) * point / (points - 1))) for point in range(points)]


def _refine(known: dict[float, float]) -> list[float]:
    """Return temperatures that halve the widest gaps around the best plateau."""
    centre, least = best(list(known.items())), min(known.values())
    if least == 0:
        return []
    ordered = sorted(known)
    first = last = ordered.index(centre)
    while first > 0 and known[ordered[first - 1]] == least:
        first -= 1
    while last < len(ordered) - 1 and known[ordered[last + 1]] == least:
        last += 1
    # The bracket: the plateau and its neighbours, or the range's end where there is no neighbour.
    points = [math.log10(temperature) for temperature in ordered[max(0, first - 1) : last + 2]]
    if first == 0:
        points.insert(0, min(RANGE[0], points[0]))
    if last == len(ordered) - 1:
        points.append(max(RANGE[1], points[-1]))
    middle = (math.log10(ordered[first]) + math.log10(ordered[last])) / 2
    gaps = list(pairwise(points))
    wanted: list[float] = []
    while len(wanted) < ROUND:
        gap = max(gaps, key=lambda ends: (round(ends[1] - ends[0], 9), -abs(sum(ends) / 2 - middle)))
        # Either side of a single best point half a resolution is the whole.
        if gap[1] - gap[0] < RESOLUTION / 2:
            break
        half = sum(gap) / 2
        gaps.remove(gap)
        gaps += [(gap[0], half), (half, gap[1])]
        wanted.append(_round(10**half))
    return wanted


def _round(temperature: float) -> float:
    return float(f"{temperature:.{DIGITS}g}")


@dataclass(frozen=True)
class _Replay:
    """Where the paper's code stands: what it wants to know, or what it returned; neither where SciPy refused."""

    wanted: list[float]
    found: float | None = None


class _UnknownTemperatureError(Exception):
    """The paper's code asks for a temperature that has not been evaluated."""


def _replay(known: dict[float, float]) -> _Replay:
    """Run the paper's snippet on what is known.

    ``acc = Q(1); left, right = (1, 1e6) if Q(10) < acc else (1e-10, 1)``, then
    ``scipy.optimize.brent(Q, brack=(left, (left + right) / 2, right), maxiter=10)``, in T itself. The temperatures
    that it asks for whatever their values are asked for together.
    """

    def accuracy(temperature: float) -> float:
        # Brent's method hands on numpy numbers.
        if (asked := float(temperature)) not in known:
            raise _UnknownTemperatureError(asked)
        return known[asked]

    def unknown(temperatures: list[float]) -> list[float]:
        return [temperature for temperature in temperatures if temperature not in known]

    if missing := unknown([1.0, 10.0]):
        return _Replay(missing)
    left, right = (1.0, 1e6) if accuracy(10.0) < accuracy(1.0) else (1e-10, 1.0)
    bracket = [left, (left + right) / 2, right]
    if missing := unknown(bracket):
        return _Replay(missing)
    try:
        return _Replay([], float(brent(accuracy, brack=tuple(bracket), maxiter=PAPER_ITERATIONS)))
    except _UnknownTemperatureError as error:
        return _Replay([error.args[0]])
    except ValueError:
        return _Replay([])
