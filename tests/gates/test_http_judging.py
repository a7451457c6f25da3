"""Judging over HTTP: under an audit's own policy when it ends, and under any other afterwards."""

import itertools
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import httpx
import pytest
from sqlalchemy import event, select, update

from app.audits import events
from app.gates.service import judge_ended, judgement_of
from app.web.periodic import Hurry
from app.web.services import Services
from seatrial.contracts.audits import AuditRead
from seatrial.contracts.policies import Judgement
from seatrial.contracts.states import RunState
from seatrial.store.tables import DeliveryRow, JudgementRow, ModelRow
from tests.audits.acting import make_ready
from tests.audits.test_events import parse
from tests.conftest import key_for
from tests.gates.over_http import FAILS, OPEN, PASSES, end, ended, finish, policy, read, submitted
from tests.uploads import model_manifest, submission, upload, upload_both, weights
from tests.web.test_problems import assert_problem

pytestmark = pytest.mark.usefixtures("nothing_periodic")


def pointers(answer: httpx.Response, status: int = 422) -> list[str]:
    return [one.pointer for one in assert_problem(answer, status).errors or ()]


def judge(client: httpx.Client, audit: str, **body: Any) -> httpx.Response:
    return client.post(f"/v1/audits/{audit}/judge", json=body)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("asked", "verdict"),
    [
        (PASSES, "passed"),
        (FAILS, "failed"),
        (OPEN, "inconclusive"),
        (policy(metric="uncertainty_span.mus_worst"), "errored"),
    ],
    ids=["passes", "fails", "open", "absent"],
)
def test_an_audit_with_a_policy_ends_with_its_verdict(
    client: httpx.Client, asked: dict[str, Any], verdict: str
) -> None:
    audit = ended(client, policy=asked)
    told = read(client, audit)
    assert told["verdict"] == told["judgement"]["verdict"] == verdict
    assert told["judgement"]["audit"] == audit
    assert AuditRead.model_validate(told).model_dump(mode="json") == told
    assert [one["id"] for one in client.get(f"/v1/audits?verdict={verdict}").json()["items"]] == [audit]


def test_only_verdicts_are_looked_for(client: httpx.Client) -> None:
    problem = assert_problem(client.get("/v1/audits?verdict=pass"), 422)
    assert [(one.part, one.pointer) for one in problem.errors or ()] == [("query", "/verdict")]


def test_without_a_policy_there_is_no_verdict(client: httpx.Client, services: Services) -> None:
    told = read(client, ended(client))
    assert (told["state"], told["verdict"], told["judgement"]) == ("succeeded", None, None)
    with services.database.read() as session:
        assert judgement_of(session, told["id"]) is None


def test_a_policy_may_be_named_in_every_way(client: httpx.Client) -> None:
    pair = upload_both(client)
    stored = client.post("/v1/policies", json=PASSES).json()
    for reference in (stored["id"], "release", "release@1"):
        told = read(client, ended(client, pair, policy=reference))["judgement"]
        assert told["verdict"] == "passed"
        assert told["policy"] == {key: stored[key] for key in ("id", "name", "version", "digest")}
    shipped = read(client, ended(client, pair, policy="lenient"))["judgement"]["policy"]
    assert (shipped["id"], shipped["name"], shipped["version"]) == (None, "lenient", None)


def test_a_policy_is_kept_as_it_was_when_the_audit_was_submitted(client: httpx.Client) -> None:
    client.post("/v1/policies", json=PASSES)
    audit = submitted(client, policy="release")
    client.post("/v1/policies", json=FAILS)
    end(client.app.state.services, audit)  # type: ignore[attr-defined]
    assert read(client, audit)["verdict"] == "passed"


def test_a_policy_is_no_part_of_what_identifies_the_numbers(client: httpx.Client) -> None:
    pair = upload_both(client)
    client.post("/v1/policies", json=PASSES)
    digests = {
        client.post("/v1/audits", json=submission(*pair, **more)).json()["spec_digest"]
        for more in ({}, {"policy": "release"}, {"policy": FAILS, "baseline": "champion"}, {"policy": "strict"})
    }
    assert len(digests) == 1


