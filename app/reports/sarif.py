"""A judgement as SARIF 2.1.0 (OASIS), which code-scanning pages show as alerts.

Only what does not hold is a result. Nearly every one has kind ``fail``: another kind must have level ``none`` (section
3.27.10), viewers hide it, and a rule that is open or has not run must not look green. The level says what it is to the
pipeline: ``error`` keeps the verdict from passing, ``warning`` and ``note`` are reported. A blocking rule that is
undecided and that the policy lets pass has kind ``open`` (section 3.27.9) and, so, level ``none``.
"""

import hashlib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from app.reports.controls import controls_for
from seatrial.contracts.controls import Control, controls
from seatrial.contracts.policies import RuleOutcome
from seatrial.reporting.looks import decided_after
from seatrial.reporting.numbers import format_parts
from seatrial.reporting.outcomes import Judged, counted, is_silent, level, policy_name
from seatrial.reporting.reuse import reused_in_words
from seatrial.reporting.schemas import ReportRead

SCHEMA = "https://docs.oasis-open.org/sarif/sarif/v2.1.0/errata01/os/schemas/sarif-schema-2.1.0.json"
NOTHING_TESTED = "verdict"
"""Id of the rule that a verdict breaks which no rule of the policy shows."""

_DEMANDS = ("max", "min", "max_regression")


def render_sarif(report: ReportRead, judged: Judged) -> dict[str, Any]:
    """Return the judgement as a SARIF log with one run.

    An alert keeps its fingerprint over audits and versions of the model: it is made of the names of model, policy and
    metric and of what is demanded, never of a number.

    Args:
        report: The audit.
        judged: What a policy makes of it.
    """
    judgement = judged.judgement
    rules = list(_rules(judged))
    ids = [rule["id"] for rule in rules]
    taxonomies = list(_taxonomies())
    driver = {
        "name": "Seatrial",
        "version": report.reproduction.versions["seatrial"],
        "supportedTaxonomies": [{"name": one["name"], "index": index} for index, one in enumerate(taxonomies)],
        "rules": rules,
    }
    times = {"startTimeUtc": report.started_at, "endTimeUtc": report.finished_at}
    invocation = {
        # The tool ran, unless nobody knows what the model is worth: SARIF's word for a verdict of errored.
        "executionSuccessful": judgement.verdict != "errored",
        **{key: f"{value:%Y-%m-%dT%H:%M:%S}Z" for key, value in times.items() if value is not None},
    }
    run = {
        "tool": {"driver": driver},
        "taxonomies": taxonomies,
        "automationDetails": {"id": f"seatrial/{_model_name(report)}/{judgement.policy.name}/{report.audit}"},
        "invocations": [invocation],
        "artifacts": [
            {
                "location": {"uri": _uri(source.name.rpartition(" ")[0])},
                "description": {"text": f"{source.role}: {source.name}"},
                "hashes": {"sha-256": source.digest.removeprefix("sha256:")},
                **({"roles": ["analysisTarget"]} if source.role == "model" else {}),
            }
            for source in report.sources
        ],
        "results": list(_results(_alerts(judged, ids), _model_name(report), judgement.policy.name, ids, report.url)),
        "properties": {
            "verdict": judgement.verdict,
            "headline": judgement.headline,
            "audit": report.audit,
            **({"url": report.url} if report.url else {}),
            "judgement": judgement.id,
            "policy": policy_name(judgement),
            "policyDigest": judgement.policy.digest,
            "baseline": judgement.baseline,
            "specDigest": report.reproduction.spec_digest,
            **_looks(report),
            **_reused(report),
            "controls": {one.id: one.standing for one in report.controls},
            **_signature(report),
        },
    }
    return {"$schema": SCHEMA, "version": "2.1.0", "runs": [run]}


def _looks(report: ReportRead) -> dict[str, Any]:
    """Return how checks were looked at that stop when they are decided; nothing of others."""
    found = [
        {"kind": check.kind, **check.looks.model_dump(mode="json"), "text": decided_after(check.looks)}
        for check in report.checks
        if check.looks is not None
    ]
    return {"looks": found} if found else {}


def _reused(report: ReportRead) -> dict[str, Any]:
    """Return whose records checks show that were not measured; nothing of others."""
    found = [
        {"kind": check.kind, **check.reused.model_dump(mode="json"), "text": reused_in_words(check.reused)}
        for check in report.checks
        if check.reused is not None
    ]
    return {"reused": found} if found else {}


def _rules(judged: Judged) -> Iterator[dict[str, Any]]:
    """Yield a descriptor for each rule of the policy, and one for a verdict that none of them shows."""
    seen: Counter[str] = Counter()
    first = {outcome.rule: outcome for outcome in reversed(judged.judgement.rules)}
    for position, rule in enumerate(judged.document.get("rules") or []):
        name = _rule_name(rule)
        seen[name] += 1
        outcome = first.get(position)
        demand = outcome.requirement if outcome else ""
        label = outcome.label if outcome else rule.get("label") or rule.get("metric", "")
        yield {
            "id": name if seen[name] == 1 else f"{name}/{seen[name]}",
            "shortDescription": {"text": _plain(f"{label}: {demand}".removesuffix(": "))},
            "fullDescription": {
                "text": _plain(f"The policy {judged.judgement.policy.name} requires of {rule.get('metric')}: {demand}.")
            },
            "defaultConfiguration": {"level": "error" if rule.get("severity", "block") == "block" else "warning"},
            "relationships": [_relationship(control) for control in controls_for(str(rule.get("metric")))],
            "properties": {key: value for key, value in rule.items() if value is not None},
        }
    if is_silent(judged.judgement):
        yield {
            "id": NOTHING_TESTED,
            "shortDescription": {"text": "The policy must have tested something"},
            "defaultConfiguration": {"level": "error"},
        }


