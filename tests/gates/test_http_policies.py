"""Policies over HTTP: versions that never change, found by any of their names, in JSON and in YAML."""

import json
from typing import Any

import httpx
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from app.policies.documents import MAX_YAML_BYTES, YamlError, yaml_to_json
from app.policies.presets import RESERVED
from seatrial.contracts.policies import PolicyRead
from tests.conftest import key_for
from tests.gates.over_http import ended, policy
from tests.web.test_problems import assert_problem

YAML = {"Content-Type": "application/yaml"}


def store(client: httpx.Client, body: dict[str, Any]) -> dict[str, Any]:
    answer = client.post("/v1/policies", json=body)
    assert answer.status_code == 201, answer.text
    return dict(answer.json())


def test_a_policy_is_found_by_id_by_name_and_by_version(client: httpx.Client) -> None:
    first, second = store(client, policy()), store(client, policy(max=0.5))
    assert (first["version"], second["version"]) == (1, 2)
    for reference, wanted in (
        (first["id"], first),
        ("release@1", first),
        ("release", second),
        ("release@2", second),
        (second["id"], second),
    ):
        assert client.get(f"/v1/policies/{reference}").json() == wanted
    for absent in ("other", "release@3", "release@", "release@01", "pol_" + "0" * 32, "@1"):
        assert_problem(client.get(f"/v1/policies/{absent}"), 404)


def test_what_is_stored_has_its_defaults_and_says_where_it_is(client: httpx.Client) -> None:
    answer = client.post("/v1/policies", json=policy())
    told = PolicyRead.model_validate(answer.json())
    assert answer.headers["location"] == f"/v1/policies/{told.id}"
    assert told.document["baseline"] == "champion"
    assert told.document["rules"][0]["required"] is True
    assert client.get(answer.headers["location"]).json() == answer.json()


@pytest.mark.slow
def test_the_newest_document_again_is_no_new_version(client: httpx.Client) -> None:
    first = client.post("/v1/policies", json=policy())
    again = client.post("/v1/policies", json=dict(reversed(policy(severity="block").items())))
    assert (again.status_code, again.json()) == (200, first.json())
    assert again.headers["location"] == first.headers["location"]


def test_an_older_document_again_is_what_the_name_means_from_then_on(client: httpx.Client) -> None:
    first = store(client, policy())
    store(client, policy(max=0.5))
    third = store(client, policy())
    assert (third["version"], third["digest"]) == (3, first["digest"])
    assert client.get("/v1/policies/release").json() == third


@pytest.mark.parametrize("name", [*sorted(RESERVED), "pol_mine"])
def test_names_that_mean_something_else_are_refused(client: httpx.Client, name: str) -> None:
    problem = assert_problem(client.post("/v1/policies", json=policy(name)), 422, "reserved-name")
    assert problem.errors
    assert problem.errors[0].pointer == "/name"


def test_nobody_is_judged_by_a_policy_of_their_own_under_a_shipped_name(client: httpx.Client) -> None:
    audit = ended(client)
    answer = client.post(f"/v1/audits/{audit}/judge", json={"policy": policy("strict")})
    assert assert_problem(answer, 422).code == "reserved-name"
    shipped = client.get("/v1/policies/strict").json()["document"]
    answer = client.post(f"/v1/audits/{audit}/judge", json={"policy": shipped})
    assert answer.json()["policy"]["name"] == "strict"


def test_shipped_policies_are_read_like_others(client: httpx.Client) -> None:
    page = client.get("/v1/policies", params={"shipped": True}).json()
    assert [one["name"] for one in page["items"]] == ["lenient", "standard", "strict"]
    for one in page["items"]:
        assert client.get(f"/v1/policies/{one['name']}").json() == one
        assert one["created_at"] is None
    assert client.get("/v1/policies").json()["items"] == []


