"""Baselines over HTTP: audits promoted under a name, and which of them an audit is compared with."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import httpx
import pyarrow as pa
import pytest

from app.gates.stored import pair
from app.policies import repository
from app.web.periodic import PeriodicRunner
from app.web.services import Services
from seatrial.contracts.policies import BaselineRead
from seatrial.store.tables import AuditRow
from tests.audits.acting import make_ready
from tests.conftest import key_for
from tests.gates.over_http import end, ended, estimate, policy, result, submitted
from tests.uploads import model_manifest, submission, upload, upload_both, weights
from tests.web.test_problems import assert_problem

WORSE_BY = policy(max_regression=0.2)
GOOD, BAD = result(mus=estimate(0.3, 0.28, 0.32)), result(mus=estimate(0.9, 0.88, 0.92))


@pytest.fixture(autouse=True)
def _no_periodic_work(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let nothing be judged but by the test itself."""
    monkeypatch.setattr(PeriodicRunner, "start", lambda self: None)


def promote(client: httpx.Client, audit: str, **more: Any) -> dict[str, Any]:
    answer = client.post("/v1/baselines", json={"audit": audit, **more})
    assert answer.status_code == 201, answer.text
    told = BaselineRead.model_validate(answer.json()).model_dump(mode="json")
    assert told == answer.json()
    return told


def judged(client: httpx.Client, audit: str, **more: Any) -> tuple[str, str | None]:
    """Return the verdict of the regression policy and the audit it compared with."""
    answer = client.post(f"/v1/audits/{audit}/judge", json={"policy": WORSE_BY, **more})
    assert answer.status_code == 200, answer.text
    return answer.json()["verdict"], answer.json()["baseline"]


def test_the_newest_of_a_model_and_a_name_is_in_force(client: httpx.Client) -> None:
    first, second = (ended(client, upload_both(client)) for _ in range(2))
    one, two = promote(client, first, note="v1"), promote(client, second)
    other = promote(client, first, name="challenger")
    assert (one["model"], one["name"], one["note"], one["is_current"]) == ("parity", "champion", "v1", True)
    assert client.get("/v1/baselines").json()["items"] == [other, two, one | {"is_current": False}]
    again = promote(client, first)
    current = [one["id"] for one in client.get("/v1/baselines").json()["items"] if one["is_current"]]
    assert current == [again["id"], other["id"]]


def test_promoting_what_is_in_force_again_changes_nothing(client: httpx.Client) -> None:
    audit = ended(client, upload_both(client))
    first = promote(client, audit, note="v1")
    assert promote(client, audit, note="v1") == first
    assert len(client.get("/v1/baselines").json()["items"]) == 1
    noted = promote(client, audit, note="v2")
    assert (noted["id"] != first["id"], noted["note"]) == (True, "v2")


@pytest.mark.slow
def test_lists_are_filtered_by_model_and_name_and_come_in_pages(client: httpx.Client) -> None:
    first, dataset = upload_both(client)
    second = upload(client, "models", model_manifest(name="other"), weights()).json()["id"]
    audits = [ended(client, (model, dataset)) for model in (first, second)]
    stored = [promote(client, audit, name=name) for audit in audits for name in ("champion", "release")]

    def ids(query: str) -> list[str]:
        seen, path = [], f"/v1/baselines?limit=1&{query}"
        while path:
            answer = client.get(path)
            seen += [one["id"] for one in answer.json()["items"]]
            path = answer.links.get("next", {}).get("url")
        return seen

    newest_first = [one["id"] for one in stored][::-1]
    assert ids("") == newest_first
    assert ids("model=other") == newest_first[:2]
    assert ids("name=champion") == newest_first[1::2]
    assert ids("model=parity&name=release") == [newest_first[2]]
    assert ids("model=nobody") == []


