import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import roc_auc_score

from seatrial.statistics.intervals import counts
from seatrial.statistics.macro_auroc import MacroAuroc

rows = st.lists(
    st.tuples(*[st.tuples(st.booleans(), st.sampled_from([-2.0, 0.0, 0.1, 5.0])) for _ in range(3)]),
    min_size=2,
    max_size=25,
)


def by_sklearn(truths: np.ndarray, scores: np.ndarray) -> float:
    """The macro mean over classes that have both kinds of texts."""
    both = [number for number in range(truths.shape[1]) if 0 < truths[:, number].sum() < len(truths)]
    if not both:
        return float("nan")
    return float(roc_auc_score(truths[:, both], scores[:, both], average="macro"))


@given(rows)
def test_agrees_with_sklearn(pairs) -> None:
    truths = np.array([[label for label, _ in row] for row in pairs], dtype=int)
    scores = np.array([[score for _, score in row] for row in pairs])
    (found,) = MacroAuroc(truths, scores)(np.ones((1, len(pairs))))
    assert found == pytest.approx(by_sklearn(truths, scores), abs=1e-12, nan_ok=True)


def test_a_resample_is_scored_as_if_its_texts_were_repeated() -> None:
    rng = np.random.default_rng(2)
    truths, scores = (rng.random((20, 4)) < [0.5, 0.3, 0.1, 0.05]).astype(int), rng.normal(size=(20, 4)).round(1)
    weights = counts(rng, 60, 20)
    for value, weight in zip(MacroAuroc(truths, scores)(weights), weights, strict=True):
        times = weight.astype(int)
        expected = by_sklearn(np.repeat(truths, times, axis=0), np.repeat(scores, times, axis=0))
        assert value == pytest.approx(expected, nan_ok=True)


def test_a_class_that_all_texts_have_or_none_is_left_out() -> None:
    truths = np.array([[1, 0, 1], [1, 0, 0], [1, 0, 0]])
    scores = np.array([[0.1, 0.2, 0.9], [0.5, 0.1, 0.1], [0.4, 0.3, 0.2]])
    area = MacroAuroc(truths, scores)
    assert area.classes == [2]
    assert area(np.ones((1, 3))).tolist() == [1.0]
    assert np.isnan(MacroAuroc(truths[:, :2], scores[:, :2])(np.ones((2, 3)))).all()


def test_only_the_texts_present_count_whatever_their_weight() -> None:
    rng = np.random.default_rng(5)
    truths, scores = rng.integers(0, 2, (15, 2)), rng.normal(size=(15, 2))
    present = np.arange(15) % 3 != 0
    scores[~present] = np.nan
    (found,) = MacroAuroc(truths, scores, present)(np.ones((1, 15)))
    assert found == pytest.approx(by_sklearn(truths[present], scores[present]))


def test_matrices_that_do_not_fit_and_scores_that_are_no_numbers_are_refused() -> None:
    with pytest.raises(ValueError, match="one shape"):
        MacroAuroc([[1]], [[0.5, 0.5]])
    with pytest.raises(ValueError, match="numbers"):
        MacroAuroc([[1], [0]], [[np.nan], [0.5]])


def test_texts_not_seen_lower_or_raise_every_class_alone() -> None:
    rng = np.random.default_rng(6)
    truths = rng.random((30, 3)) < [0.5, 0.3, 0.1]
    scores = truths + rng.normal(size=(30, 3))
    areas, weights = MacroAuroc(truths, scores), rng.standard_exponential((5, 36))
    for side in (-1, 1):
        found = areas.with_unseen(side)(weights)
        for row, expected in zip(weights, found, strict=True):
            by_class = []
            for number in range(3):
                label = np.append(truths[:, number], [True, False])
                far = 99.0 * side
                score, weight = (
                    np.append(scores[:, number], [far, -far]),
                    np.append(row[:30], row[30 + 2 * number :][:2]),
                )
                by_class.append(roc_auc_score(label, score, sample_weight=weight))
            assert expected == pytest.approx(np.mean(by_class))
    assert (areas.with_unseen(-1)(weights) < areas.with_unseen(1)(weights)).all()
    nothing = np.concatenate([np.ones((1, 30)), np.zeros((1, 6))], axis=1)
    assert areas.with_unseen(1)(nothing) == pytest.approx(areas(np.ones((1, 30))))
