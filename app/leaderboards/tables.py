"""A leaderboard as CSV and as Markdown."""

import csv
import io
import json
from collections.abc import Iterator, Sequence

from app.policies.judged import judged_of
from app.reports.markdown import code, prose
from seatrial.contracts.estimates import Estimate
from seatrial.contracts.leaderboards import LeaderboardRead, LeaderboardRow
from seatrial.reporting.numbers import format_estimate

MOST_COLUMNS = 5
"""Of numbers beside the one that sorts, in Markdown and on the page; CSV has them all."""


_LEADING = (
    *("rank", "rank_low", "rank_high", "model", "name", "version", "audit", "verdict", "flags"),
    *("difference", "difference low", "difference high", "varied", "efficient"),
)


def columns(board: LeaderboardRead) -> list[str]:
    """Return which numbers a page shows: the one that sorts, the one beside it, what policies judge."""
    if board.metric is None:
        return []
    first = [name for name in dict.fromkeys([board.metric, board.beside]) if name is not None]
    plain = [name for name in board.metrics if "[" not in name]
    others = [name for name in dict.fromkeys([*judged_of(board.check, board.metrics), *plain]) if name not in first]
    return [*first, *others[: MOST_COLUMNS - len(first)]]


def place_in_words(row: LeaderboardRow) -> str:
    """Return a rank, with the places comparisons leave open where there are several.

    >>> place_in_words(LeaderboardRow.model_construct(rank=2, rank_low=1, rank_high=3))
    '2 (1 to 3)'
    """
    if row.rank is None:
        return "-"
    return str(row.rank) if row.rank_low == row.rank_high else f"{row.rank} ({row.rank_low} to {row.rank_high})"


def has_ranges(board: LeaderboardRead) -> bool:
    """Return whether comparisons leave more than one place open to a model."""
    return any(row.rank_low != row.rank_high for row in board.rows)


def varied_in_words(row: LeaderboardRow) -> str:
    """Return the value of the parameter that rows may differ in.

    >>> varied_in_words(LeaderboardRow.model_construct(varied=[0.0, 0.25]))
    '[0.0, 0.25]'
    """
    return row.varied if isinstance(row.varied, str) else json.dumps(row.varied)


def render_csv(board: LeaderboardRead) -> str:
    """Return all numbers with their intervals, a line for each model.

    Values that a spreadsheet would take for a formula begin with an apostrophe.
    """
    written = io.StringIO()
    table = csv.writer(written, lineterminator="\n")
    numbers = [f"{name}{part}" for name in board.metrics for part in ("", " low", " high", " n")]
    table.writerow([*_LEADING, *numbers])
    for row in board.rows:
        flags = " ".join(f"{flag.code}:{flag.severity}" for flag in row.flags)
        told: list[object] = [row.rank, row.rank_low, row.rank_high, row.model, row.model_name, row.model_version]
        told += [row.audit, row.verdict, flags, *_ends(row.difference)[:3]]
        told += [None if row.varied is None else varied_in_words(row), row.is_efficient]
        for name in board.metrics:
            told += _ends(row.estimates.get(name))
        table.writerow([cell(value) for value in told])
    return written.getvalue()


def _ends(estimate: Estimate | None) -> list[object]:
    return [None] * 4 if estimate is None else [estimate.value, estimate.low, estimate.high, estimate.n]


def cell(value: object) -> str:
    """Return a value as CSV holds it; what a spreadsheet would take for a formula begins with an apostrophe."""
    if value is None:
        return ""
    # Names are letters, digits and ._-: of these alone a formula can begin with a sign.
    return f"'{value}" if isinstance(value, str) and value[:1] in ("-", "+", "=", "@") else str(value)


def render_markdown(board: LeaderboardRead) -> str:
    """Return a table for a comment or a page."""
    return "\n".join(_markdown(board)) + "\n"


def _markdown(board: LeaderboardRead) -> Iterator[str]:
    yield f"## {prose(f'{board.check} on {board.dataset_name} {board.dataset_version}')}"
    yield ""
    if board.group is None or board.metric is None:
        yield "No model has been measured by this check on this dataset."
        return
    shown = columns(board)
    titles = ["rank", "model", *([code(board.across)] if board.across else []), *map(code, shown)]
    titles += [*(["Pareto front"] if board.beside else []), *(["difference"] if board.against else []), "doubts"]
    yield line([title.replace("|", "\\|") for title in titles])
    yield line(["---"] * len(titles))
    for row in board.rows:
        told = [place_in_words(row), prose(f"{row.model_name} {row.model_version}")]
        told += [code(varied_in_words(row))] if board.across else []
        told += [number(row.estimates.get(name)) for name in shown]
        told += [{True: "yes", False: "no", None: "-"}[row.is_efficient]] if board.beside else []
        told += [number(row.difference)] if board.against else []
        flags = ", ".join(f"{flag.code} ({flag.severity})" for flag in row.flags)
        yield line([*told, prose(flags) if flags else "-"])
    yield ""
    note = f"{board.group.samples:,} examples each, seed {board.group.seed}, group {board.group.id}."
    if has_ranges(board):
        note += " A rank's range holds the places that comparisons of every two models leave open (95 %)."
    yield prose(note)


def line(cells: Sequence[str]) -> str:
    """Return a row of a Markdown table."""
    return f"| {' | '.join(cells)} |"


def number(estimate: Estimate | None) -> str:
    """Return an estimate for a cell of a Markdown table."""
    # A cell is no line: what would make a list of one needs no escape, and brackets might make a link.
    return "-" if estimate is None else format_estimate(estimate).replace("[", "\\[").replace("]", "\\]")
