"""An extract for the technical documentation of a high-risk AI system: Annex IV of Regulation (EU) 2024/1689.

Point 2(g) asks for the testing procedures, the main characteristics of the testing data, the metrics of accuracy and
robustness, and test logs and reports that are dated and signed by the responsible persons. The extract holds what an
audit knows of that, under the points it belongs to; the rest of Annex IV is the provider's to write.
"""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from app.reports.exported import CONFIDENCE, exported_numbers, limits_of
from seatrial.reporting.numbers import format_interval, format_value
from seatrial.reporting.outcomes import counted, measured, policy_name, required
from seatrial.reporting.schemas import ReportCheck, ReportEstimate, ReportRead, ReportSource
from seatrial.reporting.tables import open_end

TITLE = "Extract for the technical documentation (Annex IV of Regulation (EU) 2024/1689)"
_SIGNING_LINES = 2


@dataclass(frozen=True)
class Grid:
    """A table.

    Attributes:
        caption: What it shows.
        columns: Headings.
        rows: A text per column each.
        is_form: Whether its empty cells are to be filled in by hand.
    """

    caption: str
    columns: tuple[str, ...]
    rows: Sequence[tuple[str, ...]]
    is_form: bool = False


@dataclass(frozen=True)
class Section:
    """A part of the extract.

    Attributes:
        title: Its heading.
        point: The point of Annex IV that it belongs to.
        text: What it says.
        facts: Names and values.
        sentences: Of which each stands for itself.
        grids: Tables.
    """

    title: str
    point: str
    text: str = ""
    facts: list[tuple[str, str]] = field(default_factory=list)
    sentences: list[str] = field(default_factory=list)
    grids: list[Grid] = field(default_factory=list)


def compose_annex(report: ReportRead) -> list[Section]:
    """Return the parts of the extract, in the order they are printed.

    Args:
        report: An audit that has ended.
    """
    return [
        _result(report),
        *(_system(source) for source in report.sources if source.role == "model"),
        _data(report),
        _procedure(report),
        _numbers(report),
        Section("Limits", "point 3", sentences=limits_of(report)),
        _controls(report),
        _logs(report),
        _signed(report),
    ]


def _result(report: ReportRead) -> Section:
    judgement = report.judgement
    if judgement is None:
        return Section("Result", "point 2(g)", text="No policy has judged this audit: there is no verdict.")
    rows = [
        (one.label, required(one), measured(one), counted(one), "" if one.severity == "block" else "reported only")
        for one in judgement.rules
    ]
    columns = ("rule", "required", "measured", "outcome", "remark")
    return Section(
        "Result",
        "point 2(g)",
        text=f"Verdict: {judgement.verdict}. {judgement.headline}",
        facts=[
            ("policy", f"{policy_name(judgement)} ({judgement.policy.digest})"),
            ("judged", _day(judgement.judged_at)),
        ],
        grids=[Grid("Rules of the policy", columns, rows)],
    )


def _system(source: ReportSource) -> Section:
    return Section("The model that was tested", "point 1(a) and 2(c)", facts=_known(source))


def _data(report: ReportRead) -> Section:
    others = [one for one in report.sources if one.role != "model"]
    facts = [(f"{one.role}: {name}", value) for one in others for name, value in _known(one)]
    return Section(
        "Testing data and their main characteristics",
        "point 2(g)",
        text=f"{report.samples:,} examples at most were drawn from the dataset, stratified by label, with the seed "
        f"{report.reproduction.seed}. Where the data come from, and whether they are like what the system will meet, "
        "the provider has to state.",
        facts=facts,
    )


def _known(source: ReportSource) -> list[tuple[str, str]]:
    named = [("name and version", source.name), ("SHA-256 of the upload", source.digest)]
    return [*named, *((name, text) for name, text in source.facts.items() if text)]


