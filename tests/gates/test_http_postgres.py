"""The gate on Postgres, where writers really meet."""

from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from sqlalchemy import func, select

from app.gates.service import judge_ended
from app.main import create_app
from app.web.services import Services
from seatrial.store.settings import Settings
from seatrial.store.tables import EventRow, JudgementRow
from tests.conftest import BASE_URL, TestClient
from tests.databases import new_migrated_database
from tests.gates.over_http import end, ended, policy, submitted
from tests.servers import eventually
from tests.uploads import upload_both
from tests.web.test_postgres import at_once
from tests.web.test_problems import assert_problem


@pytest.fixture
def on_postgres(postgres_url: str, tmp_path: Path) -> Iterator[TestClient]:
    """A client of the keyless API on Postgres."""
    with new_migrated_database(postgres_url) as url:
        app = create_app(Settings(home=tmp_path, database_url=url, require_keys=False))
        with TestClient(app, base_url=BASE_URL, raise_server_exceptions=False) as client:
            yield client


def test_a_gate_goes_through_all_its_routes(on_postgres: httpx.Client) -> None:
    files = upload_both(on_postgres)
    assert on_postgres.post("/v1/policies", json=policy(max_regression=0.1)).status_code == 201
    first = ended(on_postgres, files)
    assert on_postgres.post("/v1/baselines", json={"audit": first}).json()["is_current"] is True
    second = submitted(on_postgres, files, policy="release")
    end(on_postgres.app.state.services, second)  # type: ignore[attr-defined]
    eventually(lambda: on_postgres.get(f"/v1/audits/{second}").json()["verdict"] == "passed")
    own = on_postgres.get(f"/v1/audits/{second}").json()["judgement"]
    assert own["baseline"] == first
    again = on_postgres.post(f"/v1/audits/{second}/judge", json={"policy": policy(max=0.1), "baseline": first})
    assert (again.status_code, again.json()["verdict"]) == (200, "failed")
    assert on_postgres.get(f"/v1/audits/{second}/judgements").json()["items"] == [again.json(), own]
    for path in ("policies", "policies/release@1", "policies?shipped=true", "baselines", "audits?verdict=passed"):
        assert on_postgres.get(f"/v1/{path}").status_code == 200
    assert on_postgres.get(f"/v1/audits/{second}/events").text.count("event: verdict") == 1


def test_several_processes_at_once_judge_once(on_postgres: httpx.Client) -> None:
    services: Services = on_postgres.app.state.services  # type: ignore[attr-defined]
    files = upload_both(on_postgres)
    audits = [ended(on_postgres, files, policy=policy()) for _ in range(4)]
    at_once(*[lambda: judge_ended(services)] * 6)
    with services.database.read() as session:
        assert session.scalar(select(func.count()).select_from(JudgementRow)) == len(audits)
        told = session.scalars(select(EventRow.audit_id).where(EventRow.kind == "verdict")).all()
    assert sorted(told) == sorted(audits)


def test_policies_stored_at_once_are_versions_of_their_own(on_postgres: httpx.Client) -> None:
    on_postgres.get("/v1/policies")
    answers: list[httpx.Response] = []

    def post(bound: float) -> None:
        answers.append(on_postgres.post("/v1/policies", json=policy(max=bound)))

    at_once(*[lambda bound=bound: post(bound) for bound in (0.1, 0.2, 0.3, 0.4, 0.5, 0.6)])
    assert {answer.status_code for answer in answers} == {201}
    assert sorted(answer.json()["version"] for answer in answers) == [1, 2, 3, 4, 5, 6]


@pytest.mark.parametrize("text", ["a\0b", "\U0001f600", "é"], ids=["nul", "astral", "accent"])
def test_no_text_is_too_odd(on_postgres: httpx.Client, text: str) -> None:
    audit = ended(on_postgres)
    described = on_postgres.post("/v1/policies", json=policy() | {"description": text})
    assert described.status_code == 201
    assert on_postgres.get("/v1/policies/release").json()["document"]["description"] == text
    noted = on_postgres.post("/v1/baselines", json={"audit": audit, "note": text})
    assert noted.status_code == (422 if "\0" in text else 201)
    judged = on_postgres.post(f"/v1/audits/{audit}/judge", json={"policy": policy(label=text)})
    assert judged.json()["rules"][0]["label"] == text
    assert_problem(on_postgres.post(f"/v1/audits/{audit}/judge", json={"policy": text}), 422)
    assert on_postgres.get("/v1/baselines", params={"model": text}).status_code in (200, 422)
    assert on_postgres.get("/v1/policies", params={"name": text}).status_code in (200, 422)
