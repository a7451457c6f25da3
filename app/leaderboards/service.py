"""Leaderboards: which audits ran alike, and what they make of their models side by side.

Audits are alike when they drew as many examples of the same bytes by the same seed, and their checks have the same
parameters. Of a model the newest audit counts.
"""

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from app.gates.stored import read_records
from app.leaderboards import repository
from app.leaderboards.ranking import Entry, difference, on_pareto_front, places
from app.policies.judged import judged_of
from app.web.identifiers import no_such
from app.web.problems import InvalidRequestError, NotFoundError
from app.web.services import Services
from seatrial.contracts.datasets import read_as
from seatrial.contracts.estimates import Estimate, Flag, Result, split_name
from seatrial.contracts.leaderboards import LeaderboardGroup, LeaderboardRead, LeaderboardRow
from seatrial.contracts.near_names import instead
from seatrial.contracts.policies import better_of
from seatrial.contracts.registry import families, find_family
from seatrial.contracts.states import RunState
from seatrial.families.shared.per_example import NoMeanError, Values
from seatrial.families.shared.settling import settled
from seatrial.judging.comparability import filled
from seatrial.judging.measured import MeasuredCheck
from seatrial.judging.pairing import values_of
from seatrial.store.database import AnyRow

MOST_MODELS = 50
"""Of one group; every two of them are compared."""

_MOST_CHECKS = 5000
"""Looked through for those that ran alike, the newest first."""


@dataclass(frozen=True)
class Asked:
    """What a leaderboard is to show.

    Attributes:
        dataset: Id.
        check: Family.
        metric: Name without the family; None: the first that shipped policies judge, else the family's first.
        against: Audit to measure differences from.
        group: Of which the rows are; None: the one with most models, of several the newest.
        across: Parameter of the check in which rows may differ: a model has a row for each of its values.
        beside: Second number, of the Pareto front with the metric.
    """

    dataset: str
    check: str
    metric: str | None = None
    against: str | None = None
    group: str | None = None
    across: str | None = None
    beside: str | None = None


def leaderboard(services: Services, project_id: str, asked: Asked) -> LeaderboardRead:
    """Return the models a project has audited alike, in the order of a metric.

    Raises:
        NotFoundError: The project has no such dataset.
        InvalidRequestError: There is no such family, metric, audit, group or parameter, or no way of a number on the
            Pareto front is better.
    """
    spec = find_family(asked.check)
    if spec is None:
        raise _unknown("check", f"There is no family {asked.check!r}{instead(asked.check, families())}.")
    known = [name for name in spec.params.model_fields if name != "kind"]
    if asked.across is not None and asked.across not in known:
        raise _unknown(
            "across", f"{asked.check} has no parameter {asked.across!r}{instead(asked.across, known, 'it has')}."
        )
    with services.database.read() as session:
        dataset = repository.find_dataset(session, project_id, asked.dataset)
        if dataset is None:
            raise NotFoundError(no_such("dataset", asked.dataset))
        found = repository.list_measured(session, project_id, dataset.digest, asked.check, limit=_MOST_CHECKS)
        alike = (row for row in found if read_as(row.dataset_manifest) == read_as(dataset.manifest))
        grouped = _grouped(asked, alike)
        groups = {name: _group(name, asked, rows) for name, rows in grouped.items()}
        chosen = _chosen(groups, asked.group)
        rows = [] if chosen is None else grouped[chosen.id][:MOST_MODELS]
        results = repository.list_results(session, [row.check for row in rows])
    checks = [_measured(asked.check, row, results[row.check]) for row in rows]
    metrics = _metrics(asked.check, checks)
    metric = _metric(asked, metrics)
    beside = _beside(asked, metrics, metric)
    told = [] if metric is None else _rows(services, asked, metric, beside, rows, checks)
    return LeaderboardRead(
        dataset=dataset.id,
        dataset_name=dataset.name,
        dataset_version=dataset.version,
        check=asked.check,
        metric=metric,
        better=None if metric is None else better_of(f"{asked.check}.{metric}"),
        against=asked.against,
        group=chosen,
        groups=sorted(groups.values(), key=lambda one: (-one.models, one.id)),
        metrics=metrics,
        rows=told,
        across=asked.across,
        beside=beside,
        left_out=0 if chosen is None else chosen.models - len(rows),
    )


