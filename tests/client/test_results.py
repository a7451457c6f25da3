"""Audits and verdicts in a notebook."""

import io
import sys
from datetime import UTC, datetime
from typing import Any

import pytest

from seatrial import Client
from seatrial.client import Audit, AuditJudgement, Cost, Figure, Figures, Model, ProblemResponseError
from seatrial.client.results import MAX_ROWS
from seatrial.client.waiting import shown
from seatrial.contracts.states import RunState
from tests.client.asking import AUDIT, Asking, said

NOW = datetime.now(UTC).isoformat()
EVIL = "<script>alert('x')</script>"
POINT = {"value": 0.5, "low": 0.4, "high": 0.6, "n": 9, "method": "gaffke"}
UNDEFINED = {"value": None, "low": None, "high": None, "n": 0, "method": "none"}


def judgement(**more: Any) -> dict[str, Any]:
    rule = {"rule": 0, "label": EVIL, "metric": "uncertainty_span.mus_worst", "severity": "block"}
    rule |= {"requirement": "at most 0.05", "bound": 0.05, "outcome": "failed", "counts_as": "failed"}
    rule |= {"estimate": POINT, "judged": POINT, "reason": f"0.5 is more {EVIL}", **more}
    policy = {"id": None, "name": "p", "version": None, "digest": "sha256:0"}
    return {"verdict": "failed", "headline": f"Failed: {EVIL}", "rules": [rule], "policy": policy}


def audit(estimates: dict[str, Any], **more: Any) -> Audit:
    check = {"id": "chk_1", "kind": "uncertainty_span", "params": {}, "state": "succeeded", "stages": []}
    check |= {"progress": {"stage": None, "done": 0, "total": 0, "remaining_s": 0}}
    flag = {"code": "zero_gradients", "severity": "warning", "message": EVIL}
    result = {"estimates": estimates, "flags": [flag], "counts": {}}
    failed = {
        **check,
        "id": "chk_2",
        "state": "failed",
        "error": {"code": "out-of-memory", "title": "Out of memory", "detail": EVIL},
    }
    body = {"id": "aud_1", "state": "failed", "model": "m", "dataset": "d", "seed": 0, "samples": 9, "kinds": []}
    body |= {"created_at": NOW, "spec": {}, "spec_digest": "", "checks": [{**check, "result": result}, failed]}
    return Audit.model_validate({**body, **more})


def test_an_audit_is_a_frame_of_its_estimates() -> None:
    frame = audit({"mus": POINT, "s_ece[arm=over]": UNDEFINED}).to_frame()
    assert list(frame.columns) == ["check", "metric", "value", "low", "high", "n", "method"]
    assert list(frame["metric"]) == ["uncertainty_span.mus", "uncertainty_span.s_ece[arm=over]"]
    assert frame.iloc[0].to_dict() == {"check": "chk_1", "metric": "uncertainty_span.mus", **POINT}
    assert frame["value"].isna().tolist() == [False, True]


def test_an_audit_without_numbers_is_a_frame_without_rows() -> None:
    frame = audit({}).to_frame()
    assert (len(frame), list(frame.columns)[:3]) == (0, ["check", "metric", "value"])


def test_a_verdict_is_a_frame_of_its_rules() -> None:
    frame = AuditJudgement.model_validate(judgement()).to_frame()
    row = frame.iloc[0]
    assert (row["metric"], row["outcome"], row["bound"]) == ("uncertainty_span.mus_worst", "failed", 0.05)
    assert (row["value"], row["low"], row["high"], row["n"]) == (0.5, 0.4, 0.6, 9)
    unmeasured = AuditJudgement.model_validate(judgement(estimate=None, judged=None)).to_frame()
    assert list(unmeasured.columns) == list(frame.columns)
    assert unmeasured["value"].isna().all()


