"""Arranges estimates for reading: numbers that differ only in one qualifier stand side by side.

``ece[arm=clean|over|under]`` is a row with three columns; radii and attacks, of which there may be many, are rows.
Numbers with two qualifiers are a table each: ``adversarial_accuracy[arm=,recipe=]`` has arms as rows and recipes as
columns. Where one of the two has a single value they are read as numbers with the other alone. Numbers over other
examples than those beside them, and numbers that guarantee nothing beside some that do, have tables of their own.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from seatrial.contracts.estimates import split_name
from seatrial.reporting.balls import format_radius
from seatrial.reporting.schemas import ReportEstimate
from seatrial.reporting.value_names import VALUES
from seatrial.reporting.words import words

TITLES: dict[tuple[str, ...], str] = {
    ("epsilon",): "Outliers",
    ("attack",): "Other attacks",
    ("radius",): "All examples, by radius",
    ("attack", "radius"): "Under attack",
    ("uncertainty",): "Uncertainty without an attack",
    ("defence", "attack"): "Under attack",
    ("level",): "Over all attackers, by level",
    ("attacker",): "Attackers by harm",
}
"""By the qualifiers of their numbers, what tables are called."""
ROW_QUALIFIERS = {"epsilon": "attack radius", "attack": "attack", "radius": "radius"}
"""Qualifiers whose values become rows, with the words over their column."""
SECTIONS: dict[tuple[str, ...], dict[str, str]] = {
    ("attack",): {"robust_accuracy": "After each attack of AutoAttack"},
    ("level",): dict.fromkeys(("score", "ece", "mean_confidence"), "Without noise"),
    ("radius",): {
        **dict.fromkeys(
            ("cce", "cbs", "ece", "certified_ks", "certified_kuiper", "cce_quantiles", "cce_any_bins"),
            "Examples certified at the radius",
        ),
        **dict.fromkeys(
            ("certified_coverage", "certified_set_size", "robust_coverage", "robust_set_size"),
            "Conformal prediction sets, on the half judged",
        ),
        **dict.fromkeys(("acce", "dece", "brier_ece"), "The same examples, for comparison: no guarantees"),
    },
}
"""Metrics that are not in the table of the others with the same qualifiers, and the title of theirs."""
FIRST = ("clean", "over", "under", "as_served")
"""Values that stand before all others, in this order."""
SECONDARY = frozenset({("attacker", "level")})
"""Qualifiers whose first one has a ranking above, which tells what matters most: their tables are folded away."""
BESIDE_RANKS = ("score", "relative_score", "flip_rate", "ece", "characters_changed")
"""What stands beside the ranks of attackers, at the level they are ranked at."""
MOST_COLUMNS = 4
"""Columns that fit a page; a qualifier with more values has rows instead."""


@dataclass(frozen=True)
class Row:
    """A row of a table.

    Attributes:
        heading: A metric's name, or what its numbers are of.
        description: What the metric says.
        unit: Unit of the metric.
        cells: A number per column; None where there is none.
        basis: What all its numbers rest on; nothing where they differ or where the table says it.
        is_name: Whether the heading is a name to be used in a policy.
    """

    heading: str
    description: str
    unit: str
    cells: list[ReportEstimate | None]
    basis: str = ""
    is_name: bool = True


@dataclass(frozen=True)
class EstimateTable:
    """Numbers that are read together.

    Attributes:
        title: What they have in common.
        corner: What the rows' headings are.
        columns: Headings of the columns.
        descriptions: What the columns say, where they are metrics, or all the numbers.
        rows: The numbers.
        basis: What all numbers rest on; nothing where they differ.
        column_bases: What the numbers of each column rest on, likewise, where the descriptions say so.
        is_secondary: Whether it is folded away.
    """

    title: str
    corner: str
    columns: list[str]
    descriptions: list[str]
    rows: list[Row]
    basis: str
    column_bases: list[str] = field(default_factory=list)
    is_secondary: bool = False

    def is_said(self, row: Row, column: int) -> bool:
        """Return whether it is said elsewhere what the number in a cell rests on."""
        return bool(self.basis or row.basis or (self.column_bases and self.column_bases[column]))


def arrange(estimates: list[ReportEstimate]) -> list[EstimateTable]:
    """Return the tables of a check's estimates, in the order their first numbers are published."""
    groups: dict[tuple[tuple[str, ...], str], list[ReportEstimate]] = {}
    for estimate in _most_harmful_first(estimates):
        base, qualifiers = split_name(estimate.name)
        keys = tuple(qualifiers)
        title = SECTIONS.get(keys, {}).get(base) or TITLES.get(keys, "")
        groups.setdefault((keys, title), []).append(estimate)
    return [
        table
        for (keys, title), group in groups.items()
        for table in ([_ranking(title, group, estimates)] if keys == ("attacker",) else _tables(keys, title, group))
    ]


