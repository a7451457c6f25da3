"""What answers to labelled texts say of a model, task by task: what was decided, how well, and whether it guesses."""

from collections.abc import Sequence
from typing import TypeAlias

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from seatrial.contracts.estimates import Estimate, Flag
from seatrial.contracts.models import MULTI_LABEL, TAGGING
from seatrial.statistics.estimating import share
from seatrial.statistics.intervals import resample
from workers.errors import PreflightError
from workers.models import Answer
from workers.models.guessing import unrelated_flags
from workers.models.validating import (
    ALPHA,
    CHANCE_EXAMPLES,
    CONSTANT_EXAMPLES,
    ERRORED,
    Decisions,
    PreflightReport,
    Wording,
    chance_flags,
    claim_flags,
    clean_accuracy,
    constant_flags,
)

Truths: TypeAlias = Sequence[tuple[int, ...]]

PERMUTATIONS = 999
UNTAGGED = -1
"""Decision about a token to which the model gives no tag."""
DOUBTFUL_SHARE = 0.05
"""Share of tokens without a tag, or of texts cut off, from which on it is a warning."""


def validate_answers(
    answers: Sequence[Answer],
    truths: Truths,
    labels: Sequence[str],
    *,
    task: str,
    stated: float | None,
    words: Wording,
) -> PreflightReport:
    """Return what was decided about each text, and doubts about how.

    Args:
        answers: Logits of each text, or why there are none; some are finite.
        truths: Truths of each text, as in :class:`workers.families.contexts.LabelledText`.
        labels: Names of classes or tags in the order of the logits.
        task: What the model does.
        stated: The accuracy its owner states.
        words: How its input is called.

    Raises:
        PreflightError: The model is not better than guessing.
    """
    if task == MULTI_LABEL:
        return _validate_labels(answers, truths, stated, words)
    if task == TAGGING:
        return _validate_tags(answers, truths, labels, stated, words)
    return _validate_classes(answers, truths, len(labels), stated, words)


def rows_of(logits: Tensor) -> Tensor:
    """Return logits of a text as one row, of a sentence (tokens, tags) the rows of the tokens that have a tag."""
    return logits[None] if logits.ndim == 1 else logits[~torch.isnan(logits).all(1)]


def is_finite(answer: Answer) -> bool:
    """Tell whether there is an answer from which something can be decided.

    A token without a tag is none to a sentence that has others; what is not finite in another way is.
    """
    if not isinstance(answer, Tensor):
        return False
    rows = rows_of(answer)
    return bool(torch.isfinite(rows).all()) and (len(rows) > 0 or not len(answer))


def decide(logits: Tensor, task: str) -> NDArray[np.int64]:
    """Return what finite logits decide: the class (1,), 0 or 1 of each label (classes,), the tag of each token.

    A label is given where its probability exceeds 0.5; a token without logits has ``UNTAGGED``.

    >>> decide(torch.tensor([0.1, -2.0, 3.0]), "multi-label-classification").tolist()
    [1, 0, 1]
    """
    if task == MULTI_LABEL:
        return (logits > 0).long().numpy()
    if task == TAGGING:
        return torch.where(torch.isnan(logits).all(1), UNTAGGED, logits.nan_to_num().argmax(1)).numpy()
    return logits.argmax(0, keepdim=True).numpy()


def guessing_test(scores: ArrayLike, truths: ArrayLike) -> tuple[float, float, float] | None:
    """Return macro AUROC and the exact chances that guessing gives as much, and as little.

    Guarantee: where scores have nothing to do with truths, each chance is at most alpha with probability at most alpha,
    however labels depend on each other (permutation test, Phipson and Smyth 2010: texts trade all their labels).

    Args:
        scores: (n, classes) finite.
        truths: (n, classes) 0 or 1. Classes all texts have, or none, are left out.

    Returns:
        None where no class is left.

    >>> value, above, below = guessing_test([[3.0], [2.0], [1.0], [0.0]] * 5, [[1], [1], [0], [0]] * 5)
    >>> value, above, below
    (1.0, 0.001, 1.0)
    """
    # Half a second, of which every worker would wait for what models of several labels need.
    from scipy.stats import rankdata

    values, has = np.asarray(scores, dtype=np.float64), np.asarray(truths, dtype=np.float64)
    positives = has.sum(axis=0)
    mixed = (positives > 0) & (positives < len(has))
    if not mixed.any():
        return None
    values, has, positives = values[:, mixed], has[:, mixed], positives[mixed]
    # The Mann-Whitney form of AUROC; its mean over classes is a sum of one entry per text of one matrix.
    pairs = positives * (len(has) - positives)
    won = rankdata(values, axis=0) / pairs @ has.T / len(pairs)
    least = float(np.mean((positives + 1) / 2 * positives / pairs))
    texts = np.arange(len(has))
    orders = np.random.default_rng(0).permuted(np.tile(texts, (PERMUTATIONS, 1)), axis=1)
    drawn = won[texts, orders].sum(axis=1)
    found = float(np.trace(won))
    above, below = (drawn >= found - 1e-9).sum(), (drawn <= found + 1e-9).sum()
    return round(found - least, 12), float(1 + above) / (1 + PERMUTATIONS), float(1 + below) / (1 + PERMUTATIONS)


