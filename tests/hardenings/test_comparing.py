"""What both versions are compared in, in which order, and how the command line tells where a hardening is."""

from datetime import UTC, datetime
from typing import Any

import pytest

from app.cli.hardenings import print_hardening
from app.hardenings.comparing import compare_versions
from seatrial.contracts.estimates import Estimate
from seatrial.contracts.hardenings import HardeningRead, HardeningResult, PairedDifference
from seatrial.store.tables import AuditRow, CheckRow
from tests.console.conftest import Console, console, keyless_service

__all__ = ["console", "keyless_service"]

NOW = datetime.now(UTC).isoformat()


def difference(metric: str, before: float, after: float) -> PairedDifference:
    was, now = (Estimate(value=value, low=None, high=None, n=20, method="none") for value in (before, after))
    worse = Estimate(value=before - after, low=None, high=None, n=20, method="none")
    return PairedDifference(metric=metric, better="higher", before=was, after=now, worse_by=worse)


def test_what_shipped_policies_judge_comes_first(console: Console) -> None:
    first = console.finished(over=0.05, under=1.9)
    audits = [first, console.finished(model={"version": "hardened"}, dataset_of=first, over=0.1, under=1.2)]
    with console.services.database.write() as session:
        project = session.get_one(AuditRow, first).project_id
        for audit in audits:
            row = session.query(CheckRow).filter_by(audit_id=audit).one()
            assert row.result is not None
            estimates = row.result["estimates"]
            row.result = {**row.result, "estimates": {**estimates, "mus_worst": estimates["mus"]}}
    found = compare_versions(console.services, project, *audits, max_accuracy_loss=0.1)
    assert found.differences[0].metric == "uncertainty_span.mus_worst"
    assert len(found.differences) > 5


def test_clean_accuracy_is_shown_once_where_the_check_says_the_same() -> None:
    accuracy, same = difference("clean_accuracy", 0.9, 0.8), difference("uncertainty_span.clean_accuracy", 0.9, 0.8)
    others = [difference("uncertainty_span.clean_accuracy", 0.9, 0.7), difference("uncertainty_span.msus", 0.9, 0.8)]
    told: dict[str, Any] = {"not_compared": {}, "accuracy_holds": "passed", "judgement": None, "is_promotable": False}
    told |= {"promoted": None, "summary": ""}
    result = HardeningResult(differences=[same, *others], accuracy=accuracy, **told)
    assert result.shown == [accuracy, *others]
    assert HardeningResult(differences=[same], accuracy=None, **told).shown == [same]


@pytest.mark.parametrize(
    ("state", "told"),
    [
        ("queued", "hrd_1: queued for auditing; it made mdl_2"),
        ("running", "hrd_1: auditing; it made mdl_2"),
        ("succeeded", "hrd_1: succeeded; it made mdl_2"),
        ("failed", "hrd_1: failed while auditing; it made mdl_2"),
    ],
)
def test_the_command_line_tells_what_a_hardening_does_or_how_it_ended(
    state: str, told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    body: dict[str, Any] = {"id": "hrd_1", "state": state, "stage": "auditing", "method": "plain", "model": "mdl_1"}
    body |= {"hardened": "mdl_2", "dataset": "dat_1", "seed": 0, "verdict": None, "created_at": NOW}
    body |= {"started_at": NOW, "finished_at": None, "params": {}, "spec": {}, "spec_digest": "sha256:0"}
    body |= {"estimated_s": None, "seconds": None, "progress": None, "curves": [], "kept_epoch": None}
    body |= {"kept_rule": None, "notes": [], "audit_before": None, "audit_after": None, "result": None, "error": None}
    print_hardening(HardeningRead.model_validate(body))
    assert capsys.readouterr().out.splitlines()[0] == told
