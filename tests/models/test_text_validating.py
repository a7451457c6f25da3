"""What answers say of a model: each number against a second way of finding it."""

import itertools

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import accuracy_score, roc_auc_score

from seatrial.statistics.exact import clopper_pearson
from workers.errors import PreflightError
from workers.models import UnansweredError
from workers.models.text_checks import MODULE
from workers.models.text_validating import PERMUTATIONS, decide, guessing_test, is_finite, validate_answers
from workers.models.validating import ERRORED, PreflightReport

MULTI, TAGS = "multi-label-classification", "token-classification"
NAN = float("nan")
SILENT = UnansweredError("HTTP 503")


def _judge(answers: list, truths: list, task: str, stated: float | None = None, classes: int = 3) -> PreflightReport:
    labels = ["ADJ", "NOUN", "VERB"][:classes]
    return validate_answers(answers, truths, labels, task=task, stated=stated, words=MODULE)


def _codes(report: PreflightReport) -> list[str]:
    return [flag.code for flag in report.flags]


@given(seed=st.integers(0, 10_000), n=st.integers(2, 40), classes=st.integers(1, 5))
def test_macro_auroc_is_scikit_learns_over_classes_some_have_and_some_have_not(seed: int, n: int, classes: int) -> None:
    rng = np.random.default_rng(seed)
    # Few values: ties between texts with the label and without.
    scores, truths = rng.integers(0, 6, (n, classes)) / 2, (rng.random((n, classes)) < 0.4).astype(int)
    mixed = [column for column in range(classes) if 0 < truths[:, column].sum() < n]
    found = guessing_test(scores, truths)
    if not mixed:
        assert found is None
        return
    assert found is not None
    want = np.mean([roc_auc_score(truths[:, column], scores[:, column]) for column in mixed])
    assert found[0] == pytest.approx(want, abs=1e-9)
    assert 0 < found[1] <= 1
    assert found[1] + found[2] >= 1


def test_the_chances_of_guessing_are_those_of_all_permutations() -> None:
    rng = np.random.default_rng(4)
    scores, truths = rng.normal(size=(6, 2)), np.asarray([[1, 0], [0, 0], [1, 1], [0, 1], [0, 0], [1, 0]])

    def macro(rows: tuple[int, ...]) -> float:
        areas = []
        for column in range(2):
            has, score = truths[list(rows), column] == 1, scores[:, column]
            areas.append((score[has][:, None] > score[~has]).mean())
        return float(np.mean(areas))

    every = np.asarray([macro(rows) for rows in itertools.permutations(range(6))])
    found = guessing_test(scores, truths)
    assert found is not None
    # Four standard deviations of a share of 999 draws.
    wide = 4 * np.sqrt(0.25 / PERMUTATIONS)
    assert found[1] == pytest.approx(np.mean(every >= macro(tuple(range(6))) - 1e-9), abs=wide)
    assert found[2] == pytest.approx(np.mean(every <= macro(tuple(range(6))) + 1e-9), abs=wide)


def test_guessing_is_seldom_taken_for_knowledge_though_labels_go_together() -> None:
    taken = 0
    for seed in range(300):
        rng = np.random.default_rng(seed)
        kind, guess = rng.random((20, 1)) < 0.3, rng.normal(size=(20, 1))
        # Five labels that are nearly one, and five scores that are nearly one: five times the same evidence.
        truths, scores = kind ^ (rng.random((20, 5)) < 0.05), guess + 0.1 * rng.normal(size=(20, 5))
        found = guessing_test(scores, truths)
        taken += found is not None and found[1] <= 0.05
    # 15 are expected; more than 30 of 300 has a chance of 2e-4.
    assert taken <= 30


def test_what_is_decided_at_even_odds_and_without_logits() -> None:
    assert decide(torch.tensor([0.0, 1e-6, -3.0]), MULTI).tolist() == [0, 1, 0]
    assert decide(torch.tensor([[0.0, 2.0], [NAN, NAN], [3.0, 1.0]]), TAGS).tolist() == [1, -1, 0]
    assert decide(torch.empty(0, 4), TAGS).tolist() == []
    assert decide(torch.tensor([0.0, 2.0, 1.0]), "text-classification").tolist() == [1]