@pytest.mark.parametrize(
    ("change", "pointer"),
    [
        ({"policy": "nowhere"}, "/policy"),
        ({"policy": "pol_" + "0" * 32}, "/policy"),
        ({"policy": "a\0b"}, "/policy"),
        ({"policy": 5}, "/policy"),
        ({"policy": {"name": "x", "rules": [{"metric": "no.such", "max": 1}]}}, "/policy/rules/0/metric"),
        ({"policy": "strict", "baseline": "aud_nowhere"}, "/baseline"),
        ({"policy": "strict", "baseline": "aud_a\0b"}, "/baseline"),
        ({"policy": "strict", "baseline": "Not A Name"}, "/baseline"),
        ({"policy": "strict", "baseline": ""}, "/baseline"),
        ({"baseline": "champion"}, "/baseline"),
    ],
    ids=["name", "id", "nul", "number", "rule", "audit", "audit-nul", "odd", "empty", "alone"],
)
def test_what_is_not_there_is_pointed_at(client: httpx.Client, change: dict[str, Any], pointer: str) -> None:
    pair = upload_both(client)
    for path in ("/v1/audits", "/v1/audits/estimate"):
        assert pointers(client.post(path, json=submission(*pair, **change))) == [pointer]


def test_only_a_succeeded_audit_of_the_same_task_is_compared_with(client: httpx.Client) -> None:
    pair = upload_both(client)
    waits = submitted(client, pair)
    body = submission(*pair, policy="strict", baseline=waits)
    assert pointers(client.post("/v1/audits", json=body)) == ["/baseline"]
    end(client.app.state.services, waits)  # type: ignore[attr-defined]
    assert client.post("/v1/audits", json=body).status_code == 202
    other = upload(client, "models", model_manifest(name="other"), weights()).json()["id"]
    with client.app.state.services.database.write() as session:  # type: ignore[attr-defined]
        session.execute(update(ModelRow).where(ModelRow.id == pair[0]).values(task="text-classification"))
    body = submission(other, pair[1], policy="strict", baseline=waits)
    assert pointers(client.post("/v1/audits", json=body)) == ["/baseline"]


def test_a_name_that_nobody_has_given_yet_is_no_mistake_at_submission(client: httpx.Client) -> None:
    pair = upload_both(client)
    asked = policy(max_regression=0.1)
    first = read(client, ended(client, pair, policy=asked, baseline="champion"))
    assert first["verdict"] == "errored"
    asked["rules"].append(policy()["rules"][0])
    asked["rules"][0]["required"] = False
    assert read(client, ended(client, pair, policy=asked, baseline="champion"))["verdict"] == "passed"


def test_an_audit_is_judged_again_by_any_policy_and_keeps_its_own_verdict(client: httpx.Client) -> None:
    audit = ended(client, policy=PASSES)
    own = read(client, audit)["judgement"]
    answers = [judge(client, audit, policy=asked) for asked in (FAILS, "strict", OPEN)]
    assert [answer.status_code for answer in answers] == [200] * 3
    told = [Judgement.model_validate(answer.json()).model_dump(mode="json") for answer in answers]
    assert [one["verdict"] for one in told][::2] == ["failed", "inconclusive"]
    listed = client.get(f"/v1/audits/{audit}/judgements").json()["items"]
    assert listed == [*reversed(told), own]
    assert read(client, audit)["judgement"] == own


def test_judgements_are_listed_in_pages(client: httpx.Client) -> None:
    audit = ended(client)
    ids = [judge(client, audit, policy=PASSES).json()["id"] for _ in range(3)]
    seen, path = [], f"/v1/audits/{audit}/judgements?limit=2"
    while path:
        answer = client.get(path)
        seen += [one["id"] for one in answer.json()["items"]]
        path = answer.links.get("next", {}).get("url")
    assert seen == ids[::-1]
    assert_problem(client.get("/v1/audits/aud_x/judgements"), 404)


def test_a_running_audit_cannot_be_judged(client: httpx.Client) -> None:
    audit = submitted(client)
    assert_problem(judge(client, audit, policy=PASSES), 409, "conflict")
    assert_problem(judge(client, "aud_x", policy=PASSES), 404)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("change", "pointer"),
    [
        ({"policy": "nowhere"}, "/policy"),
        ({}, "/policy"),
        ({"policy": PASSES, "baseline": "aud_nowhere"}, "/baseline"),
        ({"policy": PASSES, "baseline": "nobody-has"}, "/baseline"),
        ({"policy": PASSES, "extra": 1}, "/extra"),
    ],
    ids=["policy", "none", "audit", "name", "extra"],
)
def test_a_judge_is_told_what_is_not_there(client: httpx.Client, change: dict[str, Any], pointer: str) -> None:
    assert pointers(judge(client, ended(client), **change)) == [pointer]


