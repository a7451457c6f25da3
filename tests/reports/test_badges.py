"""A badge says what the newest verdict is, and is green for a pass alone."""

from xml.etree import ElementTree

import pytest

from seatrial.store.tables import AuditRow, ModelRow
from tests.reports.conftest import Reports

GREEN = "#116b3c"


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
    assert (f"{verdict} (<strict>)" if verdict else "no verdict") in said
    assert (GREEN in answer.text) == (verdict == "passed")
    other = reports.client.get(f"/v1/badges/{name}", params={"policy": "another"})
    assert GREEN not in other.text


def test_a_model_of_another_project_is_not_there(reports: Reports) -> None:
    mine, hidden = reports.finished(), reports.finished()
    reports.own(mine)
    with reports.database.write() as session:
        theirs = session.get_one(ModelRow, session.get_one(AuditRow, hidden).model_id)
        theirs.name = "hidden"
    assert reports.client.get("/v1/badges/hidden").status_code == 404
    assert reports.client.get("/v1/badges/nowhere").json()["title"] == "Not found"
