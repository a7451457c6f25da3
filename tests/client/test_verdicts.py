"""What the command line prints of a verdict and of an estimate."""

from typing import Any

import pytest

from app.cli.deletions import and_along
from app.cli.verdicts import print_estimate, print_judgement
from seatrial.contracts.audits import AuditEstimate
from seatrial.contracts.deletions import TombstoneRead
from seatrial.contracts.estimates import Estimate
from seatrial.contracts.policies import Judgement, Outcome, PolicySource, RuleOutcome, Severity


def outcome(kind: Outcome, severity: Severity = "block", **more: Any) -> RuleOutcome:
    estimate = Estimate(value=0.5, low=0.4, high=0.6, n=50, method="gaffke")
    said: dict[str, Any] = {
        "rule": 0,
        "label": f"{kind} rule",
        "metric": "uncertainty_span.mus",
        "severity": severity,
        "requirement": "at most 0.45",
        "bound": 0.45,
        "outcome": kind,
        "counts_as": kind,
        "estimate": estimate,
        "judged": estimate,
        "reason": f"because {kind}",
    }
    return RuleOutcome.model_validate(said | more)


def test_a_verdict_is_a_table_its_reasons_and_one_sentence(capsys: pytest.CaptureFixture[str]) -> None:
    rules = [
        outcome("passed"),
        outcome("inconclusive", further_examples=1200, counts_as="failed"),
        outcome("errored", severity="warn", judged=None),
        outcome("errored", severity="warn", judged=None),
    ]
    source = PolicySource(id=None, name="p", version=None, digest="sha256:0")
    print_judgement(Judgement(verdict="failed", headline="Failed: told.", rules=rules, policy=source))
    assert capsys.readouterr().out.splitlines() == [
        "rule               value                    requirement   outcome                          further examples",
        "passed rule        0.5000 [0.4000, 0.6000]  at most 0.45  passed",
        "inconclusive rule  0.5000 [0.4000, 0.6000]  at most 0.45  inconclusive (counts as failed)  1,200",
        "errored rule       -                        at most 0.45  errored (warning)",
        "errored rule       -                        at most 0.45  errored (warning)",
        "",
        "inconclusive rule: because inconclusive",
        "errored rule and 1 more: because errored",
        "",
        "Failed: told.",
    ]


@pytest.mark.parametrize(
    ("value", "low", "high", "said"),
    [
        (0.07, -0.01, 0.15, "worse by 0.0700 [-0.0100, 0.1500]"),
        (-0.07, -0.15, 0.01, "better by 0.0700 [-0.0100, 0.1500]"),
        (-0.07, None, None, "better by 0.0700"),
        (0.0, -0.1, 0.1, "worse by 0.0000 [-0.1000, 0.1000]"),
    ],
    ids=["worse", "better", "no-interval", "alike"],
)
def test_a_difference_from_the_baseline_says_which_way_it_goes(
    capsys: pytest.CaptureFixture[str], value: float, low: float | None, high: float | None, said: str
) -> None:
    method = "none" if low is None else "paired"
    judged = Estimate.model_validate({"value": value, "low": low, "high": high, "n": 50, "method": method})
    before = Estimate(value=0.6, low=None, high=None, n=50, method="none")
    rule = outcome("inconclusive", judged=judged, baseline=before)
    source = PolicySource(id=None, name="p", version=None, digest="sha256:0")
    print_judgement(Judgement(verdict="inconclusive", headline="Open.", rules=[rule], policy=source, baseline="aud_1"))
    assert f"  {said}  at most 0.45  " in capsys.readouterr().out


def test_a_number_without_a_baseline_comes_with_how_to_make_one(capsys: pytest.CaptureFixture[str]) -> None:
    source = PolicySource(id=None, name="p", version=None, digest="sha256:0")
    alone = outcome("skipped", judged=None, counts_as="errored", reason="there is no baseline to compare it with")
    told = Judgement(verdict="errored", headline="Could not be judged.", rules=[alone], policy=source)
    print_judgement(told)
    hint = "There is no baseline to compare with: seatrial baselines promote AUDIT makes one."
    assert capsys.readouterr().out.splitlines()[-3:] == [hint, "", "Could not be judged."]
    for other in (
        {"baseline": "aud_1"},
        {"rules": [outcome("skipped", judged=None, estimate=None)]},
        {"rules": [outcome("failed")]},
    ):
        print_judgement(told.model_copy(update=other))
        assert "There is no baseline" not in capsys.readouterr().out


def test_a_dataset_that_has_no_more_is_said_to_have_none(capsys: pytest.CaptureFixture[str]) -> None:
    # Of 718, as many digits as the reason below the table has.
    source = PolicySource(id=None, name="p", version=None, digest="sha256:0")
    for left, said in ((0, "720 (the dataset has no more)"), (1200, "720"), (100, "720 (the dataset has 100 more)")):
        rule = outcome("inconclusive", further_examples=718, available_examples=left)
        print_judgement(Judgement(verdict="inconclusive", headline="Open.", rules=[rule], policy=source))
        assert f"  {said}\n" in capsys.readouterr().out


@pytest.mark.parametrize(("number", "said"), [(0, ""), (1, ", and 1 audit along with it"), (2, ", and 2 audits along")])
def test_audits_that_went_along_are_counted(number: int, said: str) -> None:
    gone = TombstoneRead.model_construct(along=["aud_1"] * number)
    assert and_along(gone).startswith(said)
    assert bool(and_along(gone)) == bool(number)


def test_an_estimate_says_what_and_how_long(capsys: pytest.CaptureFixture[str]) -> None:
    said: dict[str, Any] = {"examples": 500, "forward_passes": 1000, "backward_passes": 0, "queries": 40, "checks": []}
    for seconds in (7322, None):
        print_estimate(AuditEstimate.model_validate({**said, "seconds": seconds}), err=False)
    known, unknown = capsys.readouterr().out.splitlines()
    assert (
        known
        == "At most: 500 examples, 1,000 forward passes, 40 queries. Time on one worker, by estimate: about 2 h 2 min"
    )
    assert "unknown until a worker has checked the model" in unknown
    print_estimate(AuditEstimate.model_validate({**said, "seconds": 1.0, "memory_bytes": 699 * 2**20}), err=False)
    assert capsys.readouterr().out.endswith(": about 1 s. Memory for model and batch: at most 733.0 MB\n")
    for least, more in ((3, ", 3 s if decided at the first look"), (20.4, "")):
        print_estimate(AuditEstimate.model_validate({**said, "seconds": 20.0, "least_seconds": least}), err=False)
        assert capsys.readouterr().out.endswith(f": about 20 s{more}\n")
    costs = [{"kind": "temperature_attack", "forward_passes": 900}, {"kind": "low_level_attack", "forward_passes": 100}]
    for budget, lines in ((899, 2), (900, 1)):
        told = {**said, "seconds": 1, "checks": costs, "query_budget": budget}
        print_estimate(AuditEstimate.model_validate(told), err=False)
        printed = capsys.readouterr().out.splitlines()
        assert len(printed) == lines
        assert lines == 1 or printed[1].startswith("temperature_attack may ask the model more than its query_budget of")