def test_without_pandas_it_is_said_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pandas", None)
    for one in (audit({"mus": POINT}), AuditJudgement.model_validate(judgement())):
        with pytest.raises(ModuleNotFoundError, match="to_frame\\(\\) needs pandas: pip install pandas"):
            one.to_frame()


def test_a_notebook_shows_numbers_flags_errors_and_the_verdict_and_runs_nothing_of_them() -> None:
    shown = audit({"mus": POINT, EVIL: POINT}, judgement=judgement())._repr_html_()
    assert "aud_1: failed" in shown
    assert "<td>uncertainty_span.mus</td><td>0.5000</td><td>[0.4000, 0.6000]</td><td>9</td>" in shown
    assert "warning: zero_gradients" in shown
    assert "Out of memory: " in shown
    assert "<script" not in shown
    # The flag, the error, the metric and the headline.
    assert shown.count("&lt;script&gt;") == 4
    verdict = AuditJudgement.model_validate(judgement())._repr_html_()
    assert "<td>failed</td><td>block</td>" in verdict
    assert "<script" not in verdict


def test_a_long_table_is_cut_and_says_so() -> None:
    shown = audit({f"m{number}": POINT for number in range(MAX_ROWS + 7)})._repr_html_()
    assert shown.count("<tr>") == MAX_ROWS + 1
    assert "7 more rows: to_frame() has them all" in shown
    assert "more rows" not in audit({f"m{number}": POINT for number in range(MAX_ROWS)})._repr_html_()


def test_a_prompt_and_a_notebook_show_numbers_audits_and_figures_in_a_line() -> None:
    told = audit({"mus": POINT}, judgement=judgement(), verdict="failed")
    result = told.checks[0].result
    assert result is not None
    assert repr(Client("http://127.0.0.1:8000")) == "<Client of http://127.0.0.1:8000>"
    assert repr(result.estimates["mus"]) == "0.5000 [0.4000, 0.6000], n = 9"
    assert "<td>0.5000</td><td>[0.4000, 0.6000]</td><td>9</td>" in result.estimates["mus"]._repr_html_()
    assert repr(told) == "<Audit aud_1: m on d, failed, failed; uncertainty_span succeeded, uncertainty_span failed>"
    assert repr(told.judgement) == f"<AuditJudgement failed: Failed: {EVIL}>"
    assert EVIL not in Figures([Figure("c", EVIL, b"<svg/>")])._repr_html_()
    body = {"id": "mdl_1", "name": "digits", "version": "1", "task": "image-classification", "digest": "sha256:0"}
    body |= {"size_bytes": 1, "created_at": NOW, "state": "ready", "manifest": {"architecture": {"kind": EVIL}}}
    model = Model.model_validate(body)
    assert repr(model) == "<Model mdl_1: digits 1, image-classification, ready>"
    assert "<script" not in model._repr_html_()
    cost = {"examples": 9, "forward_passes": 1, "backward_passes": 0, "queries": 0, "seconds": 75.0, "checks": []}
    told_cost = Cost.model_validate({**cost, "seconds_low": 4.0, "seconds_high": 90.0})
    assert repr(told_cost).endswith("about 1 min 15 s, between 4 s and 1 min 30 s>")


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_bar_shows_how_far_an_audit_is_where_somebody_looks(monkeypatch: pytest.MonkeyPatch) -> None:
    running = audit({"mus": POINT}, state="running", progress={"share": 0.5, "remaining_s": 12})
    running.checks[0].state = RunState.RUNNING
    running.checks[0].progress.stage = "att\x1back"
    assert shown(None) is None, "nobody looks at a script"
    assert shown(False) is None
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    assert shown(None) is None
    show = shown(True)
    assert show is not None
    show(running)
    assert "[###############---------------] 50 %, uncertainty_span: att" in terminal.getvalue()
    assert "about 12 s left" in terminal.getvalue()
    assert terminal.getvalue().count("\x1b") == 1
    show(audit({"mus": POINT}, state="succeeded"))
    assert terminal.getvalue().endswith("] finished\n")


