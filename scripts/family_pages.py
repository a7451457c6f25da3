"""docs/metrics.md and docs/flags.md, made from what the families declare; `scripts/generate_docs.py` writes them."""

from collections.abc import Iterable

from seatrial.contracts.family import FlagSpec, Metric
from seatrial.contracts.flags import SHARED
from seatrial.contracts.registry import SHIPPED, family
from seatrial.families.narratives import narrative_of

KINDS = [point.name for point in SHIPPED]

BETTER = {"higher": "higher", "lower": "lower", "neither": ""}


def metrics_page() -> str:
    """Return docs/metrics.md: every number a policy can ask about."""
    lines = [
        "# Metrics",
        "",
        "Every number a policy can ask about, by family; a full name is `family.metric[qualifier=value,...]`. Made",
        "from the code by `scripts/generate_docs.py`. *Paired* numbers are means over examples: two audits of the same",
        "examples are compared example by example, others by their intervals.",
    ]
    for kind in KINDS:
        spec = family(kind)
        lines += ["", f"## {kind}", "", f"{narrative_of(kind).title(kind)}, of models for {' and '.join(spec.tasks)}."]
        lines += [
            "",
            *_table(("metric", "unit", "range", "better", "paired", "what it says"), map(_metric, spec.metrics)),
        ]
    return "\n".join(lines) + "\n"


def _metric(metric: Metric) -> tuple[str, ...]:
    keys = f"[{','.join(f'{key}=' for key in metric.qualifiers)}]" if metric.qualifiers else ""
    paired = "yes" if metric.per_example is not None else ""
    return f"`{metric.name}{keys}`", metric.unit, _range(metric), BETTER[metric.better], paired, _told(metric)


def _told(metric: Metric) -> str:
    """Return what reports call a metric, with the qualifiers' names for their values, and what it says."""
    label = metric.label.replace("{", "").replace("}", "")
    return f"*{label}.* {metric.description}" if label else metric.description


def _range(metric: Metric) -> str:
    """Return between which values a metric lies.

    >>> _range(Metric(name="mus", unit="nat", better="lower", description="", range=(0.0, None)))
    'from 0'
    """
    lowest, highest = metric.range
    if lowest is None:
        return "any" if highest is None else f"to {highest:g}"
    return f"from {lowest:g}" if highest is None else f"{lowest:g} to {highest:g}"


def flags_page() -> str:
    """Return docs/flags.md: every doubt a result may carry, with what it means and what to do."""
    lines = [
        "# Flags",
        "",
        "A flag is a doubt about the numbers themselves: read flags first. `error` means that the numbers must not be",
        "relied on, and no shipped policy passes such a check; `info` is worth knowing. Made from the code by",
        "`scripts/generate_docs.py`; the message of a flag says the same with the numbers at hand.",
        "",
        "## Of any family",
        "",
        "About the model, the data and the baseline.",
        "",
        *_flags(SHARED),
    ]
    for kind in KINDS:
        lines += ["", f"## {kind}", "", *_flags(family(kind).flags)]
    return "\n".join(lines) + "\n"


def _flags(flags: Iterable[FlagSpec]) -> list[str]:
    return _table(("flag", "severity", "about", "what it means", "what to do"), map(_flag, flags))


def _flag(flag: FlagSpec) -> tuple[str, ...]:
    about = "all numbers" if "*" in flag.speaks_of else ", ".join(f"`{name}`" for name in flag.speaks_of)
    return f"`{flag.code}`", ", ".join(flag.severities), about, flag.meaning, flag.remedy


def _table(heads: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> list[str]:
    return [_row(heads), f"|{' --- |' * len(heads)}", *map(_row, rows)]


def _row(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |"
