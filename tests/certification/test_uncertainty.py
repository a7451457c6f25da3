import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import entr

from tests.certification.boxes import random_box, vertices
from workers.certification.simplex_box import (
    SimplexBox,
    is_ordered_alike,
    most_even,
    most_uneven,
    smallest,
)
from workers.certification.uncertainty import (
    UNCERTAINTIES,
    certified_uncertainty,
    largest_uncertainty,
    uncertainty_of,
)

EXACT = 1e-8


def instances(seed, number, most=7, *, alike=False):
    rng = np.random.default_rng(seed)
    for _ in range(number):
        yield random_box(rng, int(rng.integers(2, most)), alike=alike)


def by_slsqp(lower, upper, start):
    """Return the largest entropy that a general solver finds in the box."""
    found = minimize(
        lambda p: -entr(np.maximum(p, 0)).sum(),
        start,
        bounds=list(zip(lower, upper, strict=True)),
        constraints={"type": "eq", "fun": lambda p: p.sum() - 1},
        method="SLSQP",
        options={"ftol": 1e-12},
    )
    inside = np.all((found.x >= lower - 1e-9) & (found.x <= upper + 1e-9)) and abs(found.x.sum() - 1) < 1e-9
    return -found.fun if inside else -np.inf


def test_the_most_even_vector_is_in_the_box_and_no_vertex_or_mixture_is_more_uncertain() -> None:
    rng = np.random.default_rng(5)
    for lower, upper in instances(1, 400):
        (even,) = most_even(SimplexBox.read([lower], [upper]))
        assert even.sum() == pytest.approx(1, abs=1e-9)
        assert np.all((even >= lower - 1e-12) & (even <= upper + 1e-12))
        corners = vertices(lower, upper)
        mixed = rng.dirichlet(np.ones(len(corners)), 200) @ corners
        for name in UNCERTAINTIES:
            others = uncertainty_of(name, np.concatenate([corners, mixed]))
            assert uncertainty_of(name, even) >= others.max() - EXACT


def test_no_general_solver_finds_a_larger_entropy() -> None:
    for lower, upper in instances(2, 100):
        reach = certified_uncertainty("entropy", SimplexBox.read([lower], [upper]))
        assert by_slsqp(lower, upper, vertices(lower, upper).mean(0)) <= reach.high[0] + 1e-6


@pytest.mark.parametrize("alike", [False, True], ids=["any order", "ordered alike"])
@pytest.mark.parametrize("name", UNCERTAINTIES)
def test_the_least_uncertainty_is_that_of_a_vertex(name, alike) -> None:
    for lower, upper in instances(3, 350, alike=alike):
        reach = certified_uncertainty(name, SimplexBox.read([lower], [upper]))
        least = uncertainty_of(name, vertices(lower, upper)).min()
        assert reach.is_exact[0]
        assert reach.low[0] == pytest.approx(least, abs=EXACT)


def test_filling_downwards_is_exact_where_ordered_alike_and_below_everywhere() -> None:
    reached = 0
    for alike in (True, False):
        for lower, upper in instances(4, 300, alike=alike):
            box = SimplexBox.read([lower], [upper])
            filled = uncertainty_of("entropy", most_uneven(box).clip(0, 1))[0]
            least = uncertainty_of("entropy", vertices(lower, upper)).min()
            assert filled <= least + EXACT
            if is_ordered_alike(box)[0]:
                assert filled == pytest.approx(least, abs=EXACT)
            reached += alike and bool(is_ordered_alike(box)[0])
    assert reached == 300


@pytest.mark.parametrize("nodes", [0, 1, 2])
def test_a_search_that_is_stopped_is_below_the_truth_and_says_so(nodes) -> None:
    doubts = 0
    for lower, upper in instances(6, 300):
        box = SimplexBox.read([lower], [upper])
        found = smallest(box, lambda row: lambda p: entr(np.maximum(p, 0)), nodes)
        least = uncertainty_of("entropy", vertices(lower, upper)).min()
        assert found.value[0] <= least + EXACT
        assert not found.is_exact[0] or found.value[0] == pytest.approx(least, abs=EXACT)
        doubts += not found.is_exact[0]
    assert doubts > 0


