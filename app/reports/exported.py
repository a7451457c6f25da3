"""What goes into a document that leaves the house: which numbers, and what has to be said beside them.

A bill of materials or a model card is read by programs that look at its numbers only. So a check with a flag of
severity ``error``, whose numbers must not be relied on, gives none to them, and is named among the limits instead.
"""

from collections.abc import Iterator

from app.reports.bundle import NotEndedError
from seatrial.reporting.outcomes import policy_name
from seatrial.reporting.schemas import ReportCheck, ReportEstimate, ReportRead, ReportSource

CONFIDENCE = 0.95
"""Of every interval, each by itself."""


def check_ended(report: ReportRead) -> None:
    """Refuse what still runs: half of an audit is no evidence.

    Raises:
        NotEndedError: It does.
    """
    if not report.is_final:
        raise NotEndedError(f"Audit {report.audit} is {report.state}: this document is made of one that has ended.")


def source_of(report: ReportRead, role: str) -> ReportSource:
    """Return the model or the dataset of an audit; one that says so where it is gone."""
    gone = ReportSource(role=role, id=role, name=f"{role} unknown", digest="", facts={})
    return next((source for source in report.sources if source.role == role), gone)


def split_source(source: ReportSource) -> tuple[str, str]:
    """Return the name and the version of a model or a dataset.

    >>> split_source(ReportSource(role="model", id="mdl_1", name="digits 1", digest="sha256:0", facts={}))
    ('digits', '1')
    """
    name, _, version = source.name.rpartition(" ")
    return name or version, version


def is_relied_on(check: ReportCheck) -> bool:
    """Return whether a check's numbers may be shown without its flags."""
    return all(flag.severity != "error" for flag in check.flags)


def exported_numbers(report: ReportRead) -> Iterator[tuple[ReportCheck, ReportEstimate]]:
    """Yield the numbers that are defined and can be relied on, each with its check."""
    for check in filter(is_relied_on, report.checks):
        for estimate in check.estimates:
            if estimate.value is not None:
                yield check, estimate


def limits_of(report: ReportRead) -> list[str]:
    """Return what a reader of the numbers must know, the gravest first, a sentence each."""
    return [*_limits(report)]


def _limits(report: ReportRead) -> Iterator[str]:
    judgement = report.judgement
    if judgement is None:
        yield "No policy has judged these numbers."
    else:
        yield f"Verdict {judgement.verdict} by the policy {policy_name(judgement)}: {judgement.headline}"
    for check in report.checks:
        if check.error is not None:
            yield f"{check.kind} {check.state}, and has no numbers: {check.error.title}. {check.error.detail}"
        elif not check.estimates:
            yield f"{check.kind} {check.state}, and has no numbers."
        elif not is_relied_on(check):
            yield f"The numbers of {check.kind} are left out: a flag says that they must not be relied on."
    for severity in ("error", "warning", "info"):
        for check in report.checks:
            for flag in check.flags:
                if flag.severity == severity:
                    yield f"{check.kind}, {severity}, {flag.code}: {flag.message}"
    yield (
        f"Measured on {report.samples:,} examples at most, with the parameters stated; the intervals are of "
        f"{CONFIDENCE:.0%}, each by itself, and speak of examples like those."
    )
    if report.signature is None:
        yield "This verdict is not signed."
    else:
        yield from (f"Not signed: {sentence}" for sentence in report.signature.leaves_out)
