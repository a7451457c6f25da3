"""Whether running an audit again gave the same: every number, every record."""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from app.reports.unbundling import Bundle
from seatrial.contracts.estimates import Estimate, Result
from seatrial.contracts.registry import as_meant

EARLIER = frozenset({"bootstrap", "widened", "paired"})
"""Methods that had intervals of numbers which have those of another since 2026-11-23."""

PROVENANCE = frozenset({"mixed_code", "mixed_hardware"})
"""Flags that tell what measured a run, and nothing of the model: two runs may differ in them and give the same."""

_FLAG = "flag "


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
        recast: Estimates whose intervals are made in another way since: of these the ends are not compared.
        differences: In the order of the checks.
        largest: How far apart two numbers are at most, by kind of check; undefined ones and words are left out.
        new: Numbers, columns and stages that only the second run has: a later version publishes more.
    """

    numbers: int = 0
    records: int = 0
    recast: int = 0
    differences: list[Difference] = field(default_factory=list)
    largest: dict[str, float] = field(default_factory=dict)
    new: list[str] = field(default_factory=list)

    def note(self, where: str, apart: float) -> None:
        """Note a distance at a place such as ``0/FAMILY.METRIC``."""
        if math.isfinite(apart):
            kind = where.partition("/")[2].partition("/")[0].partition(".")[0]
            self.largest[kind] = max(self.largest.get(kind, 0.0), apart)


def compare(
    recorded: Bundle, replayed: Bundle, *, tolerance: float = 0.0, by_family: Mapping[str, float] | None = None
) -> Comparison:
    """Compare two runs of one audit, check by check; checks that gave no numbers the first time are left out.

    What only the first run has is a difference. What only the second has is new, except for a flag: a doubt that was
    not raised the first time is a difference, unless the first version lacked a parameter that the check now has.

    Args:
        recorded: The first run.
        replayed: The second, of the same checks.
        tolerance: Numbers that are this far apart at most are the same. 0: exactly; undefined equals undefined.
        by_family: Other tolerances of checks of these kinds.

    Raises:
        BundleError: A file of records cannot be read.
    """
    comparison = Comparison()
    for check in recorded.index.checks:
        first, second = recorded.results.get(check.position), replayed.results.get(check.position)
        if first is None or first.result is None:
            continue
        where = f"{check.position}/{check.kind}"
        allowed = (by_family or {}).get(check.kind, tolerance)
        is_older = as_meant(check.kind, check.params).keys() != check.params.keys()
        compare_results(comparison, where, first.result, second.result if second else None, allowed, is_older)
        again = {
            one.stage: one
            for other in replayed.index.checks
            if other.position == check.position
            for one in other.records
        }
        for one in check.records:
            place = f"{where}/{one.stage}"
            if one.stage not in again:
                comparison.differences.append(Difference(place, f"{one.rows:,} records", "none", ""))
                continue
            compare_tables(comparison, place, recorded.records(one), replayed.records(again[one.stage]), allowed)
        known = {one.stage for one in check.records}
        comparison.new += [f"{where}/{stage}" for stage in again if stage not in known]
    return comparison


def compare_results(
    comparison: Comparison, where: str, first: Result, second: Result | None, tolerance: float, is_older: bool
) -> None:
    """Compare what a check published twice, and note in ``comparison`` what differs."""
    recast = _recast(first, second)
    comparison.recast += len(recast)
    known, again = dict(_numbers(first, recast)), dict(_numbers(second, recast)) if second else {}
    for name in dict.fromkeys([*known, *again]):
        if name not in known and (is_older or not name.startswith(_FLAG)):
            comparison.new.append(f"{where}.{name}")
            continue
        left, right = known.get(name, {}), again.get(name, {})
        comparison.numbers += len(left)
        for part in left | right:
            apart = _apart(left.get(part), right.get(part))
            comparison.note(where, apart)
            if part not in left or part not in right or not apart <= tolerance:
                before, now = (_shown(side[part]) if part in side else "missing" for side in (left, right))
                comparison.differences.append(Difference(f"{where}.{part}", before, now, _distance(apart)))


def _recast(first: Result, second: Result | None) -> frozenset[str]:
    again = {} if second is None else second.estimates
    return frozenset(
        name
        for name, one in first.estimates.items()
        if one.method in EARLIER and name in again and again[name].method not in (one.method, "none")
    )


def _numbers(result: Result, recast: frozenset[str]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield what a check published: its name, and its numbers by theirs."""
    for name, estimate in result.estimates.items():
        parts = ("value", "n") if name in recast else Estimate.model_fields
        yield name, {f"{name} {part}": getattr(estimate, part) for part in parts}
    others: dict[str, Any] = {f"counts {name}": count for name, count in result.counts.items()}
    others |= {f"series {name}": curve for name, curve in result.series.items()}
    # What a flag says beside its code repeats numbers that are compared by themselves.
    others |= {f"{_FLAG}{flag.code}": flag.severity for flag in result.flags if flag.code not in PROVENANCE}
    for name, value in others.items():
        yield name, {name: value}


def compare_tables(comparison: Comparison, where: str, first: Any, second: Any, tolerance: float) -> None:
    """Compare the records (pyarrow Tables) of a stage, likewise."""
    comparison.records += first.num_rows
    if first.num_rows != second.num_rows:
        comparison.differences.append(Difference(where, f"{first.num_rows:,} records", f"{second.num_rows:,}", ""))
        return
    comparison.new += [f"{where}.{name}" for name in second.column_names if name not in first.column_names]
    for name in first.column_names:
        if name not in second.column_names:
            comparison.differences.append(Difference(f"{where}.{name}", "there", "missing", ""))
            continue
        left, right = first.column(name), second.column(name)
        # Attacked images, and digests, are compared as they are or not at all: nobody can say how far they are apart.
        is_exact = "binary" in str(left.type) or name.partition("[")[0].endswith("_digest")
        if tolerance > 0 and is_exact and left.type == right.type:
            continue
        # NaN is no number that Arrow finds equal to itself, so most columns with one are looked at again.
        if left.equals(right):
            continue
        apart = [_apart(one, other) for one, other in zip(left.to_pylist(), right.to_pylist(), strict=True)]
        comparison.note(where, max((one for one in apart if math.isfinite(one)), default=0.0))
        wrong = [at for at, distance in enumerate(apart) if not distance <= tolerance]
        if wrong:
            at = max(wrong, key=lambda position: apart[position])
            shown = (_shown(left[at].as_py()), _shown(right[at].as_py()))
            label = f"{where}.{name}: {len(wrong):,} of {len(apart):,} differ, most in row {at}"
            comparison.differences.append(Difference(label, *shown, _distance(apart[at])))


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
