"""Two audits side by side, and one number over the versions of a model: only what means the same is compared."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy.orm import Session

from app.comparisons.differences import Compared, compare_number, published_numbers
from app.console import repository
from app.gates.stored import pair, read_measured
from app.policies import repository as policies
from app.policies.demands import DEMANDS
from app.policies.judged import is_judged, judged_first
from app.web.services import Services
from seatrial.contracts.audits import AuditRead
from seatrial.contracts.comparisons import Trend
from seatrial.contracts.estimates import Estimate, Flag
from seatrial.contracts.registry import each_once
from seatrial.families.shared.settling import settled_document
from seatrial.judging.comparability import differences, in_words
from seatrial.judging.measured import Measured, MeasuredCheck
from seatrial.judging.verdict import doubts_about
from seatrial.store.database import AnyRow


@dataclass(frozen=True)
class SideBySide:
    """Two audits.

    Attributes:
        tables: Numbers both have, by family.
        only_first: Names of numbers only the first has.
        only_second: Names of numbers only the second has.
        unlike: What differs between them besides the model, each in a sentence.
        judged: Names of the numbers that shipped policies judge, by what their difference says; in doubt on no side.
        doubted: The same of those that a flag of either audit casts doubt on.
        doubts: Flags of severity error and warning of each audit, first A's, each with its family.
        in_doubt: Names of all numbers that a flag casts doubt on.
    """

    tables: dict[str, list[Compared]]
    only_first: list[str]
    only_second: list[str]
    unlike: list[str]
    judged: dict[Trend, list[str]]
    doubted: dict[Trend, list[str]]
    doubts: tuple[list[tuple[str, Flag]], list[tuple[str, Flag]]]
    in_doubt: set[str]


def side_by_side(services: Services, project_id: str, first: AuditRead, second: AuditRead) -> SideBySide:
    """Return what two audits of the project measured."""
    with services.database.read() as session:
        rows = [policies.find_audit(session, project_id, one.id) for one in (first, second)]
        before, after = (read_measured(session, one.id) for one in (first, second))
    then, now = rows
    paired = pair(services, now, then) if then is not None and now is not None else None
    ours, theirs = published_numbers(after), published_numbers(before)
    tables: dict[str, list[Compared]] = {}
    told: dict[Trend, list[str]] = {}
    doubted: dict[Trend, list[str]] = {}
    in_doubt: set[str] = set()
    # What shipped policies judge comes first: an audit has dozens of numbers, and few decide.
    for metric in each_once(metric for metric in judged_first(ours) if metric in theirs):
        estimate, check = ours[metric]
        found = compare_number(metric, estimate, check, after, before, paired, theirs[metric])
        tables.setdefault(check.kind, []).append(found)
        if _is_in_doubt(metric, check) or _is_in_doubt(metric, theirs[metric][1]):
            in_doubt.add(metric)
        if found.trend is not None and is_judged(metric):
            (doubted if metric in in_doubt else told).setdefault(found.trend, []).append(metric)
    return SideBySide(
        tables=tables,
        only_first=each_once(metric for metric in theirs if metric not in ours),
        only_second=each_once(metric for metric in ours if metric not in theirs),
        unlike=_unlike(first, second),
        judged=told,
        doubted=doubted,
        doubts=(_doubts(before), _doubts(after)),
        in_doubt=in_doubt,
    )


def _doubts(audit: Measured) -> list[tuple[str, Flag]]:
    flags = [(check.kind, flag) for check in audit.checks if check.result for flag in check.result.flags]
    return [(kind, flag) for kind, flag in flags if flag.severity in ("error", "warning")]


def _is_in_doubt(metric: str, check: MeasuredCheck) -> bool:
    return check.result is not None and bool(doubts_about(metric, check.result.flags, "relevant"))


def _unlike(first: AuditRead, second: AuditRead) -> list[str]:
    told = []
    for name, one, other in (
        ("dataset", first.dataset, second.dataset),
        ("number of examples", first.samples, second.samples),
        ("seed", first.seed, second.seed),
    ):
        if one != other:
            told.append(f"The {name} differs: {one} in A, {other} in B.")
    for check in second.checks:
        match = next((one for one in first.checks if one.kind == check.kind), None)
        told += [] if match is None else _unlike_params(check.kind, match.params, check.params)
    return told


def _unlike_params(kind: str, first: Mapping[str, Any], second: Mapping[str, Any]) -> list[str]:
    return [
        f"{kind}: {name} is {in_words(kind, name, first.get(name))} in A, "
        f"{in_words(kind, name, second.get(name))} in B."
        for name in dict.fromkeys([*first, *second])
        if first.get(name) != second.get(name)
    ]


@dataclass(frozen=True)
class Point:
    """A number of one version of a model.

    Attributes:
        version: Version.
        model: Id of the model: ids sort by when it was uploaded.
        audit: The audit that measured it.
        estimate: The number.
        dataset: Id of the dataset.
        verdict: Of the audit.
        unlike: Why it does not mean the same as the newest one; nothing where it does.
        is_newest: Whether no later audit measured it of this version on this dataset.
    """

    version: str
    model: str
    audit: str
    estimate: Estimate
    dataset: str
    verdict: str | None
    unlike: list[str]
    is_newest: bool


@dataclass(frozen=True)
class History:
    """A number over the versions of a model.

    Attributes:
        metrics: Names of all numbers measured of the model.
        metric: The one shown; None where there is none.
        points: It, newest audit first.
    """

    metrics: list[str]
    metric: str | None
    points: list[Point]


def history(session: Session, project_id: str, name: str, asked: str) -> History:
    """Return what was measured of every version of a model; ``asked`` may name no metric."""
    rows = repository.checks_of_name(session, project_id, name)
    metrics = list(dict.fromkeys(f"{row.kind}.{one}" for row in rows for one in row.result.get("estimates", {})))
    # What shipped policies hold against a bound comes first: the number to gate on.
    gated = [demand.metric for demand in DEMANDS if demand.asks != "max_regression"]
    metric = asked if asked in metrics else next((one for one in [*gated, *metrics] if one in metrics), None)
    return History(metrics, metric, [] if metric is None else _points(rows, metric))


def _points(rows: Sequence[AnyRow], metric: str) -> list[Point]:
    kind, _, name = metric.partition(".")
    measured = [row for row in rows if row.kind == kind and name in row.result.get("estimates", {})]
    points: list[Point] = []
    seen: set[tuple[str, str]] = set()
    for row in measured:
        key = (row.model, row.dataset)
        points.append(
            Point(
                version=row.version,
                model=row.model,
                audit=row.audit,
                estimate=Estimate.model_validate(settled_document(row.kind, row.params, row.result)["estimates"][name]),
                dataset=row.dataset,
                verdict=row.verdict,
                unlike=_unlike_newest(metric, row, measured[0]),
                is_newest=key not in seen,
            )
        )
        seen.add(key)
    return points


def _unlike_newest(metric: str, row: AnyRow, newest: AnyRow) -> list[str]:
    told = [] if row.dataset == newest.dataset else ["it is of another dataset"]
    try:
        found = differences(metric, row.params, newest.params, there="in the newest")
    except (KeyError, ValueError, StopIteration):
        return told if row.params == newest.params else [*told, "its parameters differ"]
    return told + found