def _most_harmful_first(estimates: list[ReportEstimate]) -> list[ReportEstimate]:
    """Return estimates with attackers in the order of their ranks, and that order before all other tables of them."""
    told = [split_name(estimate.name) for estimate in estimates]
    places = {of["attacker"]: one.value for (base, of), one in zip(told, estimates, strict=True) if base == "rank"}
    if not places:
        return estimates
    begun: dict[tuple[str, ...], int] = {}
    for at, (base, of) in enumerate(told):
        begun.setdefault((base, *of), at)
    first = min(begun[(base, *of)] for base, of in told if "attacker" in of)

    def place(at: int) -> tuple[float, float, int]:
        base, of = told[at]
        if "attacker" not in of:
            return begun[(base, *of)], 0.0, at
        harm = places.get(of["attacker"])
        return first - 0.5 if base == "rank" else begun[(base, *of)], math.inf if harm is None else harm, at

    return [estimates[at] for at in sorted(range(len(estimates)), key=place)]


def _ranking(title: str, ranks: list[ReportEstimate], estimates: list[ReportEstimate]) -> EstimateTable:
    """Return the table of attackers by rank, with what they did at the highest level."""
    told = [(*split_name(estimate.name), estimate) for estimate in estimates]
    highest = max((of["level"] for _, of, _ in told if {"attacker", "level"} == set(of)), key=_size, default=None)
    beside = {
        (of["attacker"], base): estimate
        for base, of, estimate in told
        if "attacker" in of and of.get("level") == highest and base in BESIDE_RANKS
    }
    columns = [base for base in BESIDE_RANKS if any(name == base for _, name in beside)]
    rows = []
    for rank in ranks:
        attacker = split_name(rank.name)[1]["attacker"]
        cells: list[ReportEstimate | None] = [rank, *(beside.get((attacker, base)) for base in columns)]
        rows.append(Row(value_words("attacker", attacker), "", "1", cells, is_name=False))
    bases = [_basis([found for row in rows if (found := row.cells[at]) is not None]) for at in range(len(columns) + 1)]
    return EstimateTable(
        title=f"{title}, at level {highest}" if highest else title,
        corner="attacker",
        columns=["rank", *columns],
        descriptions=[_described("rank", ranks[0], bases[0])],
        rows=rows,
        basis="",
        column_bases=[base or "told below" for base in bases],
    )


def _tables(keys: tuple[str, ...], title: str, group: list[ReportEstimate]) -> list[EstimateTable]:
    """Return the tables of numbers with the same qualifiers, and the title they have where it is one table."""
    told = [split_name(estimate.name)[1] for estimate in group]
    values = {key: list(dict.fromkeys(one[key] for one in told)) for key in keys}
    varying = [key for key in keys if len(values[key]) > 1] or list(keys[:1])
    fixed = ", ".join(_of(key, values[key][0]) for key in keys if key not in varying)
    is_secondary = keys in SECONDARY and len(values[keys[0]]) > 1
    if len(varying) < 2:
        table = _by_metric(varying[0] if varying else "", title, fixed, group)
        return [replace(table, is_secondary=is_secondary)]
    is_long = len(values[varying[0]]) <= MOST_COLUMNS < len(values[varying[1]])
    if len(varying) == 2 and (is_long or varying[1] == "radius"):
        varying.reverse()
    by_metric: dict[str, list[ReportEstimate]] = {}
    for estimate in group:
        by_metric.setdefault(split_name(estimate.name)[0], []).append(estimate)
    tables = [_matrix(metric, varying, fixed, numbers) for metric, numbers in by_metric.items()]
    return [replace(table, is_secondary=is_secondary) for table in tables]


