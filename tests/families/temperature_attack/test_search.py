import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import brent

from workers.families.temperature_attack.search import RANGE, best, conclude, next_round


def run(quality, fitted: float = 1.0, budget: int = 20, method: str = "bounded"):
    """Search, replaying every round from nothing, and return what was evaluated and the rounds."""
    evaluated: list[tuple[float, float]] = []
    rounds = []
    while wanted := next_round(evaluated, fitted, budget, method):
        assert next_round(list(reversed(evaluated)), fitted, budget, method) == wanted
        assert not set(wanted) & {temperature for temperature, _ in evaluated}
        evaluated += [(temperature, quality(temperature)) for temperature in wanted]
        rounds.append(wanted)
        assert len(rounds) <= budget
    assert len(evaluated) <= budget
    return evaluated, rounds


def valley(centre: float, floor: float = 0.1, width: float = 1.5, step: float = 0.05):
    """Accuracy in steps, lowest within ``width`` / 2 decades of ``centre`` and rising by a step every half decade."""

    def quality(temperature: float) -> float:
        away = max(0.0, abs(math.log10(temperature) - centre) - width / 2)
        return min(0.8, floor + step * math.ceil(away / 0.5))

    return quality


@given(centre=st.floats(-9, 5), width=st.floats(0.8, 6))
def test_a_valley_wide_enough_is_found_wherever_it_is(centre, width) -> None:
    quality = valley(centre, width=width)
    evaluated, _ = run(quality)
    dense = min(quality(10**u) for u in np.linspace(*RANGE, 2001))
    assert quality(best(evaluated)) == dense


def test_a_valley_behind_a_wall_is_found_by_the_grid() -> None:
    def quality(temperature: float) -> float:
        return 0.2 if 1e-6 <= temperature <= 1e-3 else 0.7 if temperature < 5 else 0.6

    assert 1e-6 <= best(run(quality)[0]) <= 1e-3


def test_a_narrow_valley_at_the_fitted_temperature_is_found() -> None:
    def quality(temperature: float) -> float:
        return 0.1 if 90 < temperature < 110 else 0.9

    evaluated, _ = run(quality, fitted=97.5312345678)
    assert best(evaluated) == 97.5312


def test_the_first_round_has_what_the_specification_names_and_rounds_are_parallel() -> None:
    evaluated, rounds = run(valley(2.0), fitted=97.5)
    assert rounds[0][:3] == [1.0, 10.0, 97.5]
    assert {1e-10, 1e6} <= set(rounds[0])
    assert 10 <= len(rounds[0]) <= 12
    assert all(3 <= len(one) <= 4 or one is rounds[-1] for one in rounds[1:])
    assert len(evaluated) == 20


def test_the_search_stops_where_nothing_is_left_to_find() -> None:
    # Zero cannot be beaten, ...
    evaluated, rounds = run(lambda temperature: 0.0 if temperature > 50 else 0.5)
    assert len(rounds) == 1
    assert len(evaluated) < 20
    # ... and a bracket that is narrow enough is not cut further, however large the budget.
    evaluated, _ = run(lambda temperature: 0.5 + 0.01 * abs(math.log10(temperature) - 1), budget=200)
    assert len(evaluated) < 80
    nearest = sorted(abs(math.log10(temperature) - 1) for temperature, _ in evaluated)
    assert nearest[0] == 0
    assert nearest[2] < 0.05


@pytest.mark.parametrize("budget", [3, 4, 5, 7, 8, 20, 200])
def test_every_budget_is_kept_and_used(budget) -> None:
    evaluated, _ = run(lambda temperature: 0.3, budget=budget)
    assert {1.0, 10.0} <= {temperature for temperature, _ in evaluated}
    assert len(evaluated) == min(budget, len(evaluated))
    if budget <= 20:
        assert len(evaluated) == budget


def test_ties_go_to_the_temperature_nearest_one() -> None:
    assert best([(1e-3, 0.2), (100.0, 0.2), (1e4, 0.1), (1e5, 0.1)]) == 1e4
    assert best([(0.1, 0.2), (10.0, 0.2)]) == 0.1
    assert best(run(lambda temperature: 0.4)[0]) == 1.0


def test_a_plateau_is_cut_between_its_own_points_too() -> None:
    # All known points of the plateau are equal; the only better place lies between two of them.
    def quality(temperature: float) -> float:
        return 0.1 if 0.5 < math.log10(temperature) < 0.9 else 0.3 if temperature >= 0.5 else 0.8

    assert quality(best(run(quality, budget=30)[0])) == 0.1


def test_without_numbers_there_is_nothing_to_search() -> None:
    first = next_round([], 5.0, 20)
    assert next_round([(temperature, math.nan) for temperature in first], 5.0, 20) == []
    assert conclude([(temperature, math.nan) for temperature in first]).failure == "nothing_evaluated"
    assert conclude([]).temperature == 1.0
    # A fitted temperature beyond the range is tried all the same.
    assert 1e-15 in next_round([], 1e-15, 20)
    assert run(valley(-9.0), fitted=1e-15)[1]


def papers_code(quality):
    """Appendix G.1 as printed, with what it evaluated."""
    seen: list[float] = []

    def objective(temperature: float) -> float:
        seen.append(float(temperature))
        return quality(temperature)

    accuracy = objective(1.0)
    left, right = (1, 1e6) if objective(10.0) < accuracy else (1e-10, 1)
    return brent(objective, brack=(left, (left + right) / 2, right), maxiter=10), seen


@pytest.mark.parametrize("centre", [3e5, 5e5, 0.3, 0.7])
def test_the_papers_bracket_is_the_papers_code(centre) -> None:
    def quality(temperature: float) -> float:
        # Smooth, with a minimum SciPy accepts.
        return (
            0.5
            + 0.3 * abs(temperature - centre) / (abs(temperature) + centre)
            - 0.01 * (temperature == 10) * (centre > 10)
        )

    theirs, seen = papers_code(quality)
    evaluated, rounds = run(quality, method="paper_bracket", budget=50)
    assert conclude(evaluated, "paper_bracket").failure is None
    assert conclude(evaluated, "paper_bracket").temperature == theirs
    assert [temperature for temperature, _ in evaluated] == list(dict.fromkeys(seen))
    assert rounds[0] == [1.0, 10.0]
    assert all(len(one) == 1 for one in rounds[2:])


@pytest.mark.parametrize("centre", [0.0, 2.0, -6.0])
def test_where_scipy_refuses_the_papers_bracket_the_best_seen_is_kept_and_said(centre) -> None:
    quality = valley(centre)
    with pytest.raises(ValueError, match="Bracketing values"):
        papers_code(quality)
    evaluated, _ = run(quality, method="paper_bracket")
    outcome = conclude(evaluated, "paper_bracket")
    assert outcome.failure == "bracket_refused"
    assert outcome.temperature == best(evaluated)


def test_a_budget_ends_the_papers_search_before_its_time() -> None:
    def quality(temperature: float) -> float:
        return 0.5 - 0.01 * (temperature == 10) + abs(temperature - 3e5) / 1e7

    evaluated, _ = run(quality, method="paper_bracket", budget=6)
    assert len(evaluated) == 6
    assert conclude(evaluated, "paper_bracket").failure == "budget_spent"
