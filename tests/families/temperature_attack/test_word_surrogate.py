"""Weights of words beside ridge regression by hand."""

import numpy as np
import pytest
from sklearn.linear_model import Ridge
from sklearn.model_selection import LeaveOneOut, cross_val_predict

from workers.families.temperature_attack.word_surrogate import STRENGTHS, fit_words

WORDS = [f"word{number}" for number in range(30)]


@pytest.mark.parametrize("texts", [20, 40])
def test_weights_are_those_of_ridge_regression_with_the_penalty_that_leaves_least(texts: int) -> None:
    rng = np.random.default_rng(texts)
    held = [rng.choice(WORDS, size=rng.integers(1, 9)).tolist() for _ in range(texts)]
    index = list(dict.fromkeys(word for words in held for word in words))
    inputs = np.array([[float(word in words) for word in index] for words in held])
    of_words = inputs @ rng.normal(size=len(index))
    answers = np.stack([of_words + rng.normal(size=texts) * noise + 3 for noise in (0.5, 2.0)], axis=1)
    for fitted, column in zip(fit_words(held, answers), answers.T, strict=True):

        def left_out(strength: float, column: np.ndarray = column) -> float:
            others = cross_val_predict(Ridge(alpha=strength), inputs, column, cv=LeaveOneOut())
            return float(np.sum((column - others) ** 2))

        best = min(STRENGTHS, key=left_out)
        assert STRENGTHS[0] < best < STRENGTHS[-1]
        assert list(fitted) == index
        assert list(fitted.values()) == pytest.approx(Ridge(alpha=best).fit(inputs, column).coef_.tolist(), abs=1e-7)


def test_what_never_moves_says_nothing() -> None:
    (fitted,) = fit_words([["one"], ["two", "one"], []], np.ones((3, 1)))
    assert set(fitted.values()) == {0.0}
    assert fit_words([[], []], np.array([[1.0], [2.0]])) == [{}]
