"""Tags and the search: over HTTP, at the command line and in the console."""

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from app.tags import repository
from app.tags.repository import Asked, MetricRange
from app.tags.service import metric_range
from app.web.problems import InvalidRequestError
from seatrial.contracts.tags import MAX_TAGS, SearchHit
from seatrial.store.database import Database
from seatrial.store.ids import new_id
from seatrial.store.tables import AuditRow, CheckRow, ModelRow, TagRow
from tests.console.conftest import Console, console, elements, keyless_service, locked, locked_service, words
from tests.rows import add_audit, add_project

__all__ = ["console", "keyless_service", "locked", "locked_service"]

MUS = "uncertainty_span.mus"
ECE = "ece[arm=clean]"


def ask(console: Console, **query: Any) -> Any:
    return console.client.get("/v1/search", params=query)


def found(console: Console, **query: Any) -> list[str]:
    answer = ask(console, **query)
    assert answer.status_code == 200, answer.text
    hits = [SearchHit.model_validate(one) for one in answer.json()["items"]]
    return [hit.id for hit in hits]


def put(console: Console, subject: str, *tags: str, remove: tuple[str, ...] = ()) -> Any:
    return console.client.post(f"/v1/tags/{subject}", json={"add": list(tags), "remove": list(remove)})


def test_tags_are_put_on_and_taken_off_everything(console: Console) -> None:
    audit = console.finished()
    told = console.client.get(f"/v1/audits/{audit}").json()
    for subject, of in ((audit, "audits"), (told["model"], "models"), (told["dataset"], "datasets")):
        assert put(console, subject, "stage=prod", "team:vision").json()["tags"] == ["stage=prod", "team:vision"]
        assert put(console, subject, "stage=prod").json()["tags"] == ["stage=prod", "team:vision"]
        assert found(console, of=of, tag="stage=prod") == [subject]
        assert found(console, of=of, tag=["stage=prod", "team:vision"]) == [subject]
        assert found(console, of=of, tag=["stage=prod", "other"]) == []
        changed = put(console, subject, "old", remove=("stage=prod", "never-there"))
        assert changed.json() == {"id": subject, "tags": ["old", "team:vision"]}
        assert console.client.get(f"/v1/tags/{subject}").json() == changed.json()
    assert console.client.get(f"/v1/audits/{audit}").json() == told


@pytest.mark.parametrize(
    ("body", "pointer"),
    [
        ({"add": ["with space"]}, "/add/0"),
        ({"add": ["<script>"]}, "/add/0"),
        ({"add": ["x" * 65]}, "/add/0"),
        ({"add": ["a"], "remove": ["a"]}, "/add"),
        ({"tags": ["a"]}, "/tags"),
    ],
)
def test_what_is_no_tag_is_refused_by_name(console: Console, body: Any, pointer: str) -> None:
    answer = console.client.post(f"/v1/tags/{console.finished()}", json=body)
    assert answer.status_code == 422
    assert answer.json()["errors"][0]["pointer"] == pointer


def test_there_is_an_end_to_tags(console: Console) -> None:
    audit = console.finished()
    assert put(console, audit, *(f"t{n}" for n in range(MAX_TAGS))).status_code == 200
    assert put(console, audit, "one-more").status_code == 422
    assert put(console, audit, "one-more", remove=("t0",)).status_code == 200


def test_another_projects_things_are_neither_tagged_nor_found(console: Console) -> None:
    foreign = add_audit(console.services.database)
    assert put(console, foreign, "mine").status_code == 404
    assert console.client.get(f"/v1/tags/{foreign}").status_code == 404
    with console.services.database.write() as session:
        project = session.get_one(AuditRow, foreign).project_id
        session.add(TagRow(subject_id=foreign, tag="theirs", project_id=project))
    assert found(console, tag="theirs") == []
    assert foreign not in found(console)
    for subject in ("pol_1", "key_1", "mdl_none"):
        assert put(console, subject, "x").status_code == 404


