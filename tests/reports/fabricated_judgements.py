"""Judgements of every kind, made by hand: outputs are held to them whatever the gate's statistics are."""

from typing import Any

from seatrial.contracts.estimates import Estimate
from seatrial.contracts.policies import Judgement, PolicySource, RuleOutcome
from seatrial.reporting.outcomes import Judged
from seatrial.store.database import Database
from seatrial.store.ids import new_id
from seatrial.store.tables import AuditRow, JudgementRow

DIGEST = "sha256:" + "ab" * 32


def outcome(outcome: str, metric: str = "uncertainty_span.mus", **more: Any) -> RuleOutcome:
    """Return an outcome of a rule that asks for at most 0.5."""
    places = {"passed": 0.41, "failed": 0.71, "inconclusive": 0.51}
    value = places.get(outcome)
    estimate = (
        None
        if value is None
        else Estimate(value=value, low=round(value - 0.03, 4), high=round(value + 0.03, 4), n=400, method="gaffke")
    )
    return RuleOutcome.model_validate(
        {
            "rule": 0,
            "label": metric,
            "metric": metric,
            "severity": "block",
            "requirement": "at most 0.5",
            "bound": 0.5,
            "outcome": outcome,
            "counts_as": outcome,
            "estimate": estimate,
            "judged": estimate,
            "further_examples": 1200 if outcome == "inconclusive" else None,
            "reason": f"It is {outcome} for a reason.",
            **more,
        }
    )


def judged(verdict: str, *outcomes: RuleOutcome, **more: Any) -> Judged:
    """Return a judgement of such outcomes, and the policy it would be of."""
    numbered = [one.model_copy(update={"rule": position}) for position, one in enumerate(outcomes)]
    rules = [
        {
            "metric": one.metric,
            "max": one.bound,
            "min": None,
            "max_regression": None,
            "severity": one.severity,
            "label": None if one.label == one.metric else one.label,
        }
        for one in numbered
    ]
    judgement = Judgement.model_validate(
        {
            "audit": "aud_it",
            "verdict": verdict,
            "headline": f"The model is {verdict}, says the gate.",
            "rules": [one.model_dump() for one in numbered],
            "policy": PolicySource(id=None, name="release", version=None, digest=DIGEST),
            **more,
        }
    )
    return Judged(judgement, {"name": "release", "rules": rules})


CASES: dict[str, Judged] = {
    "passed": judged("passed", outcome("passed"), outcome("passed", "uncertainty_span.msus")),
    "failed": judged("failed", outcome("passed"), outcome("failed", "uncertainty_span.msus")),
    "inconclusive": judged("inconclusive", outcome("passed"), outcome("inconclusive", "uncertainty_span.msus")),
    "errored": judged("errored", outcome("passed"), outcome("errored", "uncertainty_span.msus")),
    "failed-and-errored": judged("failed", outcome("errored"), outcome("failed", "uncertainty_span.msus")),
    "warned": judged("passed", outcome("passed"), outcome("failed", "uncertainty_span.msus", severity="warn")),
    "warned-of-nothing": judged("passed", outcome("passed"), outcome("errored", severity="warn")),
    "open-and-let-pass": judged("passed", outcome("inconclusive", counts_as="passed")),
    "open-and-held-against-it": judged("failed", outcome("inconclusive", counts_as="failed")),
    "skipped-but-required": judged("errored", outcome("passed"), outcome("skipped", counts_as="errored")),
    "skipped-and-not-missed": judged("passed", outcome("passed"), outcome("skipped")),
    "nothing-tested": judged("errored", outcome("skipped"), outcome("skipped", severity="warn")),
}


def store(database: Database, audit_id: str, judged: Judged, *, is_own: bool = True) -> str:
    """Store a judgement as the gate does and return its id."""
    judgement_id = new_id("jdg")
    told = judged.judgement.model_copy(update={"id": judgement_id, "audit": audit_id})
    with database.write() as session:
        session.add(
            JudgementRow(
                id=judgement_id,
                audit_id=audit_id,
                is_own=is_own,
                verdict=told.verdict,
                judgement=told.model_dump(mode="json"),
                document=dict(judged.document),
            )
        )
        if is_own:
            session.get_one(AuditRow, audit_id).verdict = told.verdict
    return judgement_id
