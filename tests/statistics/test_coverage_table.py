"""Every published metric is simulated by ``benchmarks/coverage.py``, or the benchmark refuses to begin."""

from dataclasses import replace

import numpy as np
import pytest

from benchmarks import coverage
from benchmarks.simulated import GROUPS
from seatrial.contracts.family import Metric

SAMPLE = 20


def test_every_metric_has_a_group_there_is() -> None:
    names = {one for groups in coverage.standing_for().values() for one in groups}
    assert {name.partition(".")[0] for name in names} <= {"shares", "none", *GROUPS}
    assert "none" in names


def test_a_metric_nobody_simulates_ends_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    made_up = Metric(name="made_up", unit="1", better="lower", description="Made up.", qualifiers=("arm",))
    known = coverage.metrics_of
    monkeypatch.setattr(coverage, "metrics_of", lambda kind: (*known(kind), made_up))
    with pytest.raises(LookupError, match=r"low_level_attack\.made_up\[arm\]"):
        coverage.standing_for()


@pytest.mark.parametrize("group", GROUPS)
def test_a_group_makes_the_intervals_its_metrics_are_named_by(group: str) -> None:
    made = GROUPS[group]
    draw = next(iter(made.populations.values()))
    sample = draw(np.random.default_rng(0), SAMPLE)
    found = {f"{group}.{name}".rstrip("."): ends for name, ends in made.ends(sample, 1).items()}
    wanted = {one for groups in coverage.standing_for().values() for one in groups if one.split(".")[0] == group}
    assert wanted <= set(found)
    assert all(ends is None or ends[0] <= ends[1] for ends in found.values())


def test_what_misses_is_counted_on_the_side_it_misses(monkeypatch: pytest.MonkeyPatch) -> None:
    ends = iter([(0.0, 0.1), (0.9, 1.0), (0.9, 1.0), (0.0, 1.0)] * 10)
    always = replace(GROUPS["means"], ends=lambda sample, seed: {"": next(ends)}, truth=lambda draw, rng: {"": 0.5})
    monkeypatch.setitem(coverage.GROUPS, "means", always)
    monkeypatch.setattr(coverage, "LEAST", 40)
    (cell,) = coverage.simulate("means", "even", SAMPLE, 0.0)
    assert (cell.times, cell.low, cell.high) == (40, 0.5, 0.25)
    assert cell.width == pytest.approx((0.1 + 0.1 + 0.1 + 1) / 4)


def test_enumerated_shares_hold() -> None:
    cells = list(coverage.enumerate_shares(50))
    assert {cell.population for cell in cells} == set(coverage.RATES)
    assert max(max(cell.low, cell.high) for cell in cells) <= 0.025