@pytest.mark.parametrize(
    ("change", "pointer"),
    [
        ({"audit": "aud_nowhere"}, "/audit"),
        ({"audit": "mdl_x"}, "/audit"),
        ({"name": "aud_x"}, "/name"),
        ({"name": "Champion"}, "/name"),
        ({"note": "a\0b"}, "/note"),
        ({"more": 1}, "/more"),
    ],
    ids=["audit", "kind", "id", "name", "note", "more"],
)
def test_what_cannot_be_promoted_is_pointed_at(client: httpx.Client, change: dict[str, Any], pointer: str) -> None:
    body = {"audit": ended(client), **change}
    problem = assert_problem(client.post("/v1/baselines", json=body), 422)
    assert [one.pointer for one in problem.errors or ()] == [pointer]


def test_only_a_succeeded_audit_is_promoted(client: httpx.Client) -> None:
    waits = submitted(client)
    problem = assert_problem(client.post("/v1/baselines", json={"audit": waits}), 422, "unfit-baseline")
    assert problem.errors
    assert problem.errors[0].pointer == "/audit"


def test_an_audit_goes_before_a_name_and_a_name_before_the_policy_s(client: httpx.Client) -> None:
    files = upload_both(client)
    bad, good, newest = ended(client, files, BAD), ended(client, files, GOOD), ended(client, files, BAD)
    assert judged(client, newest) == ("errored", None)
    promote(client, good)
    promote(client, bad, name="worst")
    assert judged(client, newest) == ("failed", good)
    assert judged(client, newest, baseline="worst") == ("passed", bad)
    assert judged(client, newest, baseline=good) == ("failed", good)
    answer = client.post(f"/v1/audits/{newest}/judge", json={"policy": WORSE_BY | {"baseline": "worst"}})
    assert answer.json()["baseline"] == bad


def test_a_name_that_is_no_baseline_yet_is_told_when_an_audit_is_submitted(client: httpx.Client) -> None:
    pair = upload_both(client)
    audit = ended(client, pair)
    promote(client, audit, name="champion")
    for named, told in (
        ("champoin", ["Model parity has no baseline 'champoin': did you mean 'champion'? It has champion. What is"]),
        ("champion", []),
        (None, []),
    ):
        body = submission(*pair, policy=WORSE_BY) | ({"baseline": named} if named else {})
        answers = [client.post(f"/v1/audits{path}", json=body) for path in ("/estimate", "")]
        assert [answer.status_code for answer in answers] == [200, 202]
        for answer in answers:
            assert [note[: len(told[0])] for note in answer.json()["notes"]] == told, named
    refused = client.post(f"/v1/audits/{audit}/judge", json={"policy": WORSE_BY, "baseline": "champoin"})
    assert "did you mean 'champion'?" in assert_problem(refused, 422, "unfit-baseline").detail


def test_an_audit_is_no_baseline_of_itself(client: httpx.Client) -> None:
    files = upload_both(client)
    before, after = ended(client, files, GOOD), ended(client, files, BAD)
    body = {"policy": WORSE_BY, "baseline": after}
    problem = assert_problem(client.post(f"/v1/audits/{after}/judge", json=body), 422, "unfit-baseline")
    assert [one.pointer for one in problem.errors or ()] == ["/baseline"]
    promote(client, after)
    assert judged(client, after) == ("errored", None)
    promote(client, before)
    promote(client, after)
    # Promoted, it is still told what it was compared with before.
    assert judged(client, after) == ("failed", before)


def test_a_policy_without_regressions_looks_at_no_baseline(client: httpx.Client) -> None:
    files = upload_both(client)
    promote(client, ended(client, files))
    answer = client.post(f"/v1/audits/{ended(client, files)}/judge", json={"policy": policy()})
    assert (answer.json()["verdict"], answer.json()["baseline"]) == ("passed", None)


def test_baselines_belong_to_a_project(keyed: httpx.Client) -> None:
    ours, theirs = (key_for(keyed, "admin", name) for name in ("ours", "theirs"))
    files = upload_both(keyed, headers=ours)
    audit = keyed.post("/v1/audits", json=submission(*files), headers=ours).json()["id"]
    make_ready(keyed.app.state.services)  # type: ignore[attr-defined]
    end(keyed.app.state.services, audit)  # type: ignore[attr-defined]
    assert_problem(keyed.post("/v1/baselines", json={"audit": audit}, headers=theirs), 422)
    assert_problem(keyed.post("/v1/baselines", json={"audit": audit}, headers=key_for(keyed, "read", "ours")), 403)
    assert keyed.post("/v1/baselines", json={"audit": audit}, headers=ours).status_code == 201
    assert keyed.get("/v1/baselines", headers=theirs).json()["items"] == []