@pytest.mark.parametrize(
    ("answer", "wanted"),
    [
        (SILENT, False),
        (torch.tensor([1.0, NAN]), False),
        (torch.tensor([1.0, 2.0]), True),
        (torch.tensor([[1.0, 2.0], [NAN, NAN]]), True),
        (torch.tensor([[1.0, 2.0], [NAN, 1.0]]), False),
        (torch.tensor([[1.0, float("inf")], [0.0, 1.0]]), False),
        (torch.tensor([[NAN, NAN]]), False),
        (torch.empty(0, 2), True),
    ],
    ids=["none", "nan", "text", "untagged", "half", "inf", "all untagged", "no tokens"],
)
def test_a_token_without_a_tag_is_no_error_but_a_sentence_without_any_is(answer: object, wanted: bool) -> None:
    assert is_finite(answer) is wanted  # type: ignore[arg-type]


def _labels(n: int, seed: int = 0) -> tuple[list, list]:
    """Texts a third of whose labels are given, and logits that know them with some mistakes."""
    rng = np.random.default_rng(seed)
    truths = (rng.random((n, 3)) < 0.35).astype(int)
    scores = 3.0 * truths - 1.5 + rng.normal(size=(n, 3))
    return list(torch.from_numpy(scores)), [tuple(row) for row in truths.tolist()]


def test_a_text_is_right_when_its_every_label_is() -> None:
    answers, truths = _labels(80)
    report = _judge(answers, truths, MULTI)
    decided = (torch.stack(answers) > 0).long().numpy()
    right = round(accuracy_score(np.asarray(truths), decided) * 80)
    found = report.clean_accuracy
    assert (found.value, found.n, found.method) == (right / 80, 80, "clopper-pearson")
    assert (found.low, found.high) == pytest.approx(clopper_pearson(right, 80))
    assert report.several is not None
    assert report.several.decided.tolist() == [3] * 80
    assert report.several.correct.tolist() == (decided == np.asarray(truths)).sum(1).tolist()
    assert (report.predictions == ERRORED).all()
    assert not report.errored.any()
    assert _codes(report) == []
    assert _codes(_judge(answers, truths, MULTI, stated=0.99)) == ["clean_accuracy_differs"]
    assert "whose every label is right" in _judge(answers, truths, MULTI, stated=0.99).flags[0].message


def test_texts_without_an_answer_are_wrong_and_do_not_make_a_model_guess() -> None:
    answers, truths = _labels(90)
    silent = [SILENT if place % 3 == 0 else answer for place, answer in enumerate(answers)]
    report = _judge(silent, truths, MULTI)
    assert report.several is not None
    assert report.errored.tolist() == [place % 3 == 0 for place in range(90)]
    assert report.several.correct[::3].tolist() == [0] * 30
    assert _codes(report) == []


def test_labels_in_another_order_are_guessing() -> None:
    answers, truths = _labels(100)
    with pytest.raises(PreflightError, match="order of the labels") as caught:
        _judge([answer.roll(1) for answer in answers], truths, MULTI)
    assert (caught.value.problem.code, caught.value.problem.field) == ("accuracy-at-chance", "/model")
    # What is worse than guessing shows on fewer texts.
    with pytest.raises(PreflightError):
        _judge([-answer for answer in answers[:20]], truths[:20], MULTI)
    assert _codes(_judge([answer.roll(1) for answer in answers[:20]], truths[:20], MULTI)) == ["accuracy_near_chance"]


def test_a_model_that_ranks_well_and_decides_nothing_is_only_doubted() -> None:
    answers, truths = _labels(80)
    report = _judge([answer - 100 for answer in answers], truths, MULTI)
    assert _codes(report) == ["constant_predictions"]
    assert "none of 3" in report.flags[0].message


def test_a_label_on_one_text_of_many_is_too_little_to_refuse_by() -> None:
    answers = list(torch.linspace(-3, 3, 100)[:, None])
    truths = [(int(place == 50),) for place in range(100)]
    assert "accuracy_near_chance" in _codes(_judge(answers, truths, MULTI, classes=1))
    nobody = [(0,)] * 100
    assert "No label is one that some" in _judge(answers, nobody, MULTI, classes=1).flags[-1].message


def _sentences(n: int, wrong: float, seed: int = 0) -> tuple[list, list]:
    """Sentences of 1 to 9 tokens, half of which are ADJ, and logits that are wrong about a share."""
    rng = np.random.default_rng(seed)
    answers, truths = [], []
    for _ in range(n):
        tags = rng.choice(3, size=rng.integers(1, 10), p=[0.5, 0.3, 0.2])
        said = np.where(rng.random(len(tags)) < wrong, (tags + 1) % 3, tags)
        answers.append(torch.from_numpy(np.eye(3)[said] * 4 + rng.random((len(tags), 3))))
        truths.append(tuple(tags.tolist()))
    return answers, truths


