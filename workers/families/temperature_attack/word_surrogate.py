"""What single words speak for, by what a model answers to texts that hold them: ridge regression on its answers."""

import itertools
from collections.abc import Collection, Mapping, Sequence

import numpy as np
from scipy.sparse import csr_array, diags_array

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
    values, of_texts, of_words = _components(held)
    squares, found = of_texts**2, []
    for centred in (answers - answers.mean(axis=0)).T:
        along = of_texts.T @ centred

        def left_out(strength: float, along: Floats = along, centred: Floats = centred) -> float:
            errors = centred - of_texts @ (along / (values + strength))
            return float(np.sum((errors / (1 - 1 / len(texts) - squares @ (1 / (values + strength)))) ** 2))

        weights = of_words @ (along / (values + min(STRENGTHS, key=left_out)))
        found.append(dict(zip(index, weights.round(DIGITS).tolist(), strict=True)))
    return found


def _components(held: csr_array) -> tuple[Floats, Floats, Floats]:
    """Return the principal components of words in texts: variances (k,), of texts (texts, k) and of words (words, k).

    The product of the latter two is what each text holds less what all hold on average. By texts or by words, of which
    there are fewer: words that come in the same texts are one, as many times as long as the root of their number.

    Args:
        held: (texts, words) what each holds.
    """
    columns = held.tocsc()
    ends = [columns.indices[first:last].tobytes() for first, last in itertools.pairwise(columns.indptr)]
    kinds = {ends_of: kind for kind, ends_of in enumerate(dict.fromkeys(ends))}
    kind_of = np.array([kinds[ends_of] for ends_of in ends], dtype=np.int64)
    roots = np.sqrt(np.bincount(kind_of, minlength=len(kinds)))
    firsts = np.unique(kind_of, return_index=True)[1]
    kept = (columns[:, firsts] @ diags_array(roots)).tocsr()
    texts, usual = kept.shape[0], kept.mean(axis=0)
    if texts <= len(kinds):
        products = (kept @ kept.T).toarray()
        products -= products.mean(axis=0)
        products -= products.mean(axis=1, keepdims=True)
    else:
        products = (kept.T @ kept).toarray() - texts * np.outer(usual, usual)
    values, vectors = np.linalg.eigh(products)
    is_held = values > 1e-9 * max(1.0, values.max(initial=0.0))
    values, vectors = values[is_held], vectors[:, is_held]
    if texts <= len(kinds):
        of_texts, of_kinds = vectors * np.sqrt(values), kept.T @ vectors / np.sqrt(values)
    else:
        of_texts, of_kinds = kept @ vectors - usual @ vectors, vectors
    return values, of_texts, (of_kinds / roots[:, None])[kind_of]


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