def _matrix(metric: str, keys: list[str], fixed: str, group: list[ReportEstimate]) -> EstimateTable:
    """Return the table of one metric: its last qualifier across, the others down."""
    *down, across = keys
    cells: dict[tuple[str, ...], dict[str, ReportEstimate]] = {}
    for estimate in group:
        qualifiers = split_name(estimate.name)[1]
        cells.setdefault(tuple(qualifiers[key] for key in down), {})[qualifiers[across]] = estimate
    columns = _ordered(across, (value for row in cells.values() for value in row))
    rows = [
        _row(
            ", ".join(value_words(key, value) for key, value in zip(down, place, strict=True)),
            row,
            columns,
            is_name=False,
        )
        for place, row in sorted(cells.items(), key=lambda pair: _rank(down[0], pair[0][0]))
    ]
    unit = group[0].unit
    return EstimateTable(
        title=metric + (f" ({unit})" if unit not in ("", "1") else "") + (f", {fixed}" if fixed else ""),
        corner=" and ".join(down),
        columns=[_column(across, value) for value in columns],
        descriptions=[group[0].description] if group[0].description else [],
        rows=rows,
        basis=_basis(group),
    )


def _by_metric(key: str, title: str, fixed: str, group: list[ReportEstimate]) -> EstimateTable:
    """Return the table of several metrics that differ in one qualifier at most."""
    cells: dict[str, dict[str, ReportEstimate]] = {}
    for estimate in group:
        base, qualifiers = split_name(estimate.name)
        cells.setdefault(base, {})[qualifiers.get(key, "value")] = estimate
    values = _ordered(key, (value for row in cells.values() for value in row))
    first = {name: next(iter(row.values())) for name, row in cells.items()}
    basis = _basis(group)
    if key in ROW_QUALIFIERS or len(values) > MOST_COLUMNS:
        bases = {name: "" if basis else _basis(list(row.values())) for name, row in cells.items()}
        return EstimateTable(
            title=_title(key, title, fixed, values),
            corner=ROW_QUALIFIERS.get(key, key),
            columns=list(cells),
            descriptions=[told for name, one in bases.items() if (told := _described(name, first[name], one))],
            rows=[
                _row(
                    value_words(key, value),
                    {name: row[value] for name, row in cells.items() if value in row},
                    list(cells),
                    is_name=False,
                )
                for value in values
            ],
            basis=basis,
            column_bases=list(bases.values()),
        )
    return EstimateTable(
        title=_title(key, title, fixed, values),
        corner="metric",
        columns=[_column(key, value) for value in values],
        descriptions=[],
        rows=[
            _row(name, row, values, description=first[name].description, unit=first[name].unit)
            for name, row in cells.items()
        ],
        basis=basis,
    )


def _of(key: str, value: str) -> str:
    """Return what all numbers of a table are of; under a title that says attack, an attack is its name."""
    told = value_words(key, value)
    return told if key == "attack" else f"{key} {told}"


def _column(key: str, value: str) -> str:
    """Return what stands over a column: a level is a number that says nothing by itself."""
    told = value_words(key, value)
    return f"level {told}" if key == "level" else told


def _described(name: str, estimate: ReportEstimate, basis: str) -> str:
    told = f"{name}: {estimate.description}" if estimate.description else f"{name}." if basis else ""
    return f"{told} ({basis}.)" if basis else told