@pytest.mark.parametrize("state", [RunState.FAILED, RunState.CANCELLED])
def test_what_did_not_run_never_passes(client: httpx.Client, services: Services, state: RunState) -> None:
    audit = submitted(client, policy=PASSES)
    if state == RunState.FAILED:
        end(services, audit, state=state)
    else:
        client.post(f"/v1/audits/{audit}/cancel")
    told = read(client, audit)
    assert (told["state"], told["verdict"]) == (state, "errored")
    assert judge(client, audit, policy=FAILS).json()["rules"][0]["outcome"] == "errored"


def test_a_retried_audit_is_judged_anew(client: httpx.Client, services: Services) -> None:
    audit = submitted(client, policy=PASSES)
    end(services, audit, state=RunState.FAILED)
    assert read(client, audit)["verdict"] == "errored"
    again = client.post(f"/v1/audits/{audit}/retry").json()
    assert (again["state"], again["verdict"], again["judgement"]) == ("running", None, None)
    assert judge_ended(services) == 0
    finish(services)
    assert read(client, audit)["verdict"] == "passed"
    listed = client.get(f"/v1/audits/{audit}/judgements").json()["items"]
    assert [one["verdict"] for one in listed] == ["passed", "errored"]


def test_after_a_retry_the_earlier_verdict_is_told_by_none_whichever_clock_was_ahead(
    client: httpx.Client, services: Services
) -> None:
    audit = submitted(client, policy=PASSES)
    end(services, audit, state=RunState.FAILED)
    early = read(client, audit)["judgement"]["id"]
    client.post(f"/v1/audits/{audit}/retry")
    with services.database.write() as session:
        # Made by a process whose clock is ahead.
        session.execute(update(JudgementRow).where(JudgementRow.id == early).values(id=f"jdg_{'f' * 32}"))
    finish(services)
    told = read(client, audit)
    assert (told["verdict"], told["judgement"]["verdict"]) == ("passed", "passed")
    report = client.get(f"/v1/audits/{audit}/report?format=json").json()
    assert (report["verdict"], report["judgement"]["verdict"]) == ("passed", "passed")


