"""Changing tags, and searching."""

from typing import Any

from app.audits.reading import moment
from app.tags import repository
from app.tags.repository import Asked, MetricRange
from app.web.problems import InvalidRequestError, NotFoundError
from app.web.services import Services
from seatrial.contracts.estimates import metric_name
from seatrial.contracts.policies import described_metric, parse_metric
from seatrial.contracts.tags import MAX_TAGS, SearchKind, TagChange
from seatrial.store.database import AnyRow

PREFIXES: dict[SearchKind, str] = {"models": "mdl", "datasets": "dat", "audits": "aud"}
_SEARCH = {
    "models": repository.search_models,
    "datasets": repository.search_datasets,
    "audits": repository.search_audits,
}


def read_tags(services: Services, project_id: str, subject_id: str) -> list[str]:
    """Return the tags of a model, a dataset or an audit.

    Raises:
        NotFoundError: The project has none of that id.
    """
    with services.database.read() as session:
        if not repository.is_there(session, project_id, subject_id):
            raise _not_found(subject_id)
        return repository.list_tags(session, project_id, [subject_id])[subject_id]


def change_tags(services: Services, project_id: str, subject_id: str, change: TagChange) -> list[str]:
    """Put tags on something and take others off; return those it has then.

    Raises:
        NotFoundError: The project has none of that id.
        InvalidRequestError: A tag is to be put on and taken off, or there would be too many.
    """
    if both := sorted({*change.add} & {*change.remove}):
        raise InvalidRequestError(f"{both[0]!r} is to be put on and taken off: name it once.", pointer="/add")
    with services.database.write() as session:
        if not repository.is_there(session, project_id, subject_id):
            raise _not_found(subject_id)
        repository.lock(session, subject_id)
        repository.remove_tags(session, subject_id, change.remove)
        before = repository.list_tags(session, project_id, [subject_id])[subject_id]
        added = [tag for tag in dict.fromkeys(change.add) if tag not in before]
        if len(before) + len(added) > MAX_TAGS:
            raise InvalidRequestError(
                f"{subject_id} would have {len(before) + len(added)} tags: at most {MAX_TAGS}.", pointer="/add"
            )
        repository.add_tags(session, project_id, subject_id, added)
        return sorted([*before, *added])


def search(
    services: Services, project_id: str, kind: SearchKind, asked: Asked, *, before: str | None, limit: int
) -> list[dict[str, Any]]:
    """Return what is found, newest first, in the shape of :class:`seatrial.contracts.tags.SearchHit`.

    Args:
        services: Where rows are.
        project_id: Whose.
        kind: What is looked through.
        asked: What is looked for.
        before: Id to begin after.
        limit: At most so many.

    Raises:
        InvalidRequestError: Only audits have a verdict and numbers.
    """
    if kind != "audits":
        for name, value in (("verdict", asked.verdict), ("metric", asked.metric)):
            if value is not None:
                raise InvalidRequestError(
                    f"Only audits have a {name}: ask of=audits, or leave it out.", part="query", pointer=f"/{name}"
                )
    with services.database.read() as session:
        rows = _SEARCH[kind](session, project_id, asked, before=before, limit=limit)
        ids = [row.id for row in rows]
        tags = repository.list_tags(session, project_id, ids)
        numbers = repository.list_numbers(session, asked.metric, ids) if asked.metric is not None else {}
    return [_hit(kind, row, tags[row.id], numbers.get(row.id)) for row in rows]


def metric_range(metric: str | None, at_least: float | None, at_most: float | None) -> MetricRange | None:
    """Return a range of a number by its full name, as a policy names it; None without one.

    Raises:
        InvalidRequestError: There is no such number, it names several, or the range is none.
    """
    if metric is None:
        if at_least is not None or at_most is not None:
            raise _wrong("metric", "A range is one of a metric: name it, like family.metric[key=value].")
        return None
    try:
        named, described = parse_metric(metric), described_metric(metric)
    except ValueError as error:
        raise _wrong("metric", str(error)) from error
    # These would end the name inside of a path of SQLite's.
    if "*" in named.qualifiers.values() or any(mark in metric for mark in '"\\'):
        raise _wrong("metric", "Name one number: no qualifier may be *, and none holds a quote or a backslash.")
    if at_least is not None and at_most is not None and at_least > at_most:
        raise _wrong("at_least", f"Nothing is at least {at_least:g} and at most {at_most:g}.")
    name = metric_name(named.name, **{key: named.qualifiers[key] for key in described.qualifiers})
    return MetricRange(named.family, name, at_least, at_most)


def _hit(kind: SearchKind, row: AnyRow, tags: list[str], estimate: dict[str, Any] | None) -> dict[str, Any]:
    if kind == "audits":
        name = f"{row.model_name} {row.model_version} on {row.dataset_name} {row.dataset_version}"
    else:
        name = f"{row.name} {row.version}"
    return {
        "id": row.id,
        "name": name,
        "digest": row.digest,
        "state": getattr(row, "state", None),
        "verdict": getattr(row, "verdict", None),
        "tags": tags,
        "created_at": moment(row.created_at),
        "url": f"/v1/{kind}/{row.id}",
        "estimate": estimate,
    }


def _wrong(field: str, detail: str) -> InvalidRequestError:
    return InvalidRequestError(detail, part="query", pointer=f"/{field}")


def _not_found(subject_id: str) -> NotFoundError:
    return NotFoundError(f"There is no model, dataset or audit {subject_id} in this project.")
