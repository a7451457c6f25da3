"""Where records were taken over, every output says whose; where they were not, none says anything."""

import pytest

from tests.reports import fabricated
from tests.reports.conftest import OneAudit
from tests.reports.fabricated_judgements import judged, outcome

REUSED = {"audit": "aud_earlier", "check": "chk_earlier", "measured_at": "2026-11-24T10:00:00Z"}
TOLD = "its records are those of audit aud_earlier (check chk_earlier), measured until 2026-11-24 10:00 UTC"


@pytest.mark.parametrize("format", ["html", "markdown", "junit", "sarif", "json"])
def test_every_output_names_the_audit_that_measured(one_audit: OneAudit, format: str) -> None:
    one_audit.store(judged("failed", outcome("failed")))
    one_audit.change(check={"result": fabricated.result(), "reused": None})
    assert "reused" not in one_audit.get(format=format).text
    one_audit.change(check={"result": fabricated.result(), "reused": REUSED})
    answer = one_audit.get(format=format)
    assert answer.status_code == 200
    if format == "json":
        assert answer.json()["checks"][0]["reused"] == REUSED
    elif format == "sarif":
        (told,) = answer.json()["runs"][0]["properties"]["reused"]
        assert told["audit"] == "aud_earlier"
        assert told["text"].endswith(TOLD)
    else:
        assert TOLD in answer.text.replace("\\", "")
    one_audit.change(check={"reused": None})
