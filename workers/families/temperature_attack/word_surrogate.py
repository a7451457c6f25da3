"""What single words speak for, by what a model answers to texts that hold them: ridge regression on its answers."""

from collections.abc import Collection, Mapping, Sequence

import numpy as np
from scipy.sparse import csr_array

from seatrial.statistics.arrays import Floats
from workers.data import Text
from workers.families.temperature_attack.displaced import lead
from workers.families.temperature_attack.ordinary import parts_of
from workers.families.temperature_attack.surrogate import words_of
from workers.models import Answer

STRENGTHS = tuple(np.geomspace(0.01, 1000.0, 16))
"""Of the penalty, of which leave-one-out takes one."""

DIGITS = 9
"""Of weights: what sums in another order leave ranks no words."""


def fit_words(texts: Sequence[Sequence[str]], answers: Floats) -> list[dict[str, float]]:
    """Return by how much each word moves answers of one kind or another.

    A word counts once in a text. The penalty is, for each kind, the one of :data:`STRENGTHS` with the least squared
    errors of answers that are left out one by one (Hastie et al. 2009, section 7.10.1).

    Args:
        texts: Words of each.
        answers: (n, kinds) by how much each speaks for a class.

    >>> (fitted,) = fit_words([["good"], ["good", "dull"], ["dull"], []], np.array([[1.0], [0.0], [-1.0], [0.0]]))
    >>> fitted["good"] > 0.9 > -0.9 > fitted["dull"]
    True
    """
    index = {word: at for at, word in enumerate(dict.fromkeys(word for words in texts for word in words))}
    places = [sorted({index[word] for word in words}) for words in texts]
    ends = np.cumsum([0, *map(len, places)])
    held = csr_array(
        (np.ones(ends[-1]), np.array([at for of in places for at in of], dtype=np.int64), ends),
        shape=(len(texts), len(index)),
    )
    # By texts, of which there are fewer than words where those are long.
    kernel = (held @ held.T).toarray()
    kernel -= kernel.mean(axis=0)
    kernel -= kernel.mean(axis=1, keepdims=True)
    values, vectors = np.linalg.eigh(kernel)
    is_held = values > 1e-9 * max(1.0, values.max(initial=0.0))
    values, vectors = values[is_held], vectors[:, is_held]
    squares, found = vectors**2, []
    for centred in (answers - answers.mean(axis=0)).T:
        along = vectors.T @ centred

        def left_out(strength: float, along: Floats = along, centred: Floats = centred) -> float:
            shares = values / (values + strength)
            errors = (centred - vectors @ (shares * along)) / (1 - 1 / len(texts) - squares @ shares)
            return float(np.sum(errors**2))

        weights = held.T @ (vectors @ (along / (values + min(STRENGTHS, key=left_out))))
        found.append(dict(zip(index, weights.round(DIGITS).tolist(), strict=True)))
    return found


def weigh_words(
    labels: Collection[int], texts: Sequence[Text], answers: Sequence[Answer]
) -> Mapping[int, Mapping[str, float]]:
    """Return by how much each word, in lower case, speaks for some classes, by class.

    Args:
        labels: Those.
        texts: What was asked.
        answers: To each.
    """
    held = [sorted(words_of(" ".join(parts_of(text)))) for text in texts]
    classes = sorted(set(labels))
    leads = [[lead(answer, label) for label in classes] for answer in answers]
    known = [(words, of) for words, of in zip(held, leads, strict=True) if None not in of]
    if len(known) < 2:
        return {}
    fitted = fit_words([words for words, _ in known], np.array([of for _, of in known], dtype=np.float64))
    return dict(zip(classes, fitted, strict=True))
