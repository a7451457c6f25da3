"""How a check attacked its examples, in a line beside the verdict: a number says nothing without its attack."""

from collections.abc import Mapping
from typing import Any

from seatrial.contracts.audits import AuditRead
from seatrial.contracts.estimates import Result
from seatrial.contracts.policies import Judgement
from seatrial.contracts.registry import as_meant, find_family
from seatrial.reporting.balls import norms_in_words, within_ball
from seatrial.reporting.outcomes import applied, units_in_words
from seatrial.reporting.schemas import ReportRead


def attacked_in_words(kind: str, params: Mapping[str, Any], result: Result | None, *, samples: int, seed: int) -> str:
    """Return how a check attacked its examples, and what its norms bound; nothing of one that attacks none.

    Args:
        kind: Its family, which may be one that is not installed.
        params: As stored.
        result: What it found; None before.
        samples: Examples asked for: a smaller dataset has fewer, and an audit may stop before the last.
        seed: Of the audit.
    """
    spec = find_family(kind)
    if spec is None:
        return ""
    phrase = (spec.attacked or within_ball)(as_meant(kind, params))
    if not phrase:
        return ""
    examples = samples
    if result is not None and result.looks is not None:
        examples = result.looks.examples
    elif result is not None:
        # What rests on more than the sample takes in others, such as outliers.
        examples = max((one.n for one in result.estimates.values() if 0 < one.n <= samples), default=samples)
    told = f"Attacked {phrase}, {examples:,} {'example' if examples == 1 else 'examples'}, seed {seed}."
    return " ".join([told, *norms_in_words(phrase)])


def judged_kinds(judgement: Judgement) -> set[str]:
    """Return the families whose numbers a verdict is about."""
    return {outcome.metric.partition(".")[0] for outcome in applied(judgement)}


def notes_in(report: ReportRead) -> list[str]:
    """Return what stands beside the verdict of a report: how its checks attacked, and what its units are; a line once.

    Of the checks its verdict is about that have a result.
    """
    if report.judgement is None:
        return []
    kinds = judged_kinds(report.judgement)
    lines = (check.attacked for check in report.checks if check.kind in kinds and check.estimates)
    return [*(line for line in dict.fromkeys(lines) if line), *units_in_words(report.judgement)]


def notes_of(audit: AuditRead, judgement: Judgement) -> list[str]:
    """Return the same of an audit and a verdict of it; a check without a result attacked nothing yet."""
    kinds = judged_kinds(judgement)
    lines = (
        attacked_in_words(check.kind, check.params, check.result, samples=audit.samples, seed=audit.seed)
        for check in audit.checks
        if check.kind in kinds and check.result is not None
    )
    return [*(line for line in dict.fromkeys(lines) if line), *units_in_words(judgement)]