def _unknown(parameter: str, detail: str) -> InvalidRequestError:
    return InvalidRequestError(detail, part="query", pointer=f"/{parameter}")


def _grouped(asked: Asked, found: Iterable[AnyRow]) -> dict[str, list[AnyRow]]:
    """Return the newest check of every model, and value of what may differ, by its group; newest audits first."""
    grouped: dict[str, dict[tuple[str, str], AnyRow]] = {}
    for row in found:
        params, varied = _apart_from(asked, row)
        told = json.dumps([params, row.samples, row.seed], sort_keys=True, default=str)
        name = hashlib.sha256(told.encode()).hexdigest()[:12]
        value = json.dumps(varied, sort_keys=True, default=str)
        grouped.setdefault(name, {}).setdefault((row.model, value), row)
    return {name: list(rows.values()) for name, rows in grouped.items()}


def _apart_from(asked: Asked, row: AnyRow) -> tuple[dict[str, Any], Any]:
    """Return what the parameters of rows have in common, and the value of the one that may differ."""
    params = dict(filled(asked.check, row.params))
    varied = None if asked.across is None else params.pop(asked.across, None)
    return params, varied


def _group(name: str, asked: Asked, rows: Sequence[AnyRow]) -> LeaderboardGroup:
    newest = rows[0]
    return LeaderboardGroup(
        id=name,
        samples=newest.samples,
        seed=newest.seed,
        params=_apart_from(asked, newest)[0],
        models=len(rows),
        newest_audit=newest.audit,
    )


def _chosen(groups: Mapping[str, LeaderboardGroup], asked: str | None) -> LeaderboardGroup | None:
    if asked is None:
        # They come with the newest audit first, and max keeps the first of several.
        return max(groups.values(), key=lambda group: group.models, default=None)
    if asked not in groups:
        raise _unknown("group", f"There is no group {asked!r} of this check on this dataset: see `groups`.")
    return groups[asked]


def _measured(kind: str, row: AnyRow, result: str) -> MeasuredCheck:
    read = settled(kind, row.params, Result.model_validate_json(result))
    return MeasuredCheck(row.ordinal, kind, RunState.SUCCEEDED, read, None, row.params)


def _metrics(kind: str, checks: Sequence[MeasuredCheck]) -> list[str]:
    """Return the names of numbers some check has and this version knows, in the order of the family."""
    spec = families()[kind]
    order = {id(metric): at for at, metric in enumerate(spec.metrics)}
    found = dict.fromkeys(name for check in checks for name in (check.result.estimates if check.result else {}))
    known = ((spec.find_metric(*split_name(name)), name) for name in found)
    placed = [(order[id(metric)], name) for metric, name in known if metric is not None]
    # Numbers of one metric stay in the order the family published them.
    return [name for _, name in sorted(placed, key=lambda one: one[0])]


def _metric(asked: Asked, metrics: Sequence[str]) -> str | None:
    if asked.metric is None:
        with_a_way = [name for name in metrics if better_of(f"{asked.check}.{name}") != "neither"]
        return next(iter([*judged_of(asked.check, with_a_way), *with_a_way]), None)
    metric = asked.metric.removeprefix(f"{asked.check}.")
    if not metrics:
        spec = families()[asked.check]
        if spec.find_metric(*split_name(metric)) is None:
            names = dict.fromkeys(one.name for one in spec.metrics)
            raise _unknown("metric", f"{asked.check} has no metric {asked.metric!r}{instead(metric, names, 'it has')}.")
        return None
    if metric not in metrics:
        raise _unknown("metric", f"No model here has {asked.metric!r}{instead(metric, metrics[:40])}.")
    return metric


def _beside(asked: Asked, metrics: Sequence[str], metric: str | None) -> str | None:
    if asked.beside is None or metric is None:
        return None
    beside = asked.beside.removeprefix(f"{asked.check}.")
    if beside not in metrics:
        raise _unknown("beside", f"No model here has {asked.beside!r}{instead(beside, metrics[:40])}.")
    for name in (metric, beside):
        if better_of(f"{asked.check}.{name}") == "neither":
            raise _unknown("beside", f"No way of {name} is better: there is no Pareto front of it.")
    return beside


