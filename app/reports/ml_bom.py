"""An audit as a machine-learning bill of materials: CycloneDX 1.6 (ECMA-424), with its numbers and their intervals.

Source: https://cyclonedx.org/docs/1.6/json/, ``modelCard.quantitativeAnalysis.performanceMetrics``.
"""

import re
from collections.abc import Iterator
from typing import Any
from uuid import NAMESPACE_URL, uuid5

from app.reports.exported import CONFIDENCE, exported_numbers, limits_of, source_of, split_source
from seatrial.reporting.outcomes import policy_name
from seatrial.reporting.schemas import ReportEstimate, ReportRead, ReportSource

SCHEMA = "http://cyclonedx.org/schema/bom-1.6.schema.json"
_SHA256 = re.compile(r"[0-9a-f]{64}")


def render_ml_bom(report: ReportRead) -> dict[str, Any]:
    """Return the bill of materials: the model with its card, and the data it was measured on.

    The same verdict gives the same document. Numbers that must not be relied on are not in it; the limits name them.

    Args:
        report: An audit that has ended.
    """
    judged = report.judgement.id if report.judgement is not None else None
    identity = uuid5(NAMESPACE_URL, f"seatrial:{report.audit}:{judged}:{report.signature and report.signature.digest}")
    when = (report.judgement and report.judgement.judged_at) or report.finished_at or report.created_at
    seatrial = {"type": "application", "name": "Seatrial", "version": report.reproduction.versions["seatrial"]}
    model = source_of(report, "model")
    return {
        "$schema": SCHEMA,
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "serialNumber": f"urn:uuid:{identity}",
        "version": 1,
        "metadata": {
            "timestamp": f"{when:%Y-%m-%dT%H:%M:%SZ}",
            "tools": {"components": [seatrial]},
            "properties": _properties(_about(report)),
        },
        "components": [
            _model(report, model),
            *(_further(source) for source in report.sources if source.role != "model"),
        ],
    }


def _model(report: ReportRead, model: ReportSource) -> dict[str, Any]:
    return {
        **_component(model, "machine-learning-model"),
        "externalReferences": [*_references(report)],
        "modelCard": {
            "bom-ref": f"{model.id}#card",
            "modelParameters": {
                "task": model.facts.get("task", "unknown"),
                "modelArchitecture": model.facts.get("architecture", "unknown"),
                "datasets": [{"ref": one.id} for one in report.sources if one.role == "dataset"],
            },
            "quantitativeAnalysis": {"performanceMetrics": [*_metrics(report)]},
            "considerations": {"technicalLimitations": limits_of(report)},
            "properties": _properties(dict(_basis(one) for _, one in exported_numbers(report))),
        },
    }


def _further(source: ReportSource) -> dict[str, Any]:
    if source.id.startswith("mdl_"):
        return _component(source, "machine-learning-model")
    component = _component(source, "data")
    return {**component, "data": [{"type": "dataset", "name": source.name}]}


def _component(source: ReportSource, kind: str) -> dict[str, Any]:
    name, version = split_source(source)
    digest = source.digest.removeprefix("sha256:")
    hashes = {"hashes": [{"alg": "SHA-256", "content": digest}]} if _SHA256.fullmatch(digest) else {}
    facts = {f"seatrial:{fact.replace(' ', '-')}": text for fact, text in source.facts.items()}
    properties = _properties({"seatrial:role": source.role, **facts})
    return {
        "type": kind,
        "bom-ref": source.id,
        "name": name,
        "version": version,
        **hashes,
        "properties": properties,
    }


def _metrics(report: ReportRead) -> Iterator[dict[str, Any]]:
    dataset = source_of(report, "dataset").name
    for _, estimate in exported_numbers(report):
        metric: dict[str, Any] = {"type": estimate.name, "value": str(estimate.value), "slice": dataset}
        if estimate.low is not None and estimate.high is not None:
            ends = {"lowerBound": str(estimate.low), "upperBound": str(estimate.high)}
            metric["confidenceInterval"] = ends
        yield metric


def _basis(estimate: ReportEstimate) -> tuple[str, str]:
    """Return what the schema has no field for: what an estimate rests on."""
    interval = f"n={estimate.n} interval={estimate.method} unit={estimate.unit or '1'} better={estimate.better}"
    is_open = f" open={estimate.open_end}" if estimate.open_end else ""
    return f"seatrial:metric:{estimate.name}", interval + is_open


def _about(report: ReportRead) -> dict[str, str | None]:
    judgement = report.judgement
    verdict = (
        {}
        if judgement is None
        else {
            "seatrial:verdict": judgement.verdict,
            "seatrial:headline": judgement.headline,
            "seatrial:policy": policy_name(judgement),
            "seatrial:policy-digest": judgement.policy.digest,
            "seatrial:judgement": judgement.id,
        }
    )
    return {
        "seatrial:audit": report.audit,
        "seatrial:state": report.state,
        "seatrial:spec-digest": report.reproduction.spec_digest,
        "seatrial:seed": str(report.reproduction.seed),
        "seatrial:confidence": str(CONFIDENCE),
        **verdict,
    }


def _references(report: ReportRead) -> Iterator[dict[str, Any]]:
    """Yield where more is, relative to the service: who moves the file knows what it is called there."""
    if report.signature is not None:
        yield {
            "type": "attestation",
            "url": f"/v1/audits/{report.audit}/attestation",
            "comment": f"Signed {report.signature.result} by the key {report.signature.key_id}; "
            "`seatrial verify` checks it.",
            "hashes": [{"alg": "SHA-256", "content": report.signature.digest.removeprefix("sha256:")}],
        }
    yield {"type": "evidence", "url": f"/v1/audits/{report.audit}/bundle", "comment": "Records, to run it again."}
    yield {"type": "quality-metrics", "url": f"/v1/audits/{report.audit}/report", "comment": "The whole report."}


def _properties(values: dict[str, Any]) -> list[dict[str, str]]:
    return [{"name": name, "value": str(value)} for name, value in values.items() if value is not None]
