"""A badge says what the newest verdict is, and is green for a pass alone."""

from xml.etree import ElementTree

import pytest

from seatrial.store.tables import AuditRow, ModelRow
from tests.reports.conftest import Reports

GREEN = "#116b3c"
RULES = [{"metric": "uncertainty_span.mus_worst", "max": 0.5}]


@pytest.mark.parametrize("verdict", ["passed", "failed", "inconclusive", "errored", None])
def test_a_badge_is_green_for_a_pass_and_for_nothing_else(reports: Reports, verdict: str | None) -> None:
    audit = reports.finished()
    source = {"name": "<strict>", "id": None, "version": None, "digest": "d"}
    with reports.database.write() as session:
        row = session.get_one(AuditRow, audit)
        row.verdict, row.policy = verdict, {"source": source, "document": {}}
        name = session.get_one(ModelRow, row.model_id).name
    answer = reports.client.get(f"/v1/badges/{name}")
    assert answer.status_code == 200, answer.text
    assert answer.headers["content-type"].startswith("image/svg+xml")
    said = "".join(ElementTree.fromstring(answer.text).itertext())
    assert (f"{verdict} (<strict>, unstored)" if verdict else "no verdict") in said
    assert (GREEN in answer.text) == (verdict == "passed")
    other = reports.client.get(f"/v1/badges/{name}", params={"policy": "standard"})
    assert other.status_code == 200
    assert GREEN not in other.text


def test_a_file_that_calls_itself_as_a_stored_policy_colours_no_badge_of_that(reports: Reports) -> None:
    audit = reports.finished()
    reports.own(audit)
    stored = reports.client.post("/v1/policies", json={"name": "release", "rules": RULES}).json()
    with reports.database.write() as session:
        row = session.get_one(AuditRow, audit)
        name = session.get_one(ModelRow, row.model_id).name

    def told(of: str | None, **source: str | int | None) -> str:
        with reports.database.write() as session:
            row = session.get_one(AuditRow, audit)
            said = {"name": "release", "id": None, "version": None, "digest": "d", **source}
            row.verdict, row.policy = "passed", {"source": said, "document": {}}
        answer = reports.client.get(f"/v1/badges/{name}", params={} if of is None else {"policy": of})
        assert answer.status_code == 200, answer.text
        return answer.text

    assert GREEN not in told("release")
    assert "(release, unstored)" in told(None)
    by_version = {"id": stored["id"], "version": 1, "digest": stored["digest"]}
    for of in ("release", "release@1", stored["id"]):
        assert "passed (release)" in told(of, **by_version)
        # A file that is the stored one is judged alike.
        assert GREEN in told(of, digest=stored["digest"])
    newer = [{"metric": "uncertainty_span.mus_worst", "max": 0.1}]
    assert reports.client.post("/v1/policies", json={"name": "release", "rules": newer}).status_code == 201
    assert GREEN in told("release", **by_version)
    assert GREEN in told("release@1", **by_version)
    assert GREEN not in told("release@2", **by_version)


def test_a_policy_that_is_not_there_is_told_and_not_drawn(reports: Reports) -> None:
    audit = reports.finished()
    with reports.database.write() as session:
        row = session.get_one(AuditRow, audit)
        source = {"name": "release", "id": None, "version": None, "digest": "d"}
        row.verdict, row.policy = "passed", {"source": source, "document": {}}
        name = session.get_one(ModelRow, row.model_id).name
    answer = reports.client.get(f"/v1/badges/{name}", params={"policy": "relase"})
    assert answer.status_code == 404
    assert "did you mean 'release'?" in answer.json()["detail"]
    assert "(release, unstored)" in reports.client.get(f"/v1/badges/{name}", params={"policy": "release"}).text


def test_a_model_of_another_project_is_not_there(reports: Reports) -> None:
    mine, hidden = reports.finished(), reports.finished()
    reports.own(mine)
    with reports.database.write() as session:
        theirs = session.get_one(ModelRow, session.get_one(AuditRow, hidden).model_id)
        theirs.name = "hidden"
    assert reports.client.get("/v1/badges/hidden").status_code == 404
    assert reports.client.get("/v1/badges/nowhere").json()["title"] == "Not found"
