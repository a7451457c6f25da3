"""Of an audit that stopped when it was decided, every output says at how many examples, and what each look spent."""

import json
from typing import Any

import pytest

from seatrial.contracts.estimates import Looks
from seatrial.contracts.policies import RuleOutcome
from seatrial.statistics.looks import look_sizes, spending
from tests.reports import fabricated
from tests.reports.conftest import OneAudit
from tests.reports.fabricated_judgements import judged, outcome

SIZES = look_sizes(400)
LOOKS = Looks(sizes=SIZES, alphas=spending(len(SIZES)), ended=2)
TOLD = "Decided after 60 of 400 examples, at look 2 of 5"
SPENT = "may spend 0.625%, 0.625%, 0.625%, 0.625% and 2.5%"


def looked_at(**more: Any) -> RuleOutcome:
    return outcome("failed", looks=LOOKS.model_dump(), **more)


@pytest.mark.parametrize("format", ["html", "markdown", "junit", "sarif", "json"])
def test_every_output_tells_the_look_and_what_was_spent(one_audit: OneAudit, format: str) -> None:
    one_audit.store(judged("failed", looked_at()))
    one_audit.change(check={"result": fabricated.result() | {"looks": LOOKS.model_dump()}})
    answer = one_audit.get(format=format)
    assert answer.status_code == 200
    if format == "json":
        assert answer.json()["checks"][0]["looks"] == LOOKS.model_dump()
    elif format == "sarif":
        (run,) = answer.json()["runs"]
        assert run["properties"]["looks"] == [{"kind": "uncertainty_span", **LOOKS.model_dump(), "text": TOLD}]
        assert run["results"][0]["properties"]["looks"] == LOOKS.model_dump()
    else:
        told = answer.text.replace("\\", "")
        assert TOLD in told
        assert SPENT in told


def test_of_a_whole_audit_nothing_is_said(one_audit: OneAudit) -> None:
    one_audit.store(judged("failed", outcome("failed")))
    one_audit.change(check={"result": fabricated.result()})
    report = one_audit.get(format="json").json()
    assert "looks" not in report["checks"][0]
    assert "looks" not in report["judgement"]["rules"][0]
    assert all(TOLD[:13] not in one_audit.get(format=one).text for one in ("html", "markdown", "junit"))
    assert '"looks"' not in json.dumps(one_audit.get(format="sarif").json())