def test_several_classes_in_one_column_are_bounded_as_all_ways_to_share_it_out() -> None:
    """The last column is a sum: nothing is known of how its classes share it."""
    rng = np.random.default_rng(7)
    for lower, upper in instances(8, 300, most=5):
        rest = int(rng.integers(2, 4))
        box = SimplexBox.read([lower], [upper], rest)
        corners = vertices(lower, upper)
        shares = np.concatenate([rng.dirichlet(np.ones(rest), 40), np.eye(rest), np.full((1, rest), 1 / rest)])
        every = np.concatenate(
            [np.hstack([corners[:, :-1], corners[:, -1:] * share]) for share in shares]
            + [np.hstack([most_even(box)[:, :-1], np.repeat(most_even(box)[:, -1:], rest, 1)])]
        )
        for name in UNCERTAINTIES:
            reach = certified_uncertainty(name, box)
            values = uncertainty_of(name, every)
            assert reach.low[0] == pytest.approx(values.min(), abs=EXACT)
            assert reach.high[0] == pytest.approx(values.max(), abs=EXACT)


def test_two_classes_have_closed_forms() -> None:
    box = SimplexBox.read([[0.6, 0.1], [0.2, 0.3]], [[0.9, 0.4], [0.7, 0.8]])
    for name in UNCERTAINTIES:
        reach = certified_uncertainty(name, box)
        of = [uncertainty_of(name, np.array([p, 1 - p])) for p in (0.6, 0.9, 0.2)]
        assert reach.high.tolist() == pytest.approx([of[0], largest_uncertainty(name, 2)])
        assert reach.low.tolist() == pytest.approx([of[1], of[2]])


@pytest.mark.parametrize("name", UNCERTAINTIES)
def test_ends_are_those_of_the_simplex_where_nothing_is_known(name) -> None:
    for classes in (2, 10, 1000):
        reach = certified_uncertainty(name, SimplexBox.read(np.zeros((1, classes)), np.ones((1, classes))))
        assert reach.low[0] == 0
        assert reach.high[0] == pytest.approx(largest_uncertainty(name, classes))
        assert reach.span[0] == pytest.approx(largest_uncertainty(name, classes))


def test_a_box_without_a_probability_vector_claims_nothing() -> None:
    box = SimplexBox.read([[0.7, 0.6], [0.1, 0.1]], [[0.8, 0.7], [0.2, 0.3]])
    assert box.lower.tolist() == [[0, 0], [0, 0]]
    assert box.upper.tolist() == [[1, 1], [1, 1]]


def test_wider_boxes_never_have_narrower_ends() -> None:
    rng = np.random.default_rng(9)
    for lower, upper in instances(10, 300):
        wider = SimplexBox.read([lower * rng.random(len(lower))], [upper + (1 - upper) * rng.random(len(lower))])
        for name in UNCERTAINTIES:
            inner, outer = (certified_uncertainty(name, one) for one in (SimplexBox.read([lower], [upper]), wider))
            assert outer.low[0] <= inner.low[0] + EXACT
            assert outer.high[0] >= inner.high[0] - EXACT


@pytest.mark.parametrize(
    ("lower", "upper", "rest"),
    [([[0.5]], [[0.4]], 1), ([[-0.1, 0.0]], [[1.0, 1.0]], 1), ([[0.0]], [[0.5, 0.5]], 1), ([[0.0]], [[1.0]], 0)],
)
def test_boxes_that_are_none_are_refused(lower, upper, rest) -> None:
    with pytest.raises(ValueError, match=r"lower|rest"):
        SimplexBox.read(lower, upper, rest)