def test_lists_are_pages_of_all_versions(client: httpx.Client) -> None:
    versions = [store(client, policy(max=0.1 * n)) for n in range(1, 4)]
    other = store(client, policy("other"))
    seen, path = [], "/v1/policies?limit=2"
    while path:
        answer = client.get(path)
        seen += answer.json()["items"]
        path = answer.links.get("next", {}).get("url")
    assert seen == [other, *reversed(versions)]
    assert client.get("/v1/policies?name=other").json() == {"items": [other], "next": None}


@pytest.mark.parametrize(
    ("change", "pointer"),
    [
        ({"rules": [*policy()["rules"], *policy()["rules"], {"metric": "nothing.there", "max": 1}]}, "/rules/2/metric"),
        ({"rules": [{"metric": "uncertainty_span.mus", "max": "0.5"}]}, "/rules/0/max"),
        ({"rules": [{"metric": "uncertainty_span.mus"}]}, "/rules/0"),
        ({"rules": [{"metric": "uncertainty_span.mus", "max": 1, "maximum": 1}]}, "/rules/0/maximum"),
        ({"rules": []}, "/rules"),
        ({"name": "A B"}, "/name"),
        ({"checks": [{"kind": "nothing"}]}, "/checks/0/kind"),
    ],
    ids=["metric", "number", "bound", "unknown", "none", "name", "checks"],
)
def test_a_mistake_is_pointed_at_in_json_and_in_yaml(
    client: httpx.Client, change: dict[str, Any], pointer: str
) -> None:
    body = policy() | change
    for answer in (
        client.post("/v1/policies", json=body),
        client.post("/v1/policies", content=yaml.safe_dump(body), headers=YAML),
    ):
        problem = assert_problem(answer, 422, "invalid-request")
        assert problem.errors
        assert [(one.part, one.pointer) for one in problem.errors] == [("body", pointer)]


def test_what_is_run_is_told_where_it_belongs(client: httpx.Client) -> None:
    answer = client.post("/v1/policies", json=policy() | {"stop": "decided", "seed": 1, "extra": 1})
    problem = assert_problem(answer, 422, "invalid-request")
    told = {one.pointer: one.detail for one in problem.errors or ()}
    for name in ("stop", "seed"):
        assert f"How they are run ({name}) is told in POST /v1/audits" in told[f"/{name}"]
    assert "POST /v1/audits" not in told["/extra"]


def test_another_kind_of_body_is_told_of_both_that_are_read(client: httpx.Client) -> None:
    answer = client.post("/v1/policies", content=b"name: a", headers={"Content-Type": "text/plain"})
    problem = assert_problem(answer, 415, "unsupported-media-type")
    assert problem.detail == "Send Content-Type: application/json or application/yaml, not text/plain."


def test_yaml_and_json_say_the_same(client: httpx.Client) -> None:
    text = b"""
    name: release   # a comment
    rules:
      - {metric: uncertainty_span.mus, max: 6e-1}
    """
    stored = store(client, policy())
    answer = client.post("/v1/policies", content=text, headers=YAML)
    assert (answer.status_code, answer.json()) == (200, stored)


@pytest.mark.slow
@pytest.mark.parametrize(
    "text",
    [
        b"name: a\nname: b",
        b"a: &x [1]\nb: *x",
        b"&a [*a]",
        b"!!python/object/apply:os.system [true]",
        b"!mine {a: 1}",
        b"--- 1\n--- 2",
        b"{1: 2}",
        b"{a: 1",
        b"\xff\xfe",
        b"a: !!int x",
        b"a: !!float nan",
        b"a: !!map x",
        b"a: " + b"9" * 5000,
        b"[" * 100,
        b"a: \x00",
    ],
    ids=[
        *("twice", "alias", "itself", "python", "tag", "documents", "key", "open", "bytes", "int", "nan", "map"),
        *("digits", "depth", "nul"),
    ],
)
def test_yaml_that_is_more_than_json_is_refused(client: httpx.Client, text: bytes) -> None:
    assert_problem(client.post("/v1/policies", content=text, headers=YAML), 400, "malformed-body")


def test_a_refusal_of_yaml_tells_the_line() -> None:
    with pytest.raises(YamlError, match="line 3, column 1: the key 'name' is there twice"):
        yaml_to_json(b"name: a\nrules: []\nname: b\n")


