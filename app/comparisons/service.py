"""Comparisons: audits of several models' training runs, refused where they did not run alike."""

from collections.abc import Mapping, Sequence
from typing import Any

from app.comparisons import repository
from app.comparisons.differences import compare_number, published_numbers
from app.comparisons.grouping import comparable, over_runs
from app.gates.stored import pair, read_measured
from app.policies import repository as policies
from app.policies.judged import judged_first
from app.web.identifiers import no_such
from app.web.problems import InvalidRequestError, NotFoundError
from app.web.services import Services
from seatrial.contracts.comparisons import ComparedAudit, ComparisonGroup, ComparisonRead, NumberDifference
from seatrial.contracts.datasets import read_as
from seatrial.contracts.estimates import Flag
from seatrial.contracts.policies import MetricName
from seatrial.contracts.registry import each_once
from seatrial.contracts.states import RunState
from seatrial.judging.measured import Measured, is_named
from seatrial.judging.ranges import named
from seatrial.store.database import AnyRow

MOST_AUDITS = 50
"""Of one comparison, all groups together."""


def comparison(
    services: Services,
    project_id: str,
    audits: Sequence[str],
    groups: Mapping[str, Sequence[str]],
    metrics: Sequence[str],
) -> ComparisonRead:
    """Return mean and standard deviation of each group's numbers.

    Args:
        services: Of the process.
        project_id: Whose audits.
        audits: Grouped by the name of their model, of which every version is a training run.
        groups: Audits put together by a name of their own.
        metrics: Full names, ``*`` standing for any value of a qualifier; by default all.

    Raises:
        NotFoundError: The project has no such audit.
        InvalidRequestError: Audits did not run alike or did not succeed, are asked for twice or are of the same
            weights, or no number of a metric asked for can be compared.
    """
    asked = [*audits, *(audit for group in groups.values() for audit in group)]
    _check_asked(asked)
    with services.database.read() as session:
        rows = repository.list_audits(session, project_id, asked)
        if missing := [audit for audit in asked if audit not in rows]:
            raise NotFoundError(no_such("audit", missing[0]))
        measured = {audit: read_measured(session, audit) for audit in asked}
    _check_alike([rows[audit] for audit in asked])
    grouped: dict[str, list[str]] = {}
    for audit in audits:
        grouped.setdefault(rows[audit].model_name, []).append(audit)
    for name, members in groups.items():
        if name in grouped:
            raise _refused("group", f"There are two groups named {name!r}: give this one another name.")
        grouped[name] = list(members)
    for members in grouped.values():
        _check_apart([rows[audit] for audit in members])
    values, left = comparable([measured[audit] for audit in asked])
    chosen = _chosen(metrics, values, left)
    apart = _differences(services, project_id, [measured[audit] for audit in asked], chosen)
    first = rows[asked[0]]
    return ComparisonRead(
        samples=first.samples,
        seed=first.seed,
        metrics=chosen,
        groups=[
            ComparisonGroup(
                name=name,
                audits=[_told(rows[audit], measured[audit]) for audit in members],
                numbers={metric: over_runs([values[metric][audit] for audit in members]) for metric in chosen},
            )
            for name, members in grouped.items()
        ],
        differences=apart,
        not_compared=left,
    )


def _refused(parameter: str, detail: str) -> InvalidRequestError:
    return InvalidRequestError(detail, part="query", pointer=f"/{parameter}")


def _check_asked(asked: Sequence[str]) -> None:
    if not asked:
        raise _refused("audit", "There is nothing to compare: give audits, or groups of them.")
    if len(asked) > MOST_AUDITS:
        raise _refused("audit", f"{len(asked)} audits are asked for; a comparison has at most {MOST_AUDITS}.")
    if twice := [audit for place, audit in enumerate(asked) if audit in asked[:place]]:
        raise _refused("audit", f"Audit {twice[0]} is asked for twice.")


def _check_alike(rows: Sequence[AnyRow]) -> None:
    first, *rest = rows
    for row in rows:
        if row.state != RunState.SUCCEEDED:
            raise _refused("audit", f"Audit {row.audit} is {row.state}: only audits that succeeded are compared.")
    for row in rest:
        for what, ours, theirs in (
            ("bytes of data", _data(row), _data(first)),
            ("number of examples", row.samples, first.samples),
            ("seed", row.seed, first.seed),
        ):
            if ours != theirs:
                raise _refused(
                    "audit",
                    f"Audits {first.audit} and {row.audit} did not run alike: the {what} differs. Differences between "
                    "their numbers would not be the training's alone.",
                )


def _data(row: AnyRow) -> tuple[str, ...]:
    return (row.dataset_digest, *read_as(row.dataset_manifest))


def _check_apart(rows: Sequence[AnyRow]) -> None:
    """Refuse one set of weights twice in a group: it is no second training run, and would make the deviation less."""
    seen: dict[str, str] = {}
    for row in rows:
        if row.model_digest in seen:
            raise _refused(
                "audit",
                f"Audits {seen[row.model_digest]} and {row.audit} are of the same weights, which are one training run, "
                "not two. To compare two audits of one model, put each into a group of its own (`group`).",
            )
        seen[row.model_digest] = row.audit


def _chosen(metrics: Sequence[str], values: Mapping[str, Any], left: Mapping[str, str]) -> list[str]:
    if not metrics:
        return judged_first(values)
    chosen: dict[str, None] = {}
    for metric in metrics:
        try:
            wanted = named(metric)
        except ValueError as error:
            raise _refused("metric", f"{error}.") from error
        found = [name for name in values if _matches(wanted, name)]
        if not found:
            why = next((f": {reason}" for name, reason in left.items() if _matches(wanted, name)), "")
            raise _refused("metric", f"{metric} cannot be compared{why or ': no audit here has it'}.")
        chosen |= dict.fromkeys(found)
    return list(chosen)


def _differences(
    services: Services, project_id: str, audits: Sequence[Measured], metrics: Sequence[str]
) -> dict[str, NumberDifference]:
    """Return the numbers of two audits, the second less the first; nothing of more or fewer."""
    if len(audits) != 2:
        return {}
    before, after = audits
    with services.database.read() as session:
        then, now = (policies.find_audit(session, project_id, one.audit) for one in audits)
    paired = pair(services, now, then) if then is not None and now is not None else None
    ours, theirs = published_numbers(after), published_numbers(before)
    compared = [compare_number(name, *ours[name], after, before, paired, theirs[name]) for name in each_once(metrics)]
    return {
        one.metric: NumberDifference(
            first=one.first, second=one.second, difference=one.difference, trend=one.trend, how=one.why
        )
        for one in compared
        if one.first is not None and one.second is not None and one.difference is not None and one.trend is not None
    }


def _matches(wanted: MetricName, name: str) -> bool:
    family, _, metric = name.partition(".")
    return family == wanted.family and is_named(wanted, metric)


def _told(row: AnyRow, measured: Measured) -> ComparedAudit:
    flags: list[Flag] = [flag for check in measured.checks if check.result for flag in check.result.flags]
    return ComparedAudit(
        audit=row.audit,
        model=row.model,
        model_name=row.model_name,
        model_version=row.model_version,
        flags=[flag for flag in flags if flag.severity != "info"],
    )