def test_token_accuracy_counts_tokens_and_resamples_sentences() -> None:
    answers, truths = _sentences(200, wrong=0.2)
    found = _judge(answers, truths, TAGS)
    pairs = zip(answers, truths, strict=True)
    right = [int((answer.argmax(1).numpy() == np.asarray(truth)).sum()) for answer, truth in pairs]
    tokens = [len(truth) for truth in truths]
    assert found.several is not None
    assert (found.several.correct.tolist(), found.several.decided.tolist()) == (right, tokens)
    accuracy = found.clean_accuracy
    assert (accuracy.value, accuracy.n, accuracy.method) == (sum(right) / sum(tokens), 200, "gaffke")
    # The linearised ratio estimator is the second implementation.
    value = sum(right) / sum(tokens)
    residuals = np.asarray(right) - value * np.asarray(tokens)
    error = np.sqrt((residuals**2).sum()) / sum(tokens)
    assert accuracy.low is not None
    assert accuracy.high is not None
    assert (accuracy.high - accuracy.low) / (2 * 1.96 * error) == pytest.approx(1.05, abs=0.15)
    assert _codes(found) == []


def test_sentences_that_are_right_or_wrong_as_a_whole_widen_the_interval() -> None:
    answers, truths = _sentences(200, wrong=0.0)
    answers = [answer.roll(1, dims=1) if place % 5 == 0 else answer for place, answer in enumerate(answers)]
    found = _judge(answers, truths, TAGS).clean_accuracy
    assert found.low is not None
    assert found.high is not None
    assert found.value is not None
    tokens = sum(map(len, truths))
    low, high = clopper_pearson(round(found.value * tokens), tokens)
    assert found.high - found.low > 1.5 * (high - low)


def test_all_tokens_right_is_no_certainty() -> None:
    answers, truths = _sentences(20, wrong=0.0)
    found = _judge(answers, truths, TAGS, stated=0.99)
    # What twenty sentences prove, one of those not seen being as long as those that hold most tokens.
    assert (found.clean_accuracy.low, found.clean_accuracy.high) == pytest.approx(clopper_pearson(20, 20), abs=0.05)
    assert _codes(found) == []
    assert "token accuracy is 1" in _judge(answers, truths, TAGS, stated=0.5).flags[0].message


def test_tokens_without_a_tag_are_no_decisions() -> None:
    answers, truths = _sentences(100, wrong=0.1)
    answers = [answer.clone() for answer in answers]
    long = [place for place, truth in enumerate(truths) if len(truth) > 4]
    for place in long:
        answers[place][-1] = NAN
    found = _judge(answers, truths, TAGS)
    assert found.several is not None
    assert not found.errored.any()
    assert found.several.decided.tolist() == [len(truth) - (len(truth) > 4) for truth in truths]
    assert [(flag.code, flag.severity) for flag in found.flags] == [("tokens_untagged", "warning")]
    assert f"{len(long)} of {sum(map(len, truths))} tokens" in found.flags[0].message


def test_a_tagger_that_gives_every_token_the_most_frequent_tag_is_refused() -> None:
    _, truths = _sentences(60, wrong=0.0)
    always = [torch.tensor([2.0, 0.0, 0.0]).expand(len(truth), 3) for truth in truths]
    with pytest.raises(PreflightError, match="'ADJ' for every one") as caught:
        _judge(always, truths, TAGS)
    assert (caught.value.problem.code, caught.value.problem.field) == ("accuracy-at-chance", "/model")


def test_tags_in_another_order_are_refused_and_what_is_hardly_better_is_doubted() -> None:
    answers, truths = _sentences(60, wrong=0.0)
    with pytest.raises(PreflightError, match="order of the tags"):
        _judge([answer.roll(1, dims=1) for answer in answers], truths, TAGS)
    near, known = _sentences(60, wrong=0.5)
    assert _codes(_judge(near, known, TAGS)) == ["accuracy_near_chance"]
    assert _codes(_judge(answers[:5], truths[:5], TAGS)) == ["accuracy_near_chance"]
    alike = [torch.tensor([2.0, 0.0, 0.0]).expand(4, 3)] * 20
    assert "do not tell the two apart" in _judge(alike, [(0,) * 4] * 20, TAGS).flags[-1].message