def test_name_digest_and_verdict_find_what_has_them(console: Console) -> None:
    one = console.finished(model={"name": "Digits_v2"})
    other = console.finished(model={"name": "letters"}, dataset_of=one)
    with console.services.database.write() as session:
        audit = session.get_one(AuditRow, one)
        model = session.get_one(ModelRow, audit.model_id)
        audit.verdict, model.digest = "failed", "sha256:" + "ab" * 32
        model_id = model.id
    assert found(console, name="digits") == [one]
    # An underscore is a letter, not any letter.
    assert found(console, name="s_v") == [one]
    assert found(console, name="l_t") == []
    assert found(console, of="models", name="DIGITS") == [model_id]
    for digest in ("ab" * 4, "sha256:" + "ab" * 32):
        assert found(console, digest=digest) == [one]
        assert found(console, of="models", digest=digest) == [model_id]
    assert found(console, digest="cd" * 6) == []
    assert one in found(console, verdict="failed")
    assert other not in found(console, verdict="failed")
    assert found(console, name="digits", verdict="passed") == []


def test_a_number_is_found_by_its_value_and_told_with_its_interval(console: Console) -> None:
    low = console.finished(over=0.1, under=1.0)
    high = console.finished(over=0.0, under=2.0, model={"version": "next"}, dataset_of=low)
    values = {
        one["id"]: one["estimate"]["value"] for one in ask(console, metric=MUS).json()["items"] if one["estimate"]
    }
    assert values.keys() == {low, high}
    least, most = sorted(values.values())
    between = (least + most) / 2
    assert found(console, metric=MUS, at_least=between) == [max(values, key=lambda key: values[key])]
    assert found(console, metric=MUS, at_most=between) == [min(values, key=lambda key: values[key])]
    assert set(found(console, metric=MUS, at_least=least, at_most=most)) == {low, high}
    assert found(console, metric=MUS, at_least=most + 1) == []
    assert ask(console, metric=MUS, at_least=between).json()["items"][0]["estimate"]["low"] is not None


@pytest.mark.parametrize(
    ("query", "pointer"),
    [
        ({"of": "models", "verdict": "passed"}, "/verdict"),
        ({"of": "datasets", "metric": MUS}, "/metric"),
        ({"metric": "uncertainty_span.nonsense"}, "/metric"),
        ({"metric": "uncertainty_span.ece[arm=*]"}, "/metric"),
        ({"metric": 'uncertainty_span.ece[arm=a"b]'}, "/metric"),
        ({"at_least": "1"}, "/metric"),
        ({"metric": MUS, "at_least": "2", "at_most": "1"}, "/at_least"),
        ({"metric": MUS, "at_least": "nan"}, "/at_least"),
        ({"digest": "abc"}, "/digest"),
        ({"tag": "a b"}, "/tag/0"),
        ({"name": "%"}, "/name"),
        ({"query": "x"}, "/query"),
    ],
)
def test_what_cannot_be_asked_is_told_where(console: Console, query: dict[str, str], pointer: str) -> None:
    answer = ask(console, **query)
    assert answer.status_code == 422, answer.text
    assert answer.json()["errors"][0]["pointer"] == pointer


def test_pages_go_through_everything_once(console: Console) -> None:
    audits = [console.finished()]
    audits += [console.finished(model={"version": f"v{n}"}, dataset_of=audits[0]) for n in range(4)]
    for audit in audits:
        put(console, audit, "paged")
    seen, cursor = [], None
    for _ in range(4):
        body = ask(console, tag="paged", limit=2, **({"cursor": cursor} if cursor else {})).json()
        seen += [one["id"] for one in body["items"]]
        cursor = body["next"]
        if cursor is None:
            break
    assert seen == sorted(audits, reverse=True)


