"""What the stages of checks cost, for the gauntlets' last lines."""

import statistics
from collections.abc import Mapping, Sequence


def costs_by_stage(rows: Sequence[Mapping[str, float]], unit: str) -> str:
    """Return a line a stage: its median and largest cost among the checks that ran it, and how many did.

    >>> print(costs_by_stage([{"attack": 3, "score": 10}, {"attack": 5}], "passes an example"))
    cost of each arm, passes an example: median, largest, checks that ran it
      attack       4      5    2
      score       10     10    1
    """
    names = list(dict.fromkeys(name for row in rows for name in row))
    width = max(map(len, names), default=0)
    lines = [f"cost of each arm, {unit}: median, largest, checks that ran it"]
    for name in names:
        found = [row[name] for row in rows if name in row]
        lines.append(f"  {name:{width}} {statistics.median(found):7,.0f} {max(found):6,.0f} {len(found):4}")
    return "\n".join(lines)