def _front(
    asked: Asked, names: tuple[str, str], rows: Sequence[AnyRow], checks: Sequence[MeasuredCheck]
) -> dict[str, bool]:
    """Return which checks are on the Pareto front of two numbers, of those that have both."""
    signs = [1.0 if better_of(f"{asked.check}.{name}") == "higher" else -1.0 for name in names]
    points: dict[str, list[float]] = {}
    for row, check in zip(rows, checks, strict=True):
        found = [None if check.result is None else check.result.estimates.get(name) for name in names]
        values = [one.value for one in found if one is not None and one.value is not None]
        if len(values) == len(names):
            points[row.check] = [sign * value for sign, value in zip(signs, values, strict=True)]
    return dict(zip(points, on_pareto_front(list(points.values())), strict=True))


def _rows(
    services: Services,
    asked: Asked,
    metric: str,
    beside: str | None,
    rows: Sequence[AnyRow],
    checks: Sequence[MeasuredCheck],
) -> list[LeaderboardRow]:
    name = f"{asked.check}.{metric}"
    better = better_of(name)
    entries: dict[str, Entry] = {}
    for row, check in zip(rows, checks, strict=True):
        estimate = None if check.result is None else check.result.estimates.get(metric)
        if estimate is not None and estimate.value is not None:
            entries[row.check] = Entry(estimate, check, _values(services, name, row, check))
    # An audit may have several checks that differ in what may differ: the first of them.
    referred = next((row.check for row in rows if row.audit == asked.against), None)
    reference = None if referred is None else entries.get(referred)
    if asked.against is not None and asked.against not in {row.audit for row in rows}:
        raise _unknown("against", f"Audit {asked.against} is none of the newest of this group's models.")
    ranked = places(name, list(entries.values()), better)
    placed = {} if ranked is None else dict(zip(entries, ranked, strict=True))
    efficient = {} if beside is None else _front(asked, (metric, beside), rows, checks)

    def told(row: AnyRow, check: MeasuredCheck) -> LeaderboardRow:
        apart, how = _apart(name, entries.get(row.check), reference, row.check == referred)
        place = placed.get(row.check)
        return LeaderboardRow(
            rank=None if place is None else place.rank,
            rank_low=None if place is None else place.low,
            rank_high=None if place is None else place.high,
            model=row.model,
            model_name=row.model_name,
            model_version=row.model_version,
            audit=row.audit,
            check=row.ordinal,
            finished_at=row.finished_at,
            verdict=row.verdict,
            flags=_doubts(check),
            estimates={} if check.result is None else check.result.estimates,
            difference=apart,
            compared=how,
            varied=_apart_from(asked, row)[1],
            is_efficient=efficient.get(row.check),
        )

    sign = -1.0 if better == "higher" else 1.0

    def order(row: LeaderboardRow) -> tuple[bool, float, str, str]:
        value = row.estimates[metric].value if metric in row.estimates else None
        return value is None, sign * (value or 0.0), row.model, json.dumps(row.varied, default=str)

    return sorted((told(row, check) for row, check in zip(rows, checks, strict=True)), key=order)


def _doubts(check: MeasuredCheck) -> list[Flag]:
    return [] if check.result is None else [flag for flag in check.result.flags if flag.severity != "info"]


def _values(services: Services, metric: str, row: AnyRow, check: MeasuredCheck) -> Values | None:
    def read(stage: str) -> Any:
        with services.database.read() as session:
            digests = repository.list_records(session, row.check, stage)
        return read_records(services, digests)

    try:
        return values_of(metric, check.params, read)
    except NoMeanError:
        return None


def _apart(
    metric: str, entry: Entry | None, reference: Entry | None, is_reference: bool
) -> tuple[Estimate | None, str]:
    """Return a number less the reference's, and how it was made."""
    if reference is None or is_reference:
        return None, "what the others are compared with" if is_reference else ""
    if entry is None:
        return None, "it is undefined on this sample"
    evidence = difference(metric, entry, reference)
    return evidence.judged, evidence.why