NAMES = st.sampled_from(["alpha", "beta", "alphabet"])
THINGS = st.tuples(NAMES, st.sets(st.sampled_from("xyz"), max_size=3), st.sampled_from([None, 0.1, 0.5, 0.9]))


@pytest.mark.slow
@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(
    things=st.lists(THINGS, min_size=1, max_size=5),
    name=st.sampled_from([None, "alpha", "BET", "z"]),
    tags=st.sets(st.sampled_from("xyz"), max_size=2),
    ends=st.sampled_from([None, (None, None), (0.2, None), (None, 0.5), (0.5, 0.5)]),
)
def test_it_finds_what_looking_at_each_finds(
    database: Database,
    things: list[tuple[str, set[str], float | None]],
    name: str | None,
    tags: set[str],
    ends: tuple[float | None, float | None] | None,
) -> None:
    project = add_project(database)
    wanted = []
    for given_name, given_tags, value in things:
        audit = add_audit(database, project_id=project)
        with database.write() as session:
            row = session.get_one(AuditRow, audit)
            session.get_one(ModelRow, row.model_id).name = given_name + new_id("n")
            check = session.query(CheckRow).filter_by(audit_id=audit).one()
            check.kind, check.result = "uncertainty_span", {"estimates": {ECE: {"value": value, "n": 1}}}
            repository.add_tags(session, project, audit, given_tags)
        lowest, highest = ends or (None, None)
        is_in_range = ends is None or (
            value is not None and (lowest is None or value >= lowest) and (highest is None or value <= highest)
        )
        # The rest of a name is made at random, of hexadecimal digits and underscores.
        is_named = name is None or name.lower() in given_name
        if is_named and tags <= given_tags and is_in_range:
            wanted.append(audit)
    metric = None if ends is None else MetricRange("uncertainty_span", ECE, *ends)
    asked = Asked(name=name, tags=sorted(tags), metric=metric)
    with database.read() as session:
        rows = repository.search_audits(session, project, asked, before=None, limit=100)
        numbers = {} if metric is None else repository.list_numbers(session, metric, wanted)
    assert [row.id for row in rows] == sorted(wanted, reverse=True)
    assert set(numbers) == (set() if metric is None else set(wanted))


def test_a_metric_is_named_as_results_name_it() -> None:
    told = metric_range("low_level_attack.score[level=0.50,attacker=visual]", None, None)
    assert told is not None
    assert told.name == "score[attacker=visual,level=0.5]"
    with pytest.raises(InvalidRequestError):
        metric_range("low_level_attack.score[attacker=visual]", None, None)


def test_the_console_finds_and_tags(console: Console) -> None:
    audit = console.finished(model={"name": "findme"})
    page = console.get("/search?name=findme").text
    assert audit in page
    moved = console.post(f"/tags/{audit}", **{"add": "prod candidate", "remove": "", "q-name": "findme"})
    assert (moved.status_code, moved.headers["location"]) == (303, "/search?name=findme")
    assert {"prod", "candidate"} <= set(words(console.get("/search?tag=prod")).split())
    assert "Nothing matches" in console.get("/search?tag=nowhere").text
    for query in (
        "digest=xyz",
        "metric=nonsense",
        "at_least=1",
        f"metric={MUS}&at_least=much",
        "of=models&verdict=passed",
    ):
        assert 'role="alert"' in console.get(f"/search?{query}").text


def test_nothing_said_in_the_search_acts(console: Console) -> None:
    page = console.get("/search?name=%3Cscript%3Ealert(1)%3C/script%3E&tag=%22onfocus=x")
    assert "<script>alert" not in page.text
    assert "onfocus" not in {name for attributes in elements(page) for name in attributes}


def test_who_may_only_read_changes_no_tags(locked: Console) -> None:
    secret = locked.key("read")
    answer = locked.client.post("/v1/tags/aud_1", json={"add": ["x"]}, headers={"Authorization": f"Bearer {secret}"})
    assert answer.status_code == 403