def test_an_audit_of_several_checks_or_no_client_says_what_is_missing() -> None:
    with pytest.raises(ValueError, match="the audit has several, uncertainty_span, uncertainty_span: say which"):
        audit({}).records()
    with pytest.raises(ValueError, match=r"read it with client\.audit"):
        audit({}).figures()


@pytest.mark.parametrize("flavour", ["sync", "async"])
def test_figures_of_an_audit_that_has_not_ended_are_refused_and_not_none(flavour: str) -> None:
    waiting = Asking(flavour, said(AUDIT), said(AUDIT))
    with pytest.raises(ValueError, match=r"audit aud_1 is queued: a check's figures are drawn when it ends"):
        waiting.ask("figures", waiting.ask("audit", "aud_1"))
    # It has ended since it was read.
    since = Asking(flavour, said(AUDIT), said({**AUDIT, "state": "succeeded"}))
    assert since.ask("figures", since.ask("audit", "aud_1")) == []


def refused(detail: str, *errors: tuple[str, str]) -> str:
    told = [{"pointer": pointer, "detail": said} for pointer, said in errors]
    return str(ProblemResponseError({"title": "No", "detail": detail, "errors": told}))


def test_what_is_wrong_with_fields_is_told_once() -> None:
    assert refused("too small", ("/seed", "too small")) == "No\n  /seed: too small"
    assert refused("/seed: too small", ("/seed", "too small")) == "No\n  /seed: too small"
    assert refused("limit: too small", ("/limit", "too small")) == "No\n  /limit: too small"
    assert refused("body: a list", ("", "a list")) == "No\n  : a list"
    assert refused("/a: x; /b: y", ("/a", "x"), ("/b", "y")) == "No\n  /a: x\n  /b: y"
    assert refused("nothing fits", ("/a", "x")) == "No: nothing fits\n  /a: x"
    assert refused("nothing fits") == "No: nothing fits"


def test_two_audits_are_compared_as_they_are_given_and_shown_with_their_differences() -> None:
    run = {"model": "mdl_1", "model_name": "m", "flags": []}
    group = {"name": "m", "audits": [{**run, "audit": f"aud_{at}", "model_version": str(at)} for at in (1, 2)]}
    group["numbers"] = {"a.mus": {"mean": 0.5, "sd": 0.1, "n": 2, "values": [0.4, 0.6]}}
    one = {"first": POINT, "second": POINT, "difference": {**POINT, "value": 0.1, "low": -0.1, "high": 0.3}}
    body = {"samples": 9, "seed": 0, "metrics": ["a.mus"], "groups": [group], "not_compared": {}}
    two = {**body, "differences": {"a.mus": {**one, "trend": "undecided", "how": "paired"}}}
    asked = Asking("sync", said(AUDIT), said(two), said(two), said(body))
    read = asked.ask("audit", "aud_1")
    told = asked.ask("compare", read, "aud_2")
    assert asked.ask("compare", [read, "aud_2"]) == told
    assert [one.url.query for one in asked.requests[1:]] == [b"audit=aud_1&audit=aud_2"] * 2
    assert repr(told).startswith("<Comparison m 1 and m 2: a.mus 0.1000 [-0.1000, 0.3000], undecided; 0 more")
    (row,) = told.to_frame().to_dict("records")
    assert (row["metric"], row["first"], row["second"], row["difference"], row["low"]) == ("a.mus", 0.5, 0.5, 0.1, -0.1)
    assert "<td>0.1000 [-0.1000, 0.3000]</td><td>undecided</td>" in told._repr_html_()
    means = asked.ask("compare", "aud_1")
    assert repr(means) == "<Comparison of m (2): 1 numbers; to_frame() has them>"
    assert means.to_frame().to_dict("records") == [{"metric": "a.mus", "group": "m", "mean": 0.5, "sd": 0.1, "n": 2}]
