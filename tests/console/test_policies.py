"""Policies as people read them, and the form that adds one."""

import json

import yaml

from app.console.policy_choice import about_checks
from app.console.service import policy_names
from app.policies.service import shipped_policies
from seatrial.store.tables import PolicyRow
from tests.console.conftest import Console, words
from tests.console.test_uploads import wrong

RELEASE = {
    "name": "release",
    "description": "What must hold.",
    "rules": [
        {"metric": "uncertainty_span.clean_accuracy", "min": 0.9, "label": "accurate enough"},
        {"metric": "uncertainty_span.mus", "max": 1.0, "severity": "warn"},
    ],
}


def test_shipped_policies_are_listed_and_shown_rule_by_rule(console: Console) -> None:
    listed = words(console.get("/policies"))
    for policy in shipped_policies():
        assert policy.document["description"] in listed
        page = console.get(f"/policies/{policy.name}")
        told = words(page)
        assert "shipped with Seatrial" in told
        assert "cannot pass where the check was run" in told
        assert "is left out" in told
        for rule in policy.document["rules"]:
            assert rule["metric"] in told


def test_yaml_and_json_are_the_same_policy(console: Console) -> None:
    for text in (json.dumps(RELEASE), yaml.safe_dump(RELEASE).replace("\n", "\r\n")):
        assert console.post("/policies", document=text).headers["location"] == "/policies/release@1"
    with console.services.database.read() as session:
        assert session.query(PolicyRow).count() == 1
    told = words(console.get("/policies/release@1"))
    for expected in ("accurate enough", "at least 0.9", "at most 1", "blocks", "warns only", "What must hold."):
        assert expected in told


def test_versions_lead_to_each_other(console: Console) -> None:
    console.post("/policies", document=json.dumps(RELEASE))
    changed = {**RELEASE, "description": "Something else."}
    assert console.post("/policies", document=json.dumps(changed)).headers["location"] == "/policies/release@2"
    page = console.get("/policies/release@1")
    assert "/policies/release@2" in page.text
    assert "release, version 2" in words(console.get("/policies"))
    assert "Something else." in words(console.get("/policies/release"))


def test_what_is_wrong_is_told_and_the_text_stays(console: Console) -> None:
    for text, reason in (
        ("name: [", "line"),
        ("a: &a 1\nb: *a", "aliases"),
        (json.dumps({**RELEASE, "rules": []}), "rules"),
        (json.dumps({**RELEASE, "name": "standard"}), "standard"),
        (json.dumps({**RELEASE, "rules": [{"metric": "uncertainty_span.nonsense", "max": 1}]}), "nonsense"),
        ("", ""),
    ):
        page = console.post("/policies", document=text)
        assert page.status_code >= 400, text
        assert reason in wrong(page)["document"], text
    assert "line" in wrong(console.post("/policies", document="name: ["))["document"]
    with console.services.database.read() as session:
        assert session.query(PolicyRow).count() == 0


def test_a_policy_that_is_not_there_is_told(console: Console) -> None:
    assert console.get("/policies/nonsense").status_code == 404
    assert console.get("/policies/release@9").status_code == 404


def test_a_policy_of_rules_this_version_does_not_know_is_still_shown(console: Console) -> None:
    console.post("/policies", document=json.dumps(RELEASE))
    with console.services.database.write() as session:
        row = session.query(PolicyRow).one()
        row.document = {**row.document, "rules": [{"metric": "gone.metric", "max": 1.0}]}
    told = words(console.get("/policies/release"))
    assert "gone.metric" in told
    assert "not known to this version" in told


def test_one_that_is_stored_with_every_commit_hides_no_other(console: Console) -> None:
    for document in ({**RELEASE, "name": "rare", "checks": [{"kind": "uncertainty_span"}]}, RELEASE):
        console.post("/policies", document=json.dumps(document))
    with console.services.database.write() as session:
        row = session.query(PolicyRow).filter_by(name="release").one()
        project = row.project_id
        for version in range(2, 302):
            own = {"id": f"pol_f{version:09d}", "version": version, "digest": f"sha256:{version}"}
            session.add(PolicyRow(name="release", project_id=project, document=row.document, **own))
    with console.services.database.read() as session:
        names = policy_names(session, project)
        assert names == [*(one.name for one in shipped_policies()), "rare", "release"]
        assert [name for name in about_checks(session, project, "") if name in ("rare", "release")] == ["rare"]