def _procedure(report: ReportRead) -> Section:
    reproduction = report.reproduction
    return Section(
        "Testing procedures",
        "point 2(a) and 2(g)",
        text="The same specification, model and data give the same numbers again: `seatrial replay` runs the bundle of "
        "this audit and compares every number and record.",
        facts=[
            ("specification", reproduction.spec_digest),
            ("seed", str(reproduction.seed)),
            *((name, text) for name, text in reproduction.versions.items()),
        ],
        sentences=[f"{check.title} ({check.kind}): {check.question}" for check in report.checks],
        grids=[_parameters(check) for check in report.checks],
    )


def _parameters(check: ReportCheck) -> Grid:
    rows = [(one.name, json.dumps(one.value, ensure_ascii=False), one.description) for one in check.params]
    return Grid(f"Parameters of {check.kind}", ("parameter", "value", "meaning"), rows)


def _numbers(report: ReportRead) -> Section:
    numbers = [estimate for _, estimate in exported_numbers(report)]
    meanings: dict[str, tuple[str, str, str]] = {}
    for one in numbers:
        meanings.setdefault(one.name.partition("[")[0], (one.unit or "1", one.better, one.description))
    return Section(
        "Metrics of accuracy and robustness",
        "point 2(g) and 4",
        text=f"Intervals are of {CONFIDENCE:.0%}, each by itself. Whether the metrics are appropriate for the system "
        "is the provider's to argue; what each means stands below.",
        grids=[
            Grid("Results", ("metric", "value", "interval", "examples", "method"), [_row(one) for one in numbers]),
            Grid(
                "What the metrics mean",
                ("metric", "unit", "better", "meaning"),
                [(name, *meaning) for name, meaning in meanings.items()],
            ),
        ],
    )


def _row(one: ReportEstimate) -> tuple[str, ...]:
    interval = " ".join(part for part in (format_interval(one), open_end(one)) if part)
    return one.name, format_value(one), interval, f"{one.n:,}", one.method


def _controls(report: ReportRead) -> Section:
    rows = [
        (f"{one.id}: {one.title}", one.standing, one.missing or "; ".join(one.rules) or "measured")
        for one in report.controls
    ]
    return Section(
        "Resilience against attempts to alter the system's use",
        "point 2(h), Article 15(5)",
        text="Controls of published frameworks that the numbers are evidence for. Evidence is not conformity.",
        grids=[Grid("Controls", ("control", "evidence", "by what, or what is missing"), rows)],
    )


def _logs(report: ReportRead) -> Section:
    dates = {"submitted": report.created_at, "started": report.started_at, "ended": report.finished_at}
    return Section(
        "Test logs and dates",
        "point 2(g)",
        text=f"The log of every example is in the bundle of the audit, GET /v1/audits/{report.audit}/bundle: the "
        "records of each stage as Parquet, with the digest of each file.",
        facts=[("audit", report.audit), ("state", report.state), *((name, _day(one)) for name, one in dates.items())],
    )


def _signed(report: ReportRead) -> Section:
    return Section(
        "Signatures",
        "point 2(g): dated and signed by the responsible persons",
        text="A key says which installation signed, and is no person: the persons responsible sign below.",
        facts=[*_signature(report)],
        sentences=[] if report.signature is None else [f"Signed: {one}" for one in report.signature.covers],
        grids=[
            Grid(
                "Responsible persons",
                ("name", "role", "date", "signature"),
                [("", "", "", "")] * _SIGNING_LINES,
                is_form=True,
            )
        ],
    )


def _signature(report: ReportRead) -> Iterator[tuple[str, str]]:
    signature = report.signature
    if signature is None:
        yield "signed by", "nobody: no signature of this verdict is here"
        return
    yield "signed by the key", signature.key_id
    yield "signed at", _day(signature.signed_at)
    yield "signed as", signature.result
    yield "digest of the attestation", signature.digest
    registered = signature.preregistered_at
    yield "specification, policy and seed signed at submission", "no" if registered is None else _day(registered)
    yield "audits with other seeds before", str(signature.other_seeds)


def _day(moment: datetime | None) -> str:
    return "not known" if moment is None else f"{moment:%Y-%m-%d %H:%M:%S} UTC"
