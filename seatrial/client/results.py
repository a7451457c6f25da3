"""What a service answers as a notebook and a prompt show it: in a line, as HTML, as a pandas DataFrame when asked."""

import importlib
from base64 import b64encode
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Self

from pydantic import PrivateAttr

from seatrial.contracts.audits import AuditEstimate, AuditRead, AuditSummary, CheckRead
from seatrial.contracts.comparisons import ComparisonRead
from seatrial.contracts.datasets import DatasetRead
from seatrial.contracts.estimates import Estimate, Result
from seatrial.contracts.models import ModelRead
from seatrial.contracts.policies import Judgement
from seatrial.reporting.durations import duration, expected_range
from seatrial.reporting.numbers import format_estimate, format_interval, format_value
from seatrial.reporting.sizes import size

if TYPE_CHECKING:
    import pandas

ReportFormat = Literal[
    "html", "json", "markdown", "junit", "sarif", "cyclonedx", "model-index", "annex-iv", "annex-iv-markdown"
]
"""Formats of a report."""

MAX_ROWS = 50
"""Rows of a table in HTML; :meth:`to_frame` has them all."""


class _Printed:
    def __str__(self) -> str:
        # Pydantic's own is every field on one line.
        return repr(self)


class Number(_Printed, Estimate):
    """A number and the interval it is known to lie in."""

    def __repr__(self) -> str:
        return f"{format_estimate(self)}, n = {self.n:,}"

    def _repr_html_(self) -> str:
        rows = [(format_value(self), format_interval(self), f"{self.n:,}", self.method)]
        return _html([], ("value", "95 % interval", "n", "method"), rows)


class CheckResult(Result):
    """What a check measured."""

    estimates: dict[str, Number]  # type: ignore[assignment]


class Check(_Printed, CheckRead):
    """One check of an audit."""

    result: CheckResult | None = None

    def __repr__(self) -> str:
        return f"<Check {self.kind}: {self.state.value}>"


class Model(_Printed, ModelRead):
    """A stored model."""

    def __repr__(self) -> str:
        return f"<Model {self.id}: {self.name} {self.version}, {self.task}, {self.state.value}>"

    def _repr_html_(self) -> str:
        lines = [f"{self.name} {self.version}: {self.state.value}"]
        lines += [f"{self.problem.title}: {self.problem.detail}"] if self.problem is not None else []
        architecture = (self.manifest.get("architecture") or {}).get("kind", "")
        rows = [("id", self.id), ("task", self.task), ("architecture", architecture), ("digest", self.digest)]
        if self.facts is not None:
            rows += [("parameters", f"{self.facts.parameters:,}")] if self.facts.parameters is not None else []
            rows += [("classes", f"{self.facts.classes:,}")] if self.facts.classes is not None else []
        return _html(lines, ("model", ""), rows)


class Dataset(_Printed, DatasetRead):
    """A stored dataset."""

    def __repr__(self) -> str:
        return f"<Dataset {self.id}: {self.name} {self.version}, {self.task}, {self.facts.examples:,} examples>"

    def _repr_html_(self) -> str:
        rows = [("id", self.id), ("task", self.task), ("split", self.split), ("format", self.facts.format)]
        rows += [("examples", f"{self.facts.examples:,}"), ("classes", f"{self.facts.classes:,}")]
        rows += [("shape", ", ".join(map(str, self.facts.shape)))] if self.facts.shape else []
        return _html([f"{self.name} {self.version}"], ("dataset", ""), [*rows, ("digest", self.digest)])


class Cost(_Printed, AuditEstimate):
    """What an audit would cost."""

    def __repr__(self) -> str:
        return f"<Cost of {self.examples:,} examples: {self._time()}>"

    def _repr_html_(self) -> str:
        names = ("kind", "forward_passes", "backward_passes", "queries", "seconds")
        rows = [[check.get(name) for name in names] for check in self.checks]
        told = [
            [f"{cell:,}" if isinstance(cell, int) else "" if cell is None else cell for cell in row[:-1]]
            + ["" if row[-1] is None else duration(row[-1])]
            for row in rows
        ]
        lines = [f"{self.examples:,} examples: {self._time()}"]
        return _html(lines, ("check", "forward passes, at most", "backward passes", "queries", "time"), told)

    def _time(self) -> str:
        if self.seconds is None:
            return "the time is not known, the model has not been measured yet"
        told = f"about {duration(self.seconds)}"
        if self.seconds_low is not None and self.seconds_high is not None:
            told += f", {expected_range(self.seconds_low, self.seconds_high).removeprefix('expected ')}"
        return told if not self.memory_bytes else f"{told}; at most {size(self.memory_bytes)} of memory"