def test_the_stream_of_an_audit_with_a_policy_ends_with_the_verdict(
    client: httpx.Client, services: Services, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(events, "POLL_S", 0.02)
    audit = submitted(client, policy=PASSES)

    def run() -> None:
        end(services, audit)
        looks = itertools.count()
        monkeypatch.setattr(events, "read_events", lambda *asked: looked(next(looks), *asked))

    def looked(number: int, *asked: Any) -> events.Look:
        # The stream has seen the end, and waits.
        if number == 3:
            assert judge_ended(services) == 1
        return read_events(*asked)

    read_events = events.read_events
    timer = threading.Timer(0.2, run)
    timer.start()
    told = parse(client.get(f"/v1/audits/{audit}/events").text)
    timer.join()
    assert [kind for _, kind, _ in told][-2:] == ["audit", "verdict"]
    assert told[-1][2] == {"verdict": "passed", "judgement": read(client, audit)["judgement"]["id"]}
    assert parse(client.get(f"/v1/audits/{audit}/events?after={told[-1][0]}").text) == []


@contextmanager
def counted(services: Services) -> Iterator[list[str]]:
    statements: list[str] = []

    def note(*arguments: Any) -> None:
        if arguments[2].startswith("SELECT"):
            statements.append(arguments[2])

    event.listen(services.database.engine, "before_cursor_execute", note)
    yield statements
    event.remove(services.database.engine, "before_cursor_execute", note)


def test_a_verdict_costs_a_reader_one_query_and_none_without_a_policy(client: httpx.Client, services: Services) -> None:
    pair = upload_both(client)
    asked = {}
    for name, more in (("plain", {}), ("gated", {"policy": PASSES})):
        audit = ended(client, pair, **more)
        judge_ended(services)
        with counted(services) as statements:
            client.get(f"/v1/audits/{audit}")
        asked[name] = len(statements)
    assert asked["gated"] == asked["plain"] + 1


@pytest.mark.slow
def test_webhooks_are_told_of_the_verdict_once(client: httpx.Client, services: Services) -> None:
    hook = {"url": "https://ci.example.com/hook", "events": ["audit.judged"]}
    assert client.post("/v1/webhooks", json=hook).status_code == 201
    audit = ended(client, policy=FAILS)
    assert (judge_ended(services), judge_ended(services)) == (1, 0)
    with services.database.read() as session:
        told = session.scalars(select(DeliveryRow.payload)).one()
    assert told["type"] == "audit.judged"
    assert (told["data"]["audit"], told["data"]["verdict"]) == (audit, "failed")


def test_judging_is_for_the_project_s_own(keyed: httpx.Client, monkeypatch: pytest.MonkeyPatch) -> None:
    ours, theirs = key_for(keyed, project="ours"), key_for(keyed, project="theirs")
    keyed.post("/v1/policies", json=PASSES, headers=theirs)
    pair = upload_both(keyed, headers=ours)
    body = submission(*pair, policy="release")
    assert pointers(keyed.post("/v1/audits", json=body, headers=ours)) == ["/policy"]
    audit = keyed.post("/v1/audits", json=submission(*pair), headers=ours).json()["id"]
    make_ready(keyed.app.state.services)  # type: ignore[attr-defined]
    end(keyed.app.state.services, audit)  # type: ignore[attr-defined]
    path = f"/v1/audits/{audit}"
    assert_problem(keyed.post(f"{path}/judge", json={"policy": "strict"}, headers=theirs), 404)
    assert_problem(keyed.get(f"{path}/judgements", headers=theirs), 404)
    assert pointers(keyed.post(f"{path}/judge", json={"policy": "release"}, headers=ours)) == ["/policy"]
    assert_problem(keyed.post(f"{path}/judge", json={"policy": "strict"}, headers=key_for(keyed, "read", "ours")), 403)
    other = upload_both(keyed, headers=theirs)
    body = submission(*other, policy="strict", baseline=audit)
    assert pointers(keyed.post("/v1/audits", json=body, headers=theirs)) == ["/baseline"]


def test_a_policy_that_names_more_numbers_than_anybody_reads_is_refused(
    client: httpx.Client, services: Services, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two hundred rules with a ``*`` over the numbers of sixteen checks would be a verdict of hundreds of megabytes."""
    monkeypatch.setattr("seatrial.judging.verdict.MOST_NUMBERS", 3)
    named = {"metric": "uncertainty_span.accuracy[arm=*]", "min": 0.1}
    wide = {"name": "wide", "rules": [{**named, "min": 0.1 + bound / 10} for bound in range(2)]}
    audit = submitted(client, policy=wide)
    number = {"value": 0.5, "low": 0.4, "high": 0.6, "n": 400, "method": "gaffke"}
    estimates = {f"accuracy[arm={arm}]": number for arm in ("over", "under")}
    end(services, audit, {"estimates": estimates, "series": {}, "flags": [], "counts": {"n": 400}})
    refused = client.post(f"/v1/audits/{audit}/judge", json={"policy": wide})
    assert pointers(refused) == ["/policy"]
    assert "more than 3 numbers" in refused.json()["detail"]
    judge_ended(services)
    told = client.get(f"/v1/audits/{audit}").json()
    assert (told["verdict"], told["judgement"]["rules"]) == ("errored", [])
    assert "more than 3 numbers" in told["judgement"]["headline"]
    narrow = {"name": "narrow", "rules": [named]}
    assert client.post(f"/v1/audits/{audit}/judge", json={"policy": narrow}).json()["verdict"] == "passed"


def test_reading_an_audit_that_waits_for_its_verdict_hurries_the_one_who_judges(
    client: httpx.Client, services: Services
) -> None:
    hurried = services.of(Hurry).is_asked
    pair = upload_both(client)
    ungated = ended(client, pair)
    gated = submitted(client, pair, policy=PASSES)
    for audit in (ungated, gated):
        client.get(f"/v1/audits/{audit}")
        assert not hurried.is_set()
    end(services, gated)
    client.get(f"/v1/audits/{gated}")
    assert hurried.is_set()
    hurried.clear()
    assert read(client, gated)["verdict"] == "passed"
    assert not hurried.is_set()
