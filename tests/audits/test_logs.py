"""The request that asked for an audit can be followed from the API's log to the audit and, by it, to the workers'."""

import io
import json
import logging

import httpx
import pytest
from sqlalchemy import select

from app.web.services import Services
from seatrial.logs import json_formatter
from seatrial.store.tables import AuditRow
from tests.audits.acting import submit
from tests.uploads import submission


def test_a_request_is_named_by_the_line_and_kept_with_the_audit(
    client: httpx.Client, pair: tuple[str, str], services: Services, monkeypatch: pytest.MonkeyPatch
) -> None:
    stream = io.StringIO()
    handler, logger = logging.StreamHandler(stream), logging.getLogger("app.audits")
    handler.setFormatter(json_formatter())
    monkeypatch.setattr(logger, "handlers", [handler])
    monkeypatch.setattr(logger, "level", logging.INFO)
    logger.manager._clear_cache()  # type: ignore[attr-defined]
    answer = client.post("/v1/audits", json=submission(*pair), headers={"X-Request-ID": "ci-42"})
    again = submit(client, pair)
    first, second = (json.loads(line) for line in stream.getvalue().splitlines())
    assert (first["event"], first["audit_id"], first["request_id"]) == ("audit is queued", answer.json()["id"], "ci-42")
    assert second["audit_id"] == again
    assert second["request_id"] != "ci-42"
    with services.database.read() as session:
        kept = dict(session.execute(select(AuditRow.id, AuditRow.request_id)).all())
        projects = set(session.scalars(select(AuditRow.project_id)))
    assert kept[first["audit_id"]] == "ci-42"
    assert kept[again] == second["request_id"]
    assert {first["project_id"], second["project_id"]} == projects
