"""An audit as the ``model-index`` of a Hugging Face model card: every number with its interval, and the verdict.

Source: the specification of model cards in huggingface/hub-docs, ``modelcard.md``.
"""

from collections.abc import Iterator
from typing import Any

import yaml

from app.reports.exported import CONFIDENCE, exported_numbers, limits_of, source_of, split_source
from seatrial.reporting.outcomes import policy_name
from seatrial.reporting.schemas import ReportEstimate, ReportRead

VERDICT = "seatrial.verdict"
"""Type of the metric that is the verdict: a card has no other place for it, and numbers should not stand alone."""


def render_model_index(report: ReportRead) -> str:
    """Return YAML to be put between the ``---`` lines of a model card's README.md.

    Numbers that must not be relied on are not in it; ``limits`` of the verdict's arguments name them.

    Args:
        report: An audit that has ended.
    """
    model, dataset = source_of(report, "model"), source_of(report, "dataset")
    result = {
        "task": {"type": model.facts.get("task", "unknown")},
        "dataset": {
            "type": split_source(dataset)[0],
            "name": dataset.name,
            "split": dataset.facts.get("split", "unknown"),
            # What is downloaded under this name may change; its digest does not.
            "revision": dataset.digest,
        },
        "metrics": [_verdict(report), *_metrics(report)],
    }
    index = {"model-index": [{"name": model.name, "results": [result]}]}
    # In plain characters, whatever names are made of: no line of the card is anybody else's.
    return yaml.safe_dump(index, sort_keys=False, allow_unicode=False, width=120)


def _verdict(report: ReportRead) -> dict[str, Any]:
    judgement, signature = report.judgement, report.signature
    args: dict[str, Any] = {
        "audit": report.audit,
        "model_digest": source_of(report, "model").digest,
        "specification": report.reproduction.spec_digest,
        "seed": report.reproduction.seed,
        "limits": limits_of(report),
    }
    if judgement is not None:
        args |= {"policy": policy_name(judgement), "policy_digest": judgement.policy.digest}
    if signature is not None:
        args |= {"attestation": signature.digest, "signed_by": signature.key_id}
    return {
        "type": VERDICT,
        "value": "none" if judgement is None else judgement.verdict,
        "name": "No verdict" if judgement is None else judgement.headline,
        "args": args,
    }


def _metrics(report: ReportRead) -> Iterator[dict[str, Any]]:
    for _, estimate in exported_numbers(report):
        yield {"type": estimate.name, "value": estimate.value, "name": estimate.name, "args": _args(estimate)}


def _args(estimate: ReportEstimate) -> dict[str, Any]:
    """Return what the card's specification has no field for."""
    return {
        "low": estimate.low,
        "high": estimate.high,
        "confidence": CONFIDENCE,
        "n": estimate.n,
        "interval": estimate.method,
        "unit": estimate.unit or "1",
        "better": estimate.better,
    }