def test_aliases_that_would_fill_the_memory_are_refused_before_they_do() -> None:
    laughs = b"a0: &a0 [x]\n" + b"".join(
        b"a%d: &a%d [%s]\n" % (n, n, b",".join([b"*a%d" % (n - 1)] * 9)) for n in range(1, 9)
    )
    with pytest.raises(YamlError, match="aliases"):
        yaml_to_json(laughs)


def test_a_large_yaml_is_refused_unread(client: httpx.Client) -> None:
    with pytest.raises(YamlError, match="bytes"):
        yaml_to_json(b"#" * (MAX_YAML_BYTES + 1))
    assert_problem(client.post("/v1/policies", content=b"#" * 30_000, headers=YAML), 413)


JSON_VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats(allow_nan=False, allow_infinity=False)
    # YAML has no DEL, and half of a pair is no character.
    | st.text(st.characters(exclude_characters="\x7f", exclude_categories=["Cs"]), max_size=20),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text("abc \"'#:-?&*!|>%@0", max_size=8), inner, max_size=4)
    ),
    max_leaves=12,
)


@given(JSON_VALUES)
def test_json_read_as_yaml_is_the_same(value: Any) -> None:
    assert json.loads(yaml_to_json(json.dumps(value).encode())) == value


@pytest.mark.parametrize(
    ("scalar", "value"),
    [
        ("no", "no"),
        ("yes", "yes"),
        ("on", "on"),
        ("1e-3", 0.001),
        ("1_000", "1_000"),
        ("010", 10),
        ("0x1f", "0x1f"),
        ("1:30", "1:30"),
        ("2026-11-21", "2026-11-21"),
        (".5", 0.5),
        ("5.", 5.0),
        ("+1", 1),
        (".inf", ".inf"),
        ("~", None),
        ("", None),
        ("True", True),
        ("=", "="),
        ("<<", "<<"),
    ],
)
def test_scalars_are_those_of_yaml_1_2(scalar: str, value: Any) -> None:
    assert json.loads(yaml_to_json(f"a: {scalar}".encode())) == {"a": value}


def test_another_kind_of_body_is_refused(client: httpx.Client) -> None:
    assert_problem(client.post("/v1/policies", content=b"name = 1", headers={"Content-Type": "application/toml"}), 415)


def test_policies_belong_to_a_project(keyed: httpx.Client) -> None:
    ours, theirs = key_for(keyed, project="ours"), key_for(keyed, project="theirs")
    stored = keyed.post("/v1/policies", json=policy(), headers=ours).json()
    for reference in (stored["id"], "release", "release@1"):
        assert keyed.get(f"/v1/policies/{reference}", headers=ours).status_code == 200
        assert_problem(keyed.get(f"/v1/policies/{reference}", headers=theirs), 404)
    assert keyed.get("/v1/policies", headers=theirs).json()["items"] == []
    assert keyed.post("/v1/policies", json=policy(max=0.1), headers=theirs).json()["version"] == 1


def test_readers_store_nothing(keyed: httpx.Client) -> None:
    reader = key_for(keyed, "read")
    assert_problem(keyed.post("/v1/policies", json=policy(), headers=reader), 403)
    assert keyed.get("/v1/policies", headers=reader).status_code == 200


def test_what_is_required_is_one_of_three_and_a_slip_is_one_error(client: httpx.Client) -> None:
    rule = {"metric": "uncertainty_span.mus", "max": 0.3}
    for required in (True, False, "if_run"):
        answer = client.post("/v1/policies", json={"name": "release", "rules": [{**rule, "required": required}]})
        assert answer.json()["document"]["rules"][0]["required"] == required
    answer = client.post("/v1/policies", json={"name": "release", "rules": [{**rule, "required": "if_runs"}]})
    problem = assert_problem(answer, 422)
    assert [(one.pointer, "'if_run'" in one.detail) for one in problem.errors or []] == [("/rules/0/required", True)]
