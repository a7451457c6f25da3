"""Scores that do not follow decisions: told by what edits do to them and to a surrogate fitted to labels alone."""

import math
import zlib
from collections.abc import Callable
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest
import torch
from scipy.special import log_softmax
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.naive_bayes import MultinomialNB

from seatrial.contracts.estimates import Flag
from tests import texts
from tests.families.temperature_attack.fabricated import records
from tests.families.temperature_attack.test_probe import PARAMS, SAMPLE, likely, probed
from workers.families.temperature_attack import estimates
from workers.families.temperature_attack.probe import ProbeSample
from workers.families.temperature_attack.surrogate import LabelSurrogate, surrogate_agreement, words_of

WORDS = {word: 1.0 for word in texts.POSITIVE} | {word: -1.0 for word in texts.NEGATIVE}


def opinion(text: str) -> float:
    """Return the praise in a text less its blame, each word at a weight of its own."""
    return sum(WORDS.get(word, 0.0) + weight(word) for word in words_of(text)) or 0.05


def weight(word: str) -> float:
    """Return a small number for any word there is."""
    return zlib.crc32(word.encode()) / 2**32 / 2 - 0.25


def honest(text: str) -> torch.Tensor:
    return likely(1 / (1 + math.exp(-opinion(text))))


def by_length(text: str) -> torch.Tensor:
    sure = 0.51 + 0.45 * (len(text) % 13) / 13
    return likely(sure if opinion(text) > 0 else 1 - sure)


def reversed_(text: str) -> torch.Tensor:
    """Is surer the nearer to a flip."""
    sure = 1 - 0.45 * math.tanh(abs(opinion(text)))
    return likely(sure if opinion(text) > 0 else 1 - sure)


def decided() -> tuple[list[str], list[int]]:
    rows = [text for text, _ in texts.sentences(200, seed=5)]
    return rows, [int(opinion(text) > 0) for text in rows]


def test_the_surrogate_is_naive_bayes_of_binary_counts() -> None:
    rows, decisions = decided()
    ours = LabelSurrogate(rows, decisions)
    vectorizer = CountVectorizer(binary=True, tokenizer=lambda text: sorted(words_of(text)), token_pattern=None)
    counted = vectorizer.fit_transform(rows)
    theirs = MultinomialNB(alpha=1.0, fit_prior=False).fit(counted, decisions)
    for example in SAMPLE[:10]:
        likelihoods = theirs.predict_joint_log_proba(vectorizer.transform([example.text]))[0]
        margin = likelihoods[1] - likelihoods[0]
        assert ours.margin(example.text, 1) == pytest.approx(margin, abs=1e-9)
        assert ours.margin(example.text, 0) == pytest.approx(-margin, abs=1e-9)
    assert ours.margin("words nobody ever wrote", 1) == ours.margin("", 1) == 0
    assert LabelSurrogate(rows, [1] * 200).margin(rows[0], 1) == 0


@pytest.mark.parametrize(("function", "is_followed"), [(honest, True), (by_length, False), (reversed_, False)])
def test_scores_that_follow_decisions_agree_with_it_and_others_do_not(
    function: Callable[[str], torch.Tensor], is_followed: bool
) -> None:
    probe = ProbeSample(probed(function))
    assert probe.written is not None
    agreement = surrogate_agreement(LabelSurrogate(*decided()), probe.written, probe.path)
    assert agreement is not None
    assert agreement.low <= agreement.correlation <= agreement.high
    assert (agreement.low > 0.1) is is_followed
    assert (agreement.low < 0.05) is not is_followed
    few = surrogate_agreement(LabelSurrogate(*decided()), probe.written[:3], probe.path[:3])
    assert few is None


def test_a_rank_correlation_is_scipys_over_the_edits_it_has_an_opinion_on() -> None:
    probe = ProbeSample(probed(honest))
    assert probe.written is not None
    surrogate, ours, theirs = LabelSurrogate(*decided()), [], []
    for path in probe.written:
        label = int(honest(path[0]).argmax())
        sign = 1 if label else -1
        for before, after in pairwise(path):
            moved = surrogate.margin(after, label) - surrogate.margin(before, label)
            if moved and int(honest(before).argmax()) == int(honest(after).argmax()):
                theirs.append(moved)
                ours.append(
                    sign * np.diff([np.diff(log_softmax(honest(text).numpy()))[0] for text in (before, after)])[0]
                )
    agreement = surrogate_agreement(surrogate, probe.written, probe.path)
    assert agreement is not None
    ranks = [np.unique(np.round(values, 9), return_inverse=True)[1] for values in (ours, theirs)]
    means = [np.array([np.flatnonzero(np.sort(one) == rank).mean() for rank in one]) for one in ranks]
    assert agreement.correlation == pytest.approx(np.corrcoef(*means)[0, 1], abs=0.02)
    assert agreement.edits == len(ours)


def flags(function: Callable[[str], torch.Tensor], label_only: float) -> dict[str, Flag]:
    """Return the flags of an audit whose every text says what was decided on it."""
    done = records(PARAMS, label_only=label_only)
    table = done["attack_deepwordbug"]
    sides = {side: [text for text, decision in zip(*decided(), strict=True) if decision == side] for side in (0, 1)}
    for prefix in ("", "as_served.", "calibrated.", "label_only."):
        decisions = table[f"{prefix}prediction"].to_pylist()
        written = [sides[decision][row % len(sides[decision])] for row, decision in enumerate(decisions)]
        table = table.set_column(table.column_names.index(f"{prefix}text"), f"{prefix}text", pa.array(written))
    done |= {"attack_deepwordbug": table, "probe": probed(function)}
    result = estimates.reduce(PARAMS, done, 0)
    assert result.series["surrogate_agreement"]["edits"] > 100
    return {flag.code: flag for flag in result.flags}


def test_it_is_told_where_labels_alone_found_more_and_nowhere_else() -> None:
    found = flags(by_length, label_only=6.0)["uninformative_scores"]
    assert found.severity == "error"
    assert "rank correlation" in found.message
    assert "uninformative_scores" not in flags(by_length, label_only=0.5)
    assert "uninformative_scores" not in flags(honest, label_only=6.0)
