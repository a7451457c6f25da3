"""A comparison as CSV and as Markdown."""

import csv
import io
from collections.abc import Iterator

from app.leaderboards.tables import cell, line, number
from app.policies.judged import is_judged
from app.reports.markdown import code, prose
from seatrial.contracts.comparisons import ComparedAudit, ComparisonRead, GroupNumber
from seatrial.contracts.registry import each_once
from seatrial.reporting.numbers import format_aligned

MOST_COLUMNS = 8
"""Of numbers in Markdown; CSV has them all."""
MOST_ROWS = 15
"""Of two audits' numbers in Markdown, where fewer are judged."""


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
            one = group.numbers[name]
            told += [one.mean, one.sd, " ".join(map(repr, one.values))]
        table.writerow([cell(value) for value in told])
    return written.getvalue()


def render_markdown(comparison: ComparisonRead) -> str:
    """Return a table for a comment or a page, mean ± standard deviation in each cell."""
    return "\n".join(_markdown(comparison)) + "\n"


def _markdown(comparison: ComparisonRead) -> Iterator[str]:
    if not comparison.metrics:
        yield "These audits have no number in common that can be compared."
        return
    if comparison.differences:
        yield from _two(comparison)
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


def members(comparison: ComparisonRead) -> list[ComparedAudit]:
    """Return the audits of all groups, in the order asked for."""
    return [one for group in comparison.groups for one in group.audits]


def _two(comparison: ComparisonRead) -> Iterator[str]:
    """Yield two audits side by side: what shipped policies judge, then what differs, then as much as has room."""
    judged = [name for name in comparison.differences if is_judged(name)]
    apart = [name for name, one in comparison.differences.items() if one.trend in ("better", "worse", "changed")]
    shown = list(dict.fromkeys([*judged, *apart, *comparison.differences]))[: max(MOST_ROWS, len(judged))]
    # Of two training runs of one model, or of two that were put together.
    runs = comparison.groups[0] if len(comparison.groups) == 1 else None
    titles = ["number", "A", "B", "B minus A", "B is", *(["mean ± sd"] if runs else [])]
    yield line(titles)
    yield line(["---"] * len(titles))
    for name in shown:
        one = comparison.differences[name]
        numbers = [number(each) for each in (one.first, one.second, one.difference)]
        yield line(
            [code(name).replace("|", "\\|"), *numbers, one.trend, *([in_words(runs.numbers[name])] if runs else [])]
        )
    yield ""
    for side, audit in zip("AB", members(comparison), strict=True):
        doubts = ", ".join(dict.fromkeys(f"{flag.code} ({flag.severity})" for flag in audit.flags)) or "none"
        yield prose(f"{side}: {audit.model_name} {audit.model_version}, {audit.audit}; doubts: {doubts}.") + "  "
    yield prose(
        f"{comparison.samples:,} examples each, seed {comparison.seed}; a difference whose 95 % interval holds 0 is "
        "undecided."
    )
    left = len(comparison.differences) - len(shown), len(comparison.not_compared)
    told = [f"{left[0]} further numbers are in the JSON"] if left[0] else []
    told += [f"{left[1]} numbers cannot be compared, for the reasons in the JSON"] if left[1] else []
    if told:
        yield ""
        yield f"{'; '.join(told)}."
    if comparison.page is not None:
        yield ""
        yield f"In the console: {comparison.page}"


def in_words(one: GroupNumber) -> str:
    """Return a mean with its standard deviation, to the same last digit.

    >>> in_words(GroupNumber(mean=0.48912, sd=0.01234, n=3, values=[]))
    '0.4891 ± 0.0123'
    """
    if one.sd is None:
        return format_aligned([one.mean])[0]
    mean, sd = format_aligned([one.mean, one.sd])
    return f"{mean} ± {sd}"