def _validate_classes(
    answers: Sequence[Answer], truths: Truths, classes: int, stated: float | None, words: Wording
) -> PreflightReport:
    labels = np.asarray([truth for (truth,) in truths], dtype=np.int64)
    predictions = np.full(len(answers), ERRORED, dtype=np.int64)
    for number, answer in enumerate(answers):
        if isinstance(answer, Tensor) and is_finite(answer):
            predictions[number] = answer.argmax()
    flags = constant_flags(predictions, labels, words)
    accuracy = clean_accuracy(predictions, labels)
    # Whether the model guesses is asked of what it answers: an endpoint that is down guesses nothing.
    answered = sum(isinstance(answer, Tensor) for answer in answers)
    guessing = chance_flags(int((predictions == labels).sum()), answered, classes, words)
    flags += guessing or unrelated_flags(predictions, labels, words)
    return PreflightReport(predictions, accuracy, flags + claim_flags(accuracy, stated, words))


def _validate_labels(
    answers: Sequence[Answer], truths: Truths, stated: float | None, words: Wording
) -> PreflightReport:
    several = _compare(answers, truths, MULTI_LABEL)
    right = (several.correct == several.decided).astype(np.int64)
    accuracy = clean_accuracy(right, np.ones_like(right))
    given = [(answer, truth) for answer, truth in zip(answers, truths, strict=True) if is_finite(answer)]
    scores = np.stack([answer.double().numpy() for answer, _ in given if isinstance(answer, Tensor)])
    known = np.asarray([truth for _, truth in given], dtype=np.int64)
    flags = _alike_flags(scores > 0, known, words)
    flags += _label_chance_flags(scores, known, words)
    flags += claim_flags(accuracy, stated, words, measured="share of texts whose every label is right")
    return PreflightReport(np.full(len(answers), ERRORED, dtype=np.int64), accuracy, flags, several)


def _validate_tags(
    answers: Sequence[Answer], truths: Truths, labels: Sequence[str], stated: float | None, words: Wording
) -> PreflightReport:
    several = _compare(answers, truths, TAGGING)
    sentences = [
        (decide(answer, TAGGING), np.asarray(truth, dtype=np.int64))
        for answer, truth in zip(answers, truths, strict=True)
        if isinstance(answer, Tensor) and is_finite(answer)
    ]
    decided = np.concatenate([tags for tags, _ in sentences])
    known = np.concatenate([tags for _, tags in sentences])
    flags = _untagged_flags(decided)
    flags += constant_flags(decided[decided != UNTAGGED], known[decided != UNTAGGED], words)
    accuracy = _token_accuracy(several)
    flags += _tag_chance_flags(sentences, labels, words)
    flags += claim_flags(accuracy, stated, words, measured="token accuracy")
    return PreflightReport(np.full(len(answers), ERRORED, dtype=np.int64), accuracy, flags, several)


def _compare(answers: Sequence[Answer], truths: Truths, task: str) -> Decisions:
    errored, decided, correct = [], [], []
    for answer, truth in zip(answers, truths, strict=True):
        if isinstance(answer, Tensor) and is_finite(answer):
            decisions = decide(answer, task)
            counted = decisions != UNTAGGED
            errored.append(False)
            decided.append(int(counted.sum()))
            correct.append(int((decisions == np.asarray(truth))[counted].sum()))
        else:
            errored.append(True)
            decided.append(len(truth))
            correct.append(0)
    return Decisions(np.asarray(errored), np.asarray(decided, dtype=np.int64), np.asarray(correct, dtype=np.int64))


def _token_accuracy(several: Decisions) -> Estimate:
    """Return the share of right tags with an interval over sentences: their tokens are right or wrong together."""
    return share(several.correct.astype(np.float64), several.decided.astype(np.float64), alpha=ALPHA)


