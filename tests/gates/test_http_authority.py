"""What a key of a pipeline may not decide: by what it is judged, and with what it is compared."""

from typing import Any

import httpx
import pytest

from tests.conftest import key_for
from tests.gates.over_http import FAILS, PASSES, end, policy, read, submitted
from tests.uploads import upload_both
from tests.web.test_problems import assert_problem

Keys = dict[str, dict[str, str]]


@pytest.fixture
def keys(keyed: httpx.Client) -> Keys:
    """Headers of a key of each scope; the client asks with that of a pipeline by default."""
    made = {scope: key_for(keyed, scope) for scope in ("run", "admin")}
    keyed.headers.update(made["run"])
    return made


def judged(client: httpx.Client, pair: tuple[str, str], by: dict[str, Any] | str | None) -> str:
    """Return an audit that has succeeded, and been judged if by anything."""
    audit = submitted(client, pair, **({} if by is None else {"policy": by}))
    end(client.app.state.services, audit)  # type: ignore[attr-defined]
    read(client, audit)
    return audit


def promoted(client: httpx.Client, audit: str, key: dict[str, str] | None = None) -> httpx.Response:
    return client.post("/v1/baselines", json={"audit": audit}, headers=key)


def test_a_further_version_of_a_policy_takes_an_admin(keyed: httpx.Client, keys: Keys) -> None:
    strict, lax = policy(max=0.5), policy(max=5.0)
    assert keyed.post("/v1/policies", json=strict).status_code == 201
    assert keyed.post("/v1/policies", json=strict).status_code == 200
    problem = assert_problem(keyed.post("/v1/policies", json=lax), 403)
    assert "scope admin" in problem.detail
    assert keyed.get("/v1/policies/release").json()["version"] == 1
    assert keyed.post("/v1/policies", json=policy("mine", max=5.0)).status_code == 201
    assert keyed.post("/v1/policies", json=lax, headers=keys["admin"]).json()["version"] == 2


def test_a_pipeline_promotes_what_passed_and_an_admin_what_succeeded(keyed: httpx.Client, keys: Keys) -> None:
    pair = upload_both(keyed)
    for by, told in ((FAILS, "is failed"), (None, "has no verdict of its own")):
        audit = judged(keyed, pair, by)
        assert told in assert_problem(promoted(keyed, audit), 403).detail
        assert keyed.get("/v1/baselines").json()["items"] == []
    assert promoted(keyed, judged(keyed, pair, PASSES)).status_code == 201
    assert promoted(keyed, judged(keyed, pair, FAILS), keys["admin"]).status_code == 201


def test_a_pipeline_replaces_a_baseline_by_what_passed_its_policy(keyed: httpx.Client, keys: Keys) -> None:
    pair = upload_both(keyed)
    assert promoted(keyed, judged(keyed, pair, PASSES)).status_code == 201
    weaker = judged(keyed, pair, policy(max=5.0))
    assert "another document of that name" in assert_problem(promoted(keyed, weaker), 403).detail
    other = judged(keyed, pair, policy("mine", max=5.0))
    assert "was judged by release" in assert_problem(promoted(keyed, other), 403).detail
    again = judged(keyed, pair, PASSES)
    assert promoted(keyed, again).json()["is_current"]
    # Of a stored policy every version will do: a pipeline adds none.
    for bound in (0.6, 0.55):
        keyed.post("/v1/policies", json=policy("kept", max=bound), headers=keys["admin"])
        audit = judged(keyed, pair, "kept")
        assert promoted(keyed, audit, keys["admin" if bound == 0.6 else "run"]).status_code == 201, bound


def test_a_pipeline_replaces_no_baseline_that_nothing_judged(keyed: httpx.Client, keys: Keys) -> None:
    pair = upload_both(keyed)
    assert promoted(keyed, judged(keyed, pair, None), keys["admin"]).status_code == 201
    assert "judged by none" in assert_problem(promoted(keyed, judged(keyed, pair, PASSES)), 403).detail


def test_an_audit_that_is_not_there_is_told_as_to_everybody(keyed: httpx.Client, keys: Keys) -> None:
    problems = [assert_problem(promoted(keyed, "aud_1", key), 422) for key in keys.values()]
    assert len({problem.detail for problem in problems}) == 1