def test_another_project_s_champion_of_the_same_name_is_no_baseline(keyed: httpx.Client) -> None:
    services: Services = keyed.app.state.services  # type: ignore[attr-defined]
    audits = {}
    for project in ("ours", "theirs"):
        key = key_for(keyed, "admin", project)
        files = upload_both(keyed, headers=key)
        audits[project] = key, keyed.post("/v1/audits", json=submission(*files), headers=key).json()["id"]
        make_ready(services)
        end(services, audits[project][1], GOOD)
    key, theirs = audits["theirs"]
    assert keyed.post("/v1/baselines", json={"audit": theirs}, headers=key).status_code == 201
    key, ours = audits["ours"]
    found = keyed.post(f"/v1/audits/{ours}/judge", json={"policy": WORSE_BY}, headers=key).json()
    assert (found["verdict"], found["baseline"]) == ("errored", None)
    assert found["rules"][0]["outcome"] == "skipped"


def rows(services: Services, *audits: str) -> list[Any]:
    with services.database.read() as session:
        projects = [session.get_one(AuditRow, audit).project_id for audit in audits]
        return [repository.find_audit(session, *of) for of in zip(projects, audits, strict=True)]


def test_records_are_read_when_they_are_asked_for(client: httpx.Client, services: Services) -> None:
    files = upload_both(client)
    table = pa.table({"example_id": list(range(20)), "span": [0.1 * n for n in range(20)]})
    first, second = submitted(client, files), submitted(client, files)
    end(services, first, records=table)
    end(services, second, records=table)
    paired = pair(services, *rows(services, first, second))
    assert paired.is_same_dataset
    assert paired.read(first, 0, "attack").equals(table)
    assert paired.read(first, 0, "attack") is paired.read(first, 0, "attack")
    assert paired.read(first, 1, "attack") is None
    assert paired.read(first, 0, "elsewhere") is None


@pytest.mark.parametrize(
    ("manifest", "is_same"),
    [
        ({"name": "reviews", "version": "2", "split": "validation"}, True),
        ({"columns": {"text": "title"}}, False),
        ({"labels": ["good", "bad"]}, False),
    ],
    ids=["another name", "another column", "another order of the classes"],
)
def test_the_same_bytes_read_in_another_way_are_other_data(
    services: Services, manifest: dict[str, Any], is_same: bool
) -> None:
    told = {"name": "reviews", "version": "1", "columns": {"text": "review"}, "labels": ["bad", "good"]}
    one, other = (
        SimpleNamespace(id=name, dataset_digest="sha256:0", dataset_manifest=told | change)
        for name, change in (("aud_1", {}), ("aud_2", manifest))
    )
    assert pair(services, one, other).is_same_dataset is is_same  # type: ignore[arg-type]


def test_bytes_that_are_gone_cost_the_pairs_and_not_the_verdict(client: httpx.Client, services: Services) -> None:
    files = upload_both(client)
    first, second = ended(client, files, GOOD), ended(client, files, GOOD)
    for path in Path(services.settings.resolved_artifacts_url).rglob("*"):
        if path.is_file():
            path.unlink()
    assert pair(services, *rows(services, first, second)).read(first, 0, "attack") is None
    assert judged(client, second, baseline=first) == ("passed", first)


def test_bytes_that_are_broken_cost_no_more(client: httpx.Client, services: Services) -> None:
    files = upload_both(client)
    first, second = ended(client, files, GOOD), ended(client, files, GOOD)
    for path in Path(services.settings.resolved_artifacts_url).rglob("*"):
        if path.is_file():
            path.write_bytes(b"not a table")
    assert pair(services, *rows(services, first, second)).read(first, 0, "attack") is None
    assert judged(client, second, baseline=first) == ("passed", first)