def _alike_flags(decided: NDArray[np.bool_], known: NDArray[np.int64], words: Wording) -> list[Flag]:
    """Doubt decisions (n, classes) that are the same for every text though the labels are not."""
    if len(decided) < CONSTANT_EXAMPLES or (known == known[:1]).all() or not (decided == decided[:1]).all():
        return []
    given = int(decided[0].sum())
    return [
        Flag(
            code="constant_predictions",
            severity="warning",
            message=f"All {len(decided)} texts are given the same labels ({given or 'none'} of {decided.shape[1]}), "
            f"though they have different ones: no probability crosses 0.5. Check {words.input}; if it is right, rates "
            "of decisions say little about this model, and AUROC says more.",
        )
    ]


def _label_chance_flags(scores: NDArray[np.float64], known: NDArray[np.int64], words: Wording) -> list[Flag]:
    """Compare scores (n, classes) with guessing.

    By how they rank texts, not by decisions at 0.5: where labels are rare, a model that ranks well may decide nothing,
    and one that never gives a label is nearly always right.
    """
    tested = guessing_test(scores, known)
    if tested is None:
        facts = f"No label is one that some of {len(known)} texts have and others have not"
    else:
        value, above, below = tested
        if above <= ALPHA:
            return []
        facts = f"Macro AUROC is {value:.3g} on {len(known)} texts; guessing gives 0.5 and does as well in {above:.0%}"
        positives = known.sum(axis=0)
        rarer = int(np.minimum(positives, len(known) - positives).sum())
        if below <= ALPHA or (len(known) >= CHANCE_EXAMPLES and rarer >= CONSTANT_EXAMPLES):
            raise PreflightError(
                "accuracy-at-chance",
                "The model is not better than guessing",
                f"{facts} of cases. Check {words.guessing} and the order of the labels",
                field="/model",
            )
        facts += " of cases"
    return [
        Flag(
            code="accuracy_near_chance",
            severity="warning",
            message=f"{facts}: too few examples of rare labels to tell the model from one that guesses. Audit more.",
        )
    ]


def _untagged_flags(decided: NDArray[np.int64]) -> list[Flag]:
    count = int((decided == UNTAGGED).sum())
    if not count:
        return []
    share = count / len(decided)
    return [
        Flag(
            code="tokens_untagged",
            severity="warning" if share >= DOUBTFUL_SHARE else "info",
            message=f"{count} of {len(decided)} tokens ({share:.1%}) are given no tag: they lie beyond the model's "
            "maximum length, or its tokenizer drops them. They count as no decisions, right or wrong.",
        )
    ]


def _tag_chance_flags(
    sentences: Sequence[tuple[NDArray[np.int64], NDArray[np.int64]]], labels: Sequence[str], words: Wording
) -> list[Flag]:
    """Compare tags with giving every token the most frequent one, by one-sided 95 % bootstrap bounds over sentences.

    Raises:
        PreflightError: The model is not better: mixed-up tags are far worse. One that is hardly better is only doubted,
            since where nearly all tokens have one tag even a good model is.
    """
    known = np.concatenate([truth[tags != UNTAGGED] for tags, truth in sentences])
    frequent = int(np.bincount(known).argmax()) if len(known) else 0
    ahead = np.asarray(
        [int((tags == truth).sum()) - int((truth[tags != UNTAGGED] == frequent).sum()) for tags, truth in sentences],
        dtype=np.float64,
    )
    common = int((known == frequent).sum())
    facts = (
        f"{common + int(ahead.sum())} of {len(known)} tokens are tagged correctly; {labels[frequent]!r} for "
        f"every one would be right for {common}"
    )
    if len(sentences) >= CONSTANT_EXAMPLES and common < len(known):
        drawn = resample(lambda weights: (weights @ ahead)[:, None], [len(ahead)], seed=0)[:, 0]
        low, high = np.quantile(drawn, [ALPHA, 1 - ALPHA])
        if low > 0:
            return []
        if high <= 0:
            raise PreflightError(
                "accuracy-at-chance",
                "The model is not better than guessing",
                f"{facts}. Check {words.guessing} and the order of the tags",
                field="/model",
            )
    return [
        Flag(
            code="accuracy_near_chance",
            severity="warning",
            message=f"{facts}: {len(sentences)} sentences do not tell the two apart. Audit more, or sentences with "
            "more kinds of tags.",
        )
    ]
