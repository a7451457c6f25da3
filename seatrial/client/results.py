"""Audits and verdicts as a notebook shows them: as HTML, and as a pandas DataFrame when asked."""

import importlib
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from typing import TYPE_CHECKING, Any, Literal

from seatrial.contracts.audits import AuditRead
from seatrial.contracts.estimates import Estimate
from seatrial.contracts.policies import Judgement
from seatrial.reporting.numbers import format_estimate, format_interval, format_value

if TYPE_CHECKING:
    import pandas

ReportFormat = Literal[
    "html", "json", "markdown", "junit", "sarif", "cyclonedx", "model-index", "annex-iv", "annex-iv-markdown"
]
"""Formats of a report."""

MAX_ROWS = 50
"""Rows of a table in HTML; :meth:`to_frame` has them all."""


class AuditJudgement(Judgement):
    """What a policy makes of an audit."""

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


class Audit(AuditRead):
    """An audit with its checks."""

    judgement: AuditJudgement | None = None

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
