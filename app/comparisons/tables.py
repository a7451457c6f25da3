"""A comparison as CSV and as Markdown."""

import csv
import io
from collections.abc import Iterator

from app.leaderboards.tables import cell, line
from app.reports.markdown import code, prose
from seatrial.contracts.comparisons import ComparisonRead, GroupNumber
from seatrial.contracts.registry import each_once
from seatrial.reporting.numbers import format_aligned

MOST_COLUMNS = 8
"""Of numbers in Markdown; CSV has them all."""


def render_csv(comparison: ComparisonRead) -> str:
    """Return a line for each group: mean, standard deviation and every audit's value of all numbers."""
    written = io.StringIO()
    table = csv.writer(written, lineterminator="\n")
    numbers = [f"{name}{part}" for name in comparison.metrics for part in ("", " sd", " values")]
    table.writerow(["group", "n", "audits", "flags", *numbers])
    for group in comparison.groups:
        codes = dict.fromkeys(f"{flag.code}:{flag.severity}" for one in group.audits for flag in one.flags)
        told: list[object] = [group.name, len(group.audits), " ".join(one.audit for one in group.audits)]
        told.append(" ".join(codes))
        for name in comparison.metrics:
            number = group.numbers[name]
            told += [number.mean, number.sd, " ".join(map(repr, number.values))]
        table.writerow([cell(value) for value in told])
    return written.getvalue()


def render_markdown(comparison: ComparisonRead) -> str:
    """Return a table for a comment or a page, mean ± standard deviation in each cell."""
    return "\n".join(_markdown(comparison)) + "\n"


def _markdown(comparison: ComparisonRead) -> Iterator[str]:
    if not comparison.metrics:
        yield "These audits have no number in common that can be compared."
        return
    names = each_once(comparison.metrics)
    shown = names[:MOST_COLUMNS]
    titles = ["group", "runs", *map(code, shown), "doubts"]
    yield line([title.replace("|", "\\|") for title in titles])
    yield line(["---"] * len(titles))
    for group in comparison.groups:
        codes = dict.fromkeys(f"{flag.code} ({flag.severity})" for one in group.audits for flag in one.flags)
        told = [prose(group.name), str(len(group.audits)), *(in_words(group.numbers[name]) for name in shown)]
        yield line([*told, prose(", ".join(codes)) if codes else "-"])
    yield ""
    yield prose(
        f"Mean ± standard deviation over training runs (n - 1), {comparison.samples:,} examples each, seed "
        f"{comparison.seed}."
    )
    if len(names) > len(shown):
        yield ""
        yield f"{len(names) - len(shown)} further numbers are in the CSV."


def in_words(number: GroupNumber) -> str:
    """Return a mean with its standard deviation, to the same last digit.

    >>> in_words(GroupNumber(mean=0.48912, sd=0.01234, n=3, values=[]))
    '0.4891 ± 0.0123'
    """
    if number.sd is None:
        return format_aligned([number.mean])[0]
    mean, sd = format_aligned([number.mean, number.sd])
    return f"{mean} ± {sd}"
