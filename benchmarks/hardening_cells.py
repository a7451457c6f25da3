"""Cells of a table of trainings: measured one at a time, kept in a file, shown as mean and deviation over seeds."""

import json
import os
import statistics
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from torch import Tensor

from seatrial.contracts.training import methods
from workers.training.data import InMemory
from workers.training.engine import Outcome, train
from workers.training.models import Trainable

Numbers = dict[str, float]


class Cells:
    """What was measured, by cell: a file that a kill leaves with all cells but the one under way.

    Args:
        path: JSON file, made if missing.
        sizes: What all cells share; a file of other sizes is refused.
    """

    def __init__(self, path: Path, sizes: dict[str, Any]) -> None:
        self._path = path
        kept = json.loads(path.read_text()) if path.exists() else {"sizes": sizes, "cells": {}}
        if kept["sizes"] != json.loads(json.dumps(sizes)):
            raise SystemExit(f"{path} holds cells of other sizes: {kept['sizes']}")
        self._kept: dict[str, Any] = kept

    def measure(self, name: str, seed: int, work: Callable[[], Numbers]) -> Numbers:
        """Return a cell's numbers, measured now unless they are kept."""
        key = f"{name} / {seed}"
        found: dict[str, Numbers] = self._kept["cells"]
        if key not in found:
            found[key] = work()
            draft = self._path.with_suffix(".draft")
            draft.write_text(json.dumps(self._kept, indent=1))
            os.replace(draft, self._path)
            print(key, {name: round(value, 4) for name, value in found[key].items()}, flush=True)
        return found[key]

    def values(self, name: str, seeds: Iterable[int], number: str) -> list[float]:
        """Return a number of a cell over those seeds that are measured and have it."""
        cells: dict[str, Numbers] = self._kept["cells"]
        rows = [cells.get(f"{name} / {seed}", {}) for seed in seeds]
        return [row[number] for row in rows if number in row]


def format_cell(values: Sequence[float], *, digits: int = 1, times: float = 100.0) -> str:
    """Return mean +- sample standard deviation; the number of seeds where it is not three.

    >>> format_cell([0.1, 0.2, 0.3])
    '20.0 +- 10.0'
    >>> format_cell([])
    '-'
    """
    if not values:
        return "-"
    scaled = [times * value for value in values]
    spread = f" +- {statistics.stdev(scaled):.{digits}f}" if len(scaled) > 1 else ""
    count = "" if len(scaled) == 3 else f" (n = {len(scaled)})"
    return f"{statistics.fmean(scaled):.{digits}f}{spread}{count}"


def harden(
    model: Trainable,
    slug: str,
    body: dict[str, Any],
    data: tuple[Any, Any],
    validation: tuple[Any, Any],
    *,
    seed: int,
    folder: Path | None = None,
) -> Outcome:
    """Train a model in place by a method of the library, keep the last epoch's weights, and return the curves."""
    spec = methods()[slug]
    params = spec.params.model_validate({"method": slug, "keep": "last", **body})
    learnt, held_out = (InMemory(_raw(inputs), np.asarray(labels, np.int64)) for inputs, labels in (data, validation))
    return train(model, spec.load()(params, model), params, learnt, held_out, seed=seed, folder=folder)


def _raw(inputs: Any) -> Any:
    return inputs if isinstance(inputs, Tensor) else list(inputs)


def table(titles: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a Markdown table."""
    lines = [titles, ["---"] * len(titles), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)