def _taxonomies() -> Iterator[dict[str, Any]]:
    """Yield the frameworks whose controls rules speak for, each a taxonomy (section 3.19.3)."""
    for framework in dict.fromkeys(control.framework for control in controls()):
        taxa = [control for control in controls() if control.framework == framework]
        yield {
            "name": framework,
            "version": taxa[0].version,
            "taxa": [
                {"id": one.id, "shortDescription": {"text": _plain(one.title)}, "helpUri": one.source} for one in taxa
            ],
        }


def _relationship(control: Control) -> dict[str, Any]:
    return {"target": {"id": control.id, "toolComponent": {"name": control.framework}}, "kinds": ["relevant"]}


def _rule_name(rule: Mapping[str, Any]) -> str:
    demand = next((name for name in _DEMANDS if rule.get(name) is not None), "rule")
    return f"{rule.get('metric')}/{demand}"


@dataclass(frozen=True)
class _Alert:
    """What becomes a result.

    Attributes:
        position: Of its rule in the driver's.
        level: ``error``, ``warning``, ``note`` or ``none``.
        text: Message.
        subject: What its fingerprint is made from.
        name: What it is about.
        kind: What that is: a metric, or the policy.
        properties: Everything else that is known.
    """

    position: int
    level: str
    text: str
    subject: str
    name: str
    kind: str
    properties: Mapping[str, Any]


def _alerts(judged: Judged, ids: list[str]) -> Iterator[_Alert]:
    for outcome in judged.judgement.rules:
        alerted: str = level(outcome)
        if alerted != "none":
            if outcome.severity == "block" and outcome.counts_as == "passed":
                alerted = "none"
            subject = f"{_rule_name(judged.rule(outcome))}/{outcome.metric}"
            yield _Alert(
                outcome.rule, alerted, _message(outcome), subject, outcome.metric, "metric", _properties(outcome)
            )
    if is_silent(judged.judgement):
        text, name = judged.judgement.headline, judged.judgement.policy.name
        yield _Alert(len(ids) - 1, "error", text, NOTHING_TESTED, name, "policy", {})


def _properties(outcome: RuleOutcome) -> dict[str, Any]:
    estimates = {"estimate": outcome.estimate, "baseline": outcome.baseline, "judged": outcome.judged}
    values = {
        "metric": outcome.metric,
        "outcome": outcome.outcome,
        "countsAs": outcome.counts_as,
        "requirement": outcome.requirement,
        "bound": outcome.bound,
        "furtherExamples": outcome.further_examples,
        "furtherSurvivors": outcome.further_survivors,
        "availableExamples": outcome.available_examples,
        "pValue": outcome.p_value,
        "looks": None if outcome.looks is None else outcome.looks.model_dump(mode="json"),
        **{name: one.model_dump(mode="json") for name, one in estimates.items() if one is not None},
    }
    return {name: value for name, value in values.items() if value is not None}


def _results(
    alerts: Iterable[_Alert], model: str, policy: str, ids: list[str], url: str | None
) -> Iterator[dict[str, Any]]:
    seen: Counter[str] = Counter()
    for alert in alerts:
        named = "\n".join((model, policy, alert.subject))
        fingerprint = hashlib.sha256(named.encode()).hexdigest()[:32]
        seen[fingerprint] += 1
        where = {"name": alert.name, "kind": alert.kind, "fullyQualifiedName": f"{model}/{alert.name}"}
        # There is no line of code to blame, but code-scanning pages refuse a result without a file.
        file = {"artifactLocation": {"uri": _uri(model)}, "region": {"startLine": 1}}
        yield {
            "ruleId": ids[alert.position],
            "ruleIndex": alert.position,
            "kind": "open" if alert.level == "none" else "fail",
            "level": alert.level,
            "message": {"text": _plain(alert.text)},
            "locations": [{"physicalLocation": file, "logicalLocations": [where]}],
            # GitHub follows an alert by this key alone; the number behind it tells apart what is demanded twice.
            "partialFingerprints": {"primaryLocationLineHash": f"{fingerprint}:{seen[fingerprint]}"},
            "properties": dict(alert.properties),
            **({"hostedViewerUri": url} if url else {}),
        }


def _message(outcome: RuleOutcome) -> str:
    parts = [f"{outcome.label}: {counted(outcome)}."]
    loss = "Worse by" if outcome.baseline is not None else "Judged by"
    known = {"Measured": outcome.estimate, "Baseline": outcome.baseline, loss: outcome.judged}
    for name, estimate in known.items():
        if estimate is not None and (name != "Judged by" or estimate != outcome.estimate):
            # Square brackets are links in a message (section 3.11.6).
            value, *ends = format_parts(estimate)
            between = f" ({' to '.join(ends)})" if ends else ""
            parts.append(f"{name} {value}{between}.")
    return " ".join([*parts, f"Required: {outcome.requirement}.", outcome.reason])


def _signature(report: ReportRead) -> dict[str, Any]:
    signature = report.signature
    if signature is None:
        return {}
    return {"attestation": {"digest": signature.digest, "keyId": signature.key_id, "result": signature.result}}


def _model_name(report: ReportRead) -> str:
    # Without the version: the next one's alert is the same alert.
    named = next((source.name for source in report.sources if source.role == "model"), "model")
    return named.rpartition(" ")[0] or named


def _uri(name: str) -> str:
    return quote(name, safe="")


def _plain(text: str) -> str:
    """Return text in which no viewer finds a link or a place to fill in (sections 3.11.5 and 3.11.6).

    >>> _plain("[click](http://evil.example) {0}")
    '[click] (http://evil.example) { 0}'
    """
    return text.replace("](", "] (").replace("{", "{ ")
