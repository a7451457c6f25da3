"""Arranges estimates for reading: numbers that differ only in one qualifier stand side by side.

``ece[arm=clean|over|under]`` is a row with three columns; radii and attacks, of which there may be many, are rows.
"""

from dataclasses import dataclass

from app.reports.numbers import radius
from app.reports.schemas import ReportEstimate

TITLES = {"arm": "Unattacked and under attack", "epsilon": "Outliers", "attack": "Other attacks"}
ROW_QUALIFIERS = {"epsilon": "attack radius", "attack": "attack"}
"""Qualifiers whose values become rows, with the words over their column."""
HEADINGS = {
    "clean": "unattacked",
    "over": "over-confidence attack",
    "under": "under-confidence attack",
    "value": "value",
}


@dataclass(frozen=True)
class Row:
    """A row of a table: its heading, what it says, and a cell per column (None where there is no number)."""

    heading: str
    description: str
    unit: str
    cells: list[ReportEstimate | None]


@dataclass(frozen=True)
class EstimateTable:
    """Numbers that are read together."""

    title: str
    corner: str
    columns: list[str]
    descriptions: list[str]
    rows: list[Row]
    basis: str


def split_name(name: str) -> tuple[str, dict[str, str]]:
    """Return a metric's name without its family, and its qualifiers.

    >>> split_name("uncertainty_span.s_ece[arm=over]")
    ('s_ece', {'arm': 'over'})
    """
    base, _, inside = name.partition("[")
    pairs = (pair.partition("=") for pair in inside.removesuffix("]").split(",") if pair)
    return base.rpartition(".")[2], {key: value for key, _, value in pairs}


def arrange(estimates: list[ReportEstimate]) -> list[EstimateTable]:
    """Return the tables of a check's estimates, in the order their first numbers are published."""
    groups: dict[tuple[str, ...], list[ReportEstimate]] = {}
    for estimate in estimates:
        groups.setdefault(tuple(split_name(estimate.name)[1]), []).append(estimate)
    return [_table(keys, group) for keys, group in groups.items()]


def _table(keys: tuple[str, ...], group: list[ReportEstimate]) -> EstimateTable:
    last = keys[-1] if keys else ""
    cells: dict[str, dict[str, ReportEstimate]] = {}
    for estimate in group:
        base, qualifiers = split_name(estimate.name)
        value = qualifiers.pop(last, "value")
        others = "".join(f" [{key}={text}]" for key, text in qualifiers.items())
        cells.setdefault(base + others, {})[value] = estimate
    published = list(dict.fromkeys(value for row in cells.values() for value in row))
    values = sorted(published, key=lambda value: list(HEADINGS).index(value) if value in HEADINGS else len(HEADINGS))
    first = {name: next(iter(row.values())) for name, row in cells.items()}
    title = TITLES.get(last, f"By {last}") if last else "Overall"
    if len(keys) > 1:
        title += f", by {', '.join(keys[:-1])}"
    if last in ROW_QUALIFIERS:
        return EstimateTable(
            title=title,
            corner=ROW_QUALIFIERS[last],
            columns=list(cells),
            descriptions=[
                f"{name}: {estimate.description}" for name, estimate in first.items() if estimate.description
            ],
            rows=[Row(_words(last, value), "", "", [row.get(value) for row in cells.values()]) for value in values],
            basis=_basis(group),
        )
    return EstimateTable(
        title=title,
        corner="metric",
        columns=[HEADINGS.get(value, value) for value in values],
        descriptions=[],
        rows=[
            Row(name, first[name].description, first[name].unit, [row.get(value) for value in values])
            for name, row in cells.items()
        ],
        basis=_basis(group),
    )


def _words(key: str, value: str) -> str:
    if key == "epsilon":
        return "0 (unattacked)" if value == "0" else radius(value)
    return value.replace("_", " ")


def _basis(group: list[ReportEstimate]) -> str:
    """Return what all numbers of a table rest on, where it is the same for all; the cells say it where it is not."""
    if not is_uniform(group):
        return ""
    return f"{group[0].n:,} examples; {_method(group[0])}"


def is_uniform(group: list[ReportEstimate]) -> bool:
    """Return whether all numbers rest on as many examples and the same kind of interval."""
    return len({(estimate.n, estimate.method) for estimate in group}) == 1


def _method(estimate: ReportEstimate) -> str:
    return "no intervals" if estimate.method == "none" else f"95% intervals by {estimate.method}"


def cell_basis(estimate: ReportEstimate) -> str:
    """Return what one number rests on."""
    return f"n = {estimate.n:,}, {'no interval' if estimate.method == 'none' else estimate.method}"
