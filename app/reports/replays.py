"""Whether running an audit again gave the same: every number, every record."""

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from app.reports.unbundling import Bundle
from seatrial.contracts.estimates import Estimate, Result


class Difference(NamedTuple):
    """Something that is not the same.

    Attributes:
        where: Number, or column of records.
        recorded: What the bundle has.
        replayed: What came out this time.
        by: How far they are apart, where that is a number.
    """

    where: str
    recorded: str
    replayed: str
    by: str


@dataclass
class Comparison:
    """What was compared.

    Attributes:
        numbers: How many numbers; a curve, or a flag, is one.
        records: How many rows of records.
        differences: In the order of the checks.
    """

    numbers: int = 0
    records: int = 0
    differences: list[Difference] = field(default_factory=list)


def compare(recorded: Bundle, replayed: Bundle, *, tolerance: float = 0.0) -> Comparison:
    """Compare two runs of one audit, check by check; checks that gave no numbers the first time are left out.

    Args:
        recorded: The first run.
        replayed: The second, of the same checks.
        tolerance: Numbers that are this far apart at most are the same. 0: exactly; undefined equals undefined.

    Raises:
        BundleError: A file of records cannot be read.
    """
    found = Comparison()
    for check in recorded.index.checks:
        first, second = recorded.results.get(check.position), replayed.results.get(check.position)
        if first is None or first.result is None:
            continue
        where = f"{check.position}/{check.kind}"
        _compare_results(found, where, first.result, second.result if second else None, tolerance)
        again = {
            one.stage: one
            for other in replayed.index.checks
            if other.position == check.position
            for one in other.records
        }
        for one in check.records:
            place = f"{where}/{one.stage}"
            if one.stage not in again:
                found.differences.append(Difference(place, f"{one.rows:,} records", "none", ""))
                continue
            _compare_tables(found, place, recorded.records(one), replayed.records(again[one.stage]), tolerance)
    return found


def _compare_results(found: Comparison, where: str, first: Result, second: Result | None, tolerance: float) -> None:
    known, again = dict(_numbers(first)), dict(_numbers(second)) if second else {}
    found.numbers += len(known)
    for name in dict.fromkeys([*known, *again]):
        apart = _apart(known.get(name), again.get(name))
        if name not in known or name not in again or not apart <= tolerance:
            before, now = (_shown(side[name]) if name in side else "missing" for side in (known, again))
            found.differences.append(Difference(f"{where}.{name}", before, now, _distance(apart)))


def _numbers(result: Result) -> Iterator[tuple[str, Any]]:
    for name, estimate in result.estimates.items():
        for part in Estimate.model_fields:
            yield f"{name} {part}", getattr(estimate, part)
    for name, count in result.counts.items():
        yield f"counts {name}", count
    for name, curve in result.series.items():
        yield f"series {name}", curve
    # What a flag says beside its code repeats numbers that are compared by themselves.
    for flag in result.flags:
        yield f"flag {flag.code}", flag.severity


def _compare_tables(found: Comparison, where: str, first: Any, second: Any, tolerance: float) -> None:
    found.records += first.num_rows
    if first.num_rows != second.num_rows:
        found.differences.append(Difference(where, f"{first.num_rows:,} records", f"{second.num_rows:,}", ""))
        return
    for name in dict.fromkeys([*first.column_names, *second.column_names]):
        if name not in second.column_names or name not in first.column_names:
            before, now = ("there" if name in side.column_names else "missing" for side in (first, second))
            found.differences.append(Difference(f"{where}.{name}", before, now, ""))
            continue
        left, right = first.column(name), second.column(name)
        # NaN is no number that Arrow finds equal to itself, so most columns with one are looked at again.
        if left.equals(right):
            continue
        apart = [_apart(one, other) for one, other in zip(left.to_pylist(), right.to_pylist(), strict=True)]
        wrong = [at for at, distance in enumerate(apart) if not distance <= tolerance]
        if wrong:
            at = max(wrong, key=lambda position: apart[position])
            shown = (_shown(left[at].as_py()), _shown(right[at].as_py()))
            label = f"{where}.{name}: {len(wrong):,} of {len(apart):,} differ, most in row {at}"
            found.differences.append(Difference(label, *shown, _distance(apart[at])))


def _apart(one: Any, other: Any) -> float:
    """Return how far two values are apart; infinity where that is no number.

    >>> _apart(1.5, 1), _apart(float("nan"), float("nan")), _apart([1.0, 2.0], [1.0, 2.5]), _apart("a", "b")
    (0.5, 0.0, 0.5, inf)
    """
    if isinstance(one, list) and isinstance(other, list) and len(one) == len(other):
        return max((_apart(*pair) for pair in zip(one, other, strict=True)), default=0.0)
    if isinstance(one, dict) and isinstance(other, dict) and one.keys() == other.keys():
        return max((_apart(one[key], other[key]) for key in one), default=0.0)
    if _is_number(one) and _is_number(other):
        if one == other or (one != one and other != other):
            return 0.0
        try:
            distance = float(abs(one - other))
        except OverflowError:
            # Whole numbers of JSON know no limit.
            return math.inf
        return math.inf if math.isnan(distance) else distance
    return 0.0 if type(one) is type(other) and one == other else math.inf


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _shown(value: Any) -> str:
    text = "none" if value is None else repr(value) if isinstance(value, float) else str(value)
    return text if len(text) <= 40 else text[:37] + "..."


def _distance(apart: float) -> str:
    return f"{apart:.3g}" if math.isfinite(apart) else ""
