import math

import numpy as np
import pytest
import torch
from sklearn.metrics import log_loss

from workers.families.low_level_attack.answers import decisions, read_answer
from workers.models import UnansweredError

SINGLE, LABELS, TAGS = "text-classification", "multi-label-classification", "token-classification"


def test_a_single_label_is_the_likeliest_class_with_its_probability_and_the_loss_of_the_truth() -> None:
    scores = torch.tensor([0.1, 2.0, -1.0])
    answer = read_answer(SINGLE, "a", (2,), scores)
    chances = torch.softmax(scores.double(), 0).numpy()
    assert answer.predictions == (1,)
    assert answer.confidences == pytest.approx((chances[1],))
    assert answer.loss == pytest.approx(log_loss([2], [chances], labels=[0, 1, 2]))
    assert answer.classes == 3
    assert answer.correct([1], [True]) == 1
    assert answer.flipped([0], [True]) == 1


def test_of_equal_scores_the_first_is_the_prediction() -> None:
    assert read_answer(SINGLE, "a", (0,), torch.tensor([1.0, 1.0])).predictions == (0,)


def test_labels_are_decided_each_at_one_half() -> None:
    scores = torch.tensor([3.0, -1.0, 0.0])
    answer = read_answer(LABELS, "a", (1, 1, 0), scores)
    chances = torch.sigmoid(scores.double()).tolist()
    assert answer.predictions == (1, 0, 0)
    assert answer.confidences == pytest.approx([max(p, 1 - p) for p in chances])
    assert answer.probabilities == pytest.approx(chances)
    expected = np.mean([-math.log(chances[0]), -math.log(chances[1]), -math.log(1 - chances[2])])
    assert answer.loss == pytest.approx(expected)


def test_logits_keep_apart_what_probabilities_do_not() -> None:
    answer = read_answer(LABELS, "a", (1, 1), torch.tensor([60.0, 70.0], dtype=torch.float64))
    assert answer.probabilities == [1.0, 1.0]
    assert answer.logits == (60.0, 70.0)


def test_a_token_without_scores_has_no_tag_and_no_confidence() -> None:
    scores = torch.tensor([[2.0, 0.0], [torch.nan, torch.nan], [0.0, 1.0]])
    answer = read_answer(TAGS, ("a", "b", "c"), (0, 1, 0), scores)
    assert answer.predictions == (0, -1, 1)
    assert math.isnan(answer.confidences[1])
    assert answer.mean_confidence == pytest.approx(np.mean([answer.confidences[0], answer.confidences[2]]))
    assert decisions(answer.predictions, (0, 1, 0)) == [True, False, True]
    # What was tagged before and is not any more is neither right nor the same.
    assert answer.correct((0, 1, 0), [True, True, True]) == 1
    assert answer.flipped((0, 1, 1), [True, True, True]) == 1


def test_a_sentence_without_any_tag_is_an_answer_without_decisions() -> None:
    answer = read_answer(TAGS, ("a",), (0,), torch.full((1, 3), torch.nan))
    assert answer.predictions == (-1,)
    assert answer.loss == 0.0
    assert math.isnan(answer.mean_confidence)
    assert read_answer(TAGS, (), (), torch.empty(0, 3)).predictions == ()


@pytest.mark.parametrize(
    ("task", "text", "truths", "scores", "why"),
    [
        (SINGLE, "a", (0,), UnansweredError("gone"), "gone"),
        (SINGLE, "a", (0,), torch.tensor([torch.nan, 1.0]), "not finite"),
        (LABELS, "a", (0, 1), torch.tensor([1.0, torch.inf]), "not finite"),
        (LABELS, "a", (0, 1), torch.tensor([1.0, 0.0, 2.0]), "3 scores for 2 labels"),
        (TAGS, ("a", "b"), (0, 1), torch.zeros(1, 2), "shape"),
        (TAGS, ("a",), (0,), torch.tensor([[torch.nan, 1.0]]), "not finite"),
        (TAGS, ("a",), (0,), torch.tensor([[-torch.inf, 1.0]]), "not finite"),
    ],
    ids=["unanswered", "nan", "infinite", "labels", "tokens", "half a tag", "infinite tag"],
)
def test_what_is_no_answer_says_why(task, text, truths, scores, why) -> None:
    found = read_answer(task, text, truths, scores)
    assert isinstance(found, str)
    assert why in found


def test_digests_differ_where_saturated_confidences_do_not() -> None:
    far = read_answer(SINGLE, "a", (0,), torch.tensor([90.0, 0.0]))
    farther = read_answer(SINGLE, "a", (0,), torch.tensor([95.0, 0.0]))
    assert far.confidences == farther.confidences == (1.0,)
    assert far.digest != farther.digest
    assert far.digest == read_answer(SINGLE, "b", (0,), torch.tensor([90.0, 0.0])).digest