def _title(key: str, title: str, fixed: str, values: list[str]) -> str:
    if not key:
        return "Overall"
    found = "Unattacked and under attack" if "clean" in values else title or f"By {key}"
    return f"{found}: {fixed}" if fixed else found


def _row(
    heading: str,
    cells: dict[str, ReportEstimate],
    columns: list[str],
    *,
    description: str = "",
    unit: str = "",
    is_name: bool = True,
) -> Row:
    return Row(heading, description, unit, [cells.get(one) for one in columns], _basis(list(cells.values())), is_name)


def _ordered(key: str, values: Iterable[str]) -> list[str]:
    return sorted(dict.fromkeys(values), key=lambda value: _rank(key, value))


def _rank(key: str, value: str) -> tuple[int, float]:
    """Return where a value stands: radii by size, others as published behind those of ``FIRST``."""
    return FIRST.index(value) if value in FIRST else len(FIRST), _size(value) if key == "radius" else 0.0


def _size(value: str) -> float:
    try:
        return float(value)
    except ValueError:
        return math.inf


def value_words(key: str, value: str) -> str:
    """Return what people call a qualifier's value.

    >>> value_words("radius", "0"), value_words("radius", "0.25"), value_words("bound", "cdf")
    ('0 (no attacker)', '0.25', 'CDF certificate')
    """
    match key:
        case "epsilon":
            return "0 (unattacked)" if value == "0" else format_radius(value)
        case "radius":
            return "0 (no attacker)" if value == "0" else format_radius(value)
        case "level":
            return "0 (no noise)" if value == "0" else value
    return VALUES.get(key, {}).get(value) or words(value)


def _basis(group: list[ReportEstimate]) -> str:
    """Return the basis of all numbers of a table where they share one; the cells state it where they do not."""
    if not is_uniform(group):
        return ""
    return f"{group[0].n:,} examples; {_method(group)}"


def is_uniform(group: list[ReportEstimate]) -> bool:
    """Return whether all numbers rest on as many examples and the same kind of interval."""
    return len({(estimate.n, estimate.method) for estimate in group}) == 1


def _method(group: list[ReportEstimate]) -> str:
    has_intervals = any(estimate.low is not None for estimate in group)
    return f"95% intervals by {words(group[0].method)}" if has_intervals else "no intervals"


def open_end(estimate: ReportEstimate) -> str:
    """Return that an interval ends where the metric does; nothing where it does not."""
    if estimate.open_end is None:
        return ""
    return f"too few examples to bound it {'above' if estimate.open_end == 'high' else 'below'}"


def cell_basis(estimate: ReportEstimate) -> str:
    """Return what one number rests on; one that was given rests on nothing."""
    if estimate.n == 0 and estimate.value is not None:
        return "as given"
    return f"n = {estimate.n:,}, {'no interval' if estimate.low is None else words(estimate.method)}"


@dataclass(frozen=True)
class CountTable:
    """Counts that differ in the same qualifiers: what they are of, and a number per name; None where there is none."""

    corner: str
    columns: list[str]
    rows: list[tuple[str, list[int | None]]]


def arrange_counts(counts: dict[str, int]) -> tuple[dict[str, int], list[CountTable]]:
    """Return the counts of the whole, and tables of those of its parts (``robust[arm=,recipe=]``)."""
    whole: dict[str, int] = {}
    parts: dict[tuple[str, ...], dict[str, dict[str, int]]] = {}
    for name, count in counts.items():
        base, qualifiers = split_name(name)
        if not qualifiers:
            whole[name] = count
            continue
        of = ", ".join(value_words(key, value) for key, value in qualifiers.items())
        parts.setdefault(tuple(qualifiers), {}).setdefault(of, {})[base] = count
    tables = []
    for keys, rows in parts.items():
        columns = list(dict.fromkeys(base for row in rows.values() for base in row))
        cells = [(of, [row.get(base) for base in columns]) for of, row in rows.items()]
        tables.append(CountTable(corner=", ".join(keys), columns=columns, rows=cells))
    return whole, tables