@dataclass(frozen=True)
class Figure:
    """A figure of a check.

    Attributes:
        check: Kind of the check.
        name: Of the figure.
        svg: The drawing.
    """

    check: str
    name: str
    svg: bytes

    def __repr__(self) -> str:
        return f"<Figure {self.name} of {self.check}>"

    def _repr_html_(self) -> str:
        # As an image: what is drawn in one runs no script.
        source = f"data:image/svg+xml;base64,{b64encode(self.svg).decode()}"
        return f'<img alt="{escape(self.name)} of {escape(self.check)}" src="{source}" style="max-width: 40rem">'

    def save(self, target: Path | str) -> Path:
        """Write the drawing to a file and return its path."""
        path = Path(target)
        path.write_bytes(self.svg)
        return path


class Figures(list[Figure]):
    """Figures, shown one below the other."""

    def _repr_html_(self) -> str:
        return "".join(f"<div>{figure._repr_html_()}</div>" for figure in self)


class AuditJudgement(_Printed, Judgement):
    """What a policy makes of an audit."""

    def __repr__(self) -> str:
        return f"<AuditJudgement {self.verdict}: {self.headline}>"

    def to_frame(self) -> "pandas.DataFrame":
        """Return a row per rule and number it names: all fields of a rule's outcome, the estimate's spread out.

        Raises:
            ModuleNotFoundError: pandas is not installed.
        """
        rows = [
            {**rule.model_dump(exclude={"estimate", "baseline", "judged"}), **_estimate_columns(rule.estimate)}
            for rule in self.rules
        ]
        return _frame(rows)

    def _repr_html_(self) -> str:
        rows = [
            (
                rule.outcome,
                rule.severity,
                rule.label,
                rule.requirement,
                "" if rule.estimate is None else format_estimate(rule.estimate),
                rule.reason,
            )
            for rule in self.rules
        ]
        return _html([self.headline], ("outcome", "severity", "rule", "requirement", "measured", "reason"), rows)


class Comparison(_Printed, ComparisonRead):
    """Audits side by side: of two the differences, of more mean and deviation of their groups."""

    def __repr__(self) -> str:
        if not self.differences:
            told = ", ".join(f"{group.name} ({len(group.audits)})" for group in self.groups)
            return f"<Comparison of {told}: {len(self.metrics)} numbers; to_frame() has them>"
        first, *others = self.differences.items()
        told = f"{first[0]} {format_estimate(first[1].difference)}, {first[1].trend}"
        return f"<Comparison {self._title()}: {told}; {len(others)} more numbers: to_frame() has them>"

    def to_frame(self) -> "pandas.DataFrame":
        """Return a row per number: of two audits both values and the difference, else a row per number and group.

        Columns of two audits: ``metric``, ``first``, ``second``, ``difference`` (the second less the first), ``low``,
        ``high``, ``n``, ``method``, ``trend``. Else: ``metric``, ``group``, ``mean``, ``sd``, ``n``.

        Raises:
            ModuleNotFoundError: pandas is not installed.
        """
        if not self.differences:
            return _frame(
                [
                    {"metric": metric, "group": group.name, **group.numbers[metric].model_dump(exclude={"values"})}
                    for metric in self.metrics
                    for group in self.groups
                ]
            )
        rows = []
        for metric, one in self.differences.items():
            columns = _estimate_columns(one.difference)
            values = {"first": one.first.value, "second": one.second.value, "difference": columns.pop("value")}
            rows.append({"metric": metric, **values, **columns, "trend": one.trend})
        return _frame(rows)

    def _repr_html_(self) -> str:
        if not self.differences:
            names = [group.name for group in self.groups]
            cells = [[f"{group.numbers[metric].mean:.4g}" for group in self.groups] for metric in self.metrics]
            rows: list[Sequence[object]] = [[metric, *told] for metric, told in zip(self.metrics, cells, strict=True)]
            return _html(["means"], ["metric", *names], rows)
        shown = [
            (name, *map(format_estimate, (one.first, one.second, one.difference)), one.trend)
            for name, one in self.differences.items()
        ]
        return _html([self._title()], ("metric", "first", "second", "difference", "the second is"), shown)

    def _title(self) -> str:
        audits = [f"{one.model_name} {one.model_version}" for group in self.groups for one in group.audits]
        return " and ".join(audits)


class ListedAudit(_Printed, AuditSummary):
    """An audit in a list."""

    def __repr__(self) -> str:
        verdict = "" if self.verdict is None else f", {self.verdict}"
        return f"<Audit {self.id}: {self.subject}, {self.state.value}{verdict}; {', '.join(self.kinds)}>"


