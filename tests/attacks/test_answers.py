from dataclasses import dataclass

import pytest
import torch
from torch import Tensor

from tests.attacks.test_model_space import BASE, Frozen, make_attack, run
from tests.attacks.test_pgd import IMAGES, LABELS
from workers.attacks.answers import ask

LOGITS = torch.tensor([[2.0, 1.0], [1.0, 1.0], [2.0, 1.0], [torch.nan, 1.0], [torch.inf, 0.0], [2.0, 1.0]])
SCORES = torch.tensor([0.5, 0.2, 0.51, 0.1, 0.1, torch.nan])
POINTS = torch.arange(6.0).view(6, 1)


@dataclass
class Choosy(Frozen):
    """Rejects above 0.5 by a score per image."""

    scores: Tensor = SCORES
    threshold: float = 0.5

    def rejection_scores(self, images: Tensor) -> Tensor:
        return self.scores[images.long().flatten()]


def by_row(images: Tensor, indices: Tensor) -> Tensor:
    return LOGITS[indices]


def test_who_is_right_has_answered_with_finite_numbers_and_the_first_class_of_ties() -> None:
    zeros = torch.zeros(6, dtype=torch.int64)
    answered = ask(Frozen(by_row, classes=2), POINTS)
    assert answered.is_right(zeros).tolist() == [True, True, True, False, False, True]
    assert answered.is_right(1 - zeros).tolist() == [False] * 6
    assert answered.non_finite.tolist() == [False, False, False, True, True, False]
    assert (answered.rejection_scores, answered.rejected.any()) == (None, torch.tensor(False))


def test_who_is_rejected_is_not_right_and_a_score_that_is_no_number_is_no_acceptance() -> None:
    answered = ask(Choosy(by_row, classes=2), POINTS)
    # A score equal to the threshold is not above it.
    assert answered.rejected.tolist() == [False, False, True, False, False, False]
    assert answered.non_finite.tolist() == [False, False, False, True, True, True]
    assert answered.is_right(torch.zeros(6, dtype=torch.int64)).tolist() == [True, True, False, False, False, False]


@pytest.mark.parametrize(("size", "fits"), [(128, 6), (4, 6), (4, 1)])
def test_pieces_know_which_rows_they_are(size: int, fits: int) -> None:
    ticks: list[None] = []

    def limited(images: Tensor, indices: Tensor) -> Tensor:
        if len(images) > fits:
            raise torch.OutOfMemoryError("CUDA out of memory.")
        assert images.flatten().tolist() == indices.tolist()
        return LOGITS[indices]

    answered = ask(Choosy(limited, classes=2), POINTS, batch_size=size, check_cancelled=lambda: ticks.append(None))
    assert torch.equal(answered.logits.nan_to_num(-9.0), LOGITS.nan_to_num(-9.0))
    assert answered.rejection_scores is not None
    assert torch.equal(answered.rejection_scores.nan_to_num(-9.0), SCORES.double().nan_to_num(-9.0))
    assert len(ticks) >= 6 // min(size, fits)


def test_an_attack_on_a_defence_that_rejects_is_judged_with_its_rejections() -> None:
    @dataclass
    class Refusing(Frozen):
        threshold: float = 0.5

        def rejection_scores(self, images: Tensor) -> Tensor:
            return torch.ones(len(images))

    wrong = Refusing(lambda images, indices: 9 * torch.nn.functional.one_hot((LABELS[indices] + 1) % 5, 5).float())
    (only,) = run(make_attack(iterations=0), lambda images, i: wrong, BASE, IMAGES, LABELS)
    assert only.accuracy == 1  # it refuses: the attacker has gained nothing
    wrong.threshold = 1.0
    (only,) = run(make_attack(iterations=0), lambda images, i: wrong, BASE, IMAGES, LABELS)
    assert only.accuracy == 0
