"""A hardening to read or to keep: both versions side by side, their paired differences, the verdict, the doubts."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from sqlalchemy.orm import Session

from app.gates import repository as gates
from app.gates.stored import read_measured
from app.hardenings.service import read_hardening
from app.reports.html import render_hardening
from app.reports.markdown import code, prose, sentence
from app.web.problems import ConflictError
from seatrial.contracts.estimates import Flag
from seatrial.contracts.hardenings import HardeningRead, HardeningReportRead, HardeningResult, PairedDifference
from seatrial.contracts.policies import Judgement
from seatrial.reporting.numbers import format_estimate
from seatrial.store.tables import DatasetRow, ModelRow

ReportFormat = Literal["html", "json", "markdown"]


@dataclass(frozen=True)
class HardeningReport:
    """What a report of a hardening is made of.

    Attributes:
        read: What the API tells of it.
        result: What it was worth.
        names: Name and version of models and datasets, by id.
        judgement: Of the new version; None without a policy.
        flags: Doubts about the numbers of each version, `before` and `after`.
    """

    read: HardeningRead
    result: HardeningResult
    names: Mapping[str, str]
    judgement: Judgement | None
    flags: Mapping[str, list[Flag]]

    @property
    def title(self) -> str:
        """What was done to what."""
        return f"{self.name(self.read.model)} hardened by {self.read.method}"

    @property
    def differences(self) -> list[PairedDifference]:
        """Clean accuracy, then every number both audits have."""
        return self.result.shown

    @property
    def audited(self) -> str:
        """Name of the dataset both versions were audited on."""
        return self.name(str(self.read.spec["audit"]["dataset"]))

    def name(self, id_: str | None) -> str:
        """Return name and version, or the id of what has gone."""
        return "none" if id_ is None else self.names.get(id_, id_)


def compose(session: Session, project_id: str, hardening_id: str) -> HardeningReport:
    """Return the report of a hardening whose versions have been compared.

    Raises:
        NotFoundError: The project has none of that id.
        ConflictError: They have not.
    """
    read = HardeningRead.model_validate(read_hardening(session, project_id, hardening_id))
    if read.result is None or read.audit_before is None or read.audit_after is None:
        raise ConflictError(f"Hardening {hardening_id} is {read.state}: its two versions have not been compared.")
    names: dict[str, str] = {}
    for table, ids in (
        (ModelRow, (read.model, read.hardened)),
        (DatasetRow, (read.dataset, read.spec["audit"]["dataset"])),
    ):
        rows = session.query(table.id, table.name, table.version).filter(
            table.project_id == project_id, table.id.in_(ids)
        )
        names |= {row.id: f"{row.name} {row.version}" for row in rows}
    return HardeningReport(
        read=read,
        result=read.result,
        names=names,
        judgement=judgement_of(session, read),
        flags={
            "before": flags_of(session, read.audit_before),
            "after": flags_of(session, read.audit_after),
        },
    )


def judgement_of(session: Session, read: HardeningRead) -> Judgement | None:
    """Return what the new version was judged to be; None where nobody has."""
    if read.result is None or read.result.judgement is None or read.audit_after is None:
        return None
    row = gates.find_judgement(session, read.audit_after, read.result.judgement)
    return None if row is None else Judgement.model_validate(row.judgement)


def flags_of(session: Session, audit_id: str) -> list[Flag]:
    """Return the doubts about an audit's numbers, the gravest first."""
    checks = read_measured(session, audit_id).checks
    flags = [flag for check in checks if check.result is not None for flag in check.result.flags]
    return sorted(flags, key=lambda flag: ("error", "warning", "info").index(flag.severity))


def render(report: HardeningReport, format: ReportFormat) -> str:
    """Return the report as one HTML file without scripts, as Markdown, or as JSON."""
    if format == "json":
        told: dict[str, Any] = {"hardening": report.read, "names": report.names}
        told |= {"judgement": report.judgement, "flags": report.flags}
        return HardeningReportRead.model_validate(told).model_dump_json()
    return render_markdown(report) if format == "markdown" else render_hardening(report)


def render_markdown(report: HardeningReport) -> str:
    """Return the report as Markdown, short enough for a comment on a pull request."""
    return "\n\n".join(_parts(report)) + "\n"


def _parts(report: HardeningReport) -> Iterator[str]:
    read, result = report.read, report.result
    yield f"# {prose(report.title)}"
    yield f"**{sentence(result.summary)}**"
    for which, title in (("after", "the new version"), ("before", "the model as it was")):
        if report.flags[which]:
            told = [f"- {flag.severity}: {code(flag.code)} {sentence(flag.message)}" for flag in report.flags[which]]
            yield f"Doubts about the numbers of {title}:\n\n" + "\n".join(told)
    head = "| number | before | after | after minus before | how |\n| --- | --- | --- | --- | --- |"
    yield "\n".join([head, *(_row(one) for one in report.differences)])
    yield (
        f"Before: {_version(report, read.model, read.audit_before)}. After: "
        f"{_version(report, read.hardened, read.audit_after)}. Both were audited on the same examples of "
        f"{prose(report.audited)}, seed {read.seed}; the training saw none of them. Brackets are 95 % "
        "intervals."
    )
    if result.not_compared:
        told = [f"- {code(metric)}: {sentence(why)}" for metric, why in result.not_compared.items()]
        yield "Not compared:\n\n" + "\n".join(told)


def _version(report: HardeningReport, model: str | None, audit: str | None) -> str:
    return f"{prose(report.name(model))} ({code(str(model))}, audit {code(str(audit))})"


def _row(one: PairedDifference) -> str:
    numbers = (format_estimate(each) for each in (one.before, one.after, one.change))
    # A table is cut at its bars before anything else is looked at, also inside of code (GFM 4.10).
    return "| " + " | ".join([code(one.metric).replace("|", "\\|"), *numbers, prose(one.note)]) + " |"