class Audit(_Printed, AuditRead):
    """An audit with its checks.

    What a client returns reads on through it: :meth:`records` and :meth:`figures` wait for the service, or are awaited
    where the client is.
    """

    checks: list[Check]  # type: ignore[assignment]
    judgement: AuditJudgement | None = None
    _client: Any = PrivateAttr(default=None)

    def __repr__(self) -> str:
        verdict = "" if self.verdict is None else f", {self.verdict}"
        checks = ", ".join(f"{check.kind} {check.state.value}" for check in self.checks)
        return f"<Audit {self.id}: {self.subject}, {self.state.value}{verdict}; {checks}>"

    def read_by(self, client: Any) -> Self:
        """Return this audit, read on through a client."""
        self._client = client
        return self

    def records(self, check: str | int | None = None, *, stage: str = "") -> "pandas.DataFrame":
        """Return the examples behind a check's numbers, a row each.

        Args:
            check: Id, kind or position of the check; not needed where there is one.
            stage: Which stage of the check; by default its attack.

        Raises:
            ValueError: The audit has several checks, or is of no client.
            ProblemResponseError: The stage has no records.
            ModuleNotFoundError: pandas is not installed.
        """
        if check is None and len(self.checks) > 1:
            kinds = ", ".join(one.kind for one in self.checks)
            raise ValueError(f"check: the audit has several, {kinds}: say which")
        frame: pandas.DataFrame = self._through().records_frame(self.id, str(0 if check is None else check), stage)
        return frame

    def figures(self) -> Figures:
        """Return the figures of all checks; a notebook shows them.

        Raises:
            ValueError: The audit is of no client, or none of its checks has ended.
        """
        figures: Figures = self._through().figures(self)
        return figures

    def _through(self) -> Any:
        if self._client is None:
            raise ValueError("this audit was not read by a client: read it with client.audit(id)")
        return self._client

    def to_frame(self) -> "pandas.DataFrame":
        """Return a row per estimate, as measured so far.

        Columns: ``check`` (id), ``metric`` (full name), ``value``, ``low``, ``high``, ``n``, ``method``.

        Raises:
            ModuleNotFoundError: pandas is not installed.
        """
        rows = [
            {"check": check.id, "metric": f"{check.kind}.{name}", **_estimate_columns(estimate)}
            for check in self.checks
            if check.result is not None
            for name, estimate in check.result.estimates.items()
        ]
        return _frame(rows, ["check", "metric", *Estimate.model_fields])

    def _repr_html_(self) -> str:
        lines = [f"{self.id}: {self.state}"]
        lines += [self.judgement.headline] if self.judgement is not None else []
        lines += [f"{self.error.title}: {self.error.detail}"] if self.error is not None else []
        rows = []
        for check in self.checks:
            lines.append(f"{check.kind}: {check.state}")
            if check.error is not None:
                lines.append(f"{check.error.title}: {check.error.detail}")
            if check.result is not None:
                lines += [f"{flag.severity}: {flag.code}: {flag.message}" for flag in check.result.flags]
                for name, estimate in check.result.estimates.items():
                    rows.append((f"{check.kind}.{name}", format_value(estimate), format_interval(estimate), estimate.n))
        return _html(lines, ("metric", "value", "95 % interval", "n"), rows)


def _estimate_columns(estimate: Estimate | None) -> dict[str, Any]:
    return {name: getattr(estimate, name, None) for name in Estimate.model_fields}


def _frame(rows: Sequence[Mapping[str, Any]], columns: Sequence[str] | None = None) -> "pandas.DataFrame":
    try:
        pandas = importlib.import_module("pandas")
    except ModuleNotFoundError as error:
        if error.name != "pandas":
            raise
        raise ModuleNotFoundError("to_frame() needs pandas: pip install pandas", name="pandas") from error
    return pandas.DataFrame(rows, columns=columns)


def read_records(path: Path) -> "pandas.DataFrame":
    """Return a Parquet file as a DataFrame.

    Raises:
        ModuleNotFoundError: pandas is not installed.
    """
    _frame([])
    return importlib.import_module("pandas").read_parquet(path)


def _html(lines: Iterable[str], columns: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """Return lines and a table as HTML, everything escaped: names and messages come from files and models."""
    left_out = [f"{len(rows) - MAX_ROWS} more rows: to_frame() has them all"] if len(rows) > MAX_ROWS else []
    paragraphs, more = ("".join(f"<div>{escape(line)}</div>" for line in part) for part in (lines, left_out))
    head = "".join(f"<th>{escape(name)}</th>" for name in columns)
    body = "".join(
        "<tr>" + "".join(f"<td>{escape(str(cell))}</td>" for cell in row) + "</tr>" for row in rows[:MAX_ROWS]
    )
    table = f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>" if rows else ""
    return f"<div>{paragraphs}{table}{more}</div>"
