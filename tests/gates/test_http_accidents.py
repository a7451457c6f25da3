"""What may happen while an audit is judged: others at work, kills, broken rows, an absent database."""

import threading
from typing import Any

import httpx
import pytest
from sqlalchemy import func, select
from sqlalchemy.exc import OperationalError

from app.gates import service
from app.gates.service import judge_ended
from app.web.services import Services
from seatrial.contracts.audits import AuditRead
from seatrial.contracts.policies import Judgement
from seatrial.contracts.states import RunState
from seatrial.store.tables import AuditRow, EventRow, JudgementRow
from tests.gates.over_http import PASSES, end, ended, finish, read, submitted
from tests.uploads import upload_both

pytestmark = pytest.mark.usefixtures("nothing_periodic")


def test_two_at_once_judge_once(client: httpx.Client, services: Services) -> None:
    pair = upload_both(client)
    audits = [ended(client, pair, policy=PASSES) for _ in range(3)]
    barrier, counts = threading.Barrier(4), []

    def look() -> None:
        barrier.wait()
        counts.append(judge_ended(services))

    threads = [threading.Thread(target=look) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    with services.database.read() as session:
        assert session.scalar(select(func.count()).select_from(JudgementRow)) == len(audits)
        told = session.scalars(select(EventRow.audit_id).where(EventRow.kind == "verdict")).all()
    assert sorted(told) == sorted(audits)
    assert sum(counts) == len(audits)


def test_a_process_killed_in_between_leaves_nothing_half_done(
    client: httpx.Client, services: Services, monkeypatch: pytest.MonkeyPatch
) -> None:
    class KilledError(BaseException):
        pass

    def killed(*_: Any) -> None:
        raise KilledError

    audit = ended(client, policy=PASSES)
    with monkeypatch.context() as patch:
        patch.setattr(service, "announce", killed)
        with pytest.raises(KilledError):
            judge_ended(services)
    told = client.get(f"/v1/audits/{audit}").json()
    assert (told["verdict"], told["judgement"]) == (None, None)
    with services.database.read() as session:
        assert session.scalar(select(func.count()).select_from(JudgementRow)) == 0
        assert "verdict" not in session.scalars(select(EventRow.kind)).all()
    assert judge_ended(services) == 1
    assert read(client, audit)["verdict"] == "passed"


@pytest.mark.parametrize(
    ("kept", "told"),
    [
        ({"document": {"name": "old", "rules": [{"metric": "no.such", "max": 1}]}}, "/rules/0/metric"),
        ({"document": None}, "object"),
        ({"source": {"odd": 1}}, "Internal error"),
        ({"source": None, "document": None}, "Internal error"),
    ],
    ids=["rules", "nothing", "source", "all"],
)
def test_a_stored_policy_that_is_broken_is_an_errored_verdict(
    client: httpx.Client, services: Services, kept: dict[str, Any], told: str
) -> None:
    pair = upload_both(client)
    audit = ended(client, pair, policy=PASSES)
    good = ended(client, pair, policy=PASSES)
    with services.database.write() as session:
        row = session.get_one(AuditRow, audit)
        row.policy = {**(row.policy or {}), **kept}
    assert judge_ended(services) == 2
    assert judge_ended(services) == 0
    judged = client.get(f"/v1/audits/{audit}").json()
    assert judged["verdict"] == "errored"
    assert told in judged["judgement"]["headline"]
    assert AuditRead.model_validate(judged).model_dump(mode="json") == judged
    assert client.get(f"/v1/audits/{good}").json()["verdict"] == "passed"


def test_a_mistake_of_ours_is_an_errored_verdict(
    client: httpx.Client, services: Services, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: Any, **__: Any) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr(service, "judge", broken)
    audit = ended(client, policy=PASSES)
    assert judge_ended(services) == 1
    told = client.get(f"/v1/audits/{audit}").json()
    assert (told["verdict"], told["judgement"]["rules"]) == ("errored", [])
    assert "ZeroDivisionError" in told["judgement"]["headline"]


def test_a_database_that_is_away_costs_no_verdict(
    client: httpx.Client, services: Services, monkeypatch: pytest.MonkeyPatch
) -> None:
    def away(*_: Any, **__: Any) -> None:
        raise OperationalError("SELECT 1", {}, Exception("gone"))

    audit = ended(client, policy=PASSES)
    with monkeypatch.context() as patch:
        patch.setattr(service, "read_measured", away)
        with pytest.raises(OperationalError):
            judge_ended(services)
    assert read(client, audit)["verdict"] == "passed"


def test_what_cannot_be_stored_does_not_keep_others_waiting(
    client: httpx.Client, services: Services, monkeypatch: pytest.MonkeyPatch
) -> None:
    pair = upload_both(client)
    first, second = (ended(client, pair, policy=PASSES) for _ in range(2))
    real = service.announce

    def picky(session: Any, audit_id: str, *told: Any) -> None:
        if audit_id == first:
            raise ZeroDivisionError
        real(session, audit_id, *told)

    monkeypatch.setattr(service, "announce", picky)
    with pytest.raises(ZeroDivisionError):
        judge_ended(services)
    assert [client.get(f"/v1/audits/{one}").json()["verdict"] for one in (first, second)] == [None, "passed"]


def test_an_audit_that_went_on_meanwhile_is_not_given_an_old_verdict(
    client: httpx.Client, services: Services, monkeypatch: pytest.MonkeyPatch
) -> None:
    audit = submitted(client, policy=PASSES)
    end(services, audit, state=RunState.FAILED)
    real = service.judge

    def slow(*case: Any, **more: Any) -> Judgement:
        client.post(f"/v1/audits/{audit}/retry")
        return real(*case, **more)

    with monkeypatch.context() as patch:
        patch.setattr(service, "judge", slow)
        assert judge_ended(services) == 0
    assert client.get(f"/v1/audits/{audit}").json()["verdict"] is None
    finish(services)
    assert read(client, audit)["verdict"] == "passed"


def test_an_audit_that_went_on_and_ended_meanwhile_is_not_given_an_old_verdict(
    client: httpx.Client, services: Services, monkeypatch: pytest.MonkeyPatch
) -> None:
    audit = submitted(client, policy=PASSES)
    end(services, audit, state=RunState.FAILED)
    real = service.judge

    def slow(*case: Any, **more: Any) -> Judgement:
        client.post(f"/v1/audits/{audit}/retry")
        finish(services)
        return real(*case, **more)

    with monkeypatch.context() as patch:
        patch.setattr(service, "judge", slow)
        assert judge_ended(services) == 0
    assert client.get(f"/v1/audits/{audit}").json()["verdict"] is None
    assert read(client, audit)["verdict"] == "passed"
