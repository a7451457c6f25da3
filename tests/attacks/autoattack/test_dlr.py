import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from workers.attacks.autoattack.dlr import (
    dlr,
    lead,
    likeliest_targets,
    targeted_dlr,
    targeted_loss,
    untargeted_loss,
)

LOGITS = torch.tensor([[4.0, 1.0, 3.0, 2.0, 0.0], [0.0, 7.0, 1.0, 5.0, 2.0]], dtype=torch.float64)


def test_dlr_by_hand() -> None:
    # Right: -(4 - 3) / (4 - 2). Wrong: -(5 - 7) / (7 - 2).
    assert dlr(LOGITS, torch.tensor([0, 3])).tolist() == pytest.approx([-0.5, 0.4])


def test_targeted_dlr_by_hand() -> None:
    # -(4 - 1) / (4 - (2 + 1) / 2) and -(7 - 0) / (7 - (2 + 1) / 2).
    found = targeted_dlr(LOGITS, torch.tensor([0, 1]), torch.tensor([1, 0]))
    assert found.tolist() == pytest.approx([-1.2, -7 / 5.5])


@given(st.floats(0.01, 1000), st.floats(-100, 100))
def test_neither_shift_nor_scale_changes_the_ratios(scale, shift) -> None:
    labels, targets = torch.tensor([0, 3]), torch.tensor([2, 4])
    torch.testing.assert_close(dlr(scale * LOGITS + shift, labels), dlr(LOGITS, labels))
    moved = targeted_dlr(scale * LOGITS + shift, labels, targets)
    torch.testing.assert_close(moved, targeted_dlr(LOGITS, labels, targets))


def test_the_ratios_refuse_what_they_are_not_defined_for() -> None:
    with pytest.raises(ValueError, match="needs 3 classes; the model has 2"):
        dlr(LOGITS[:, :2], torch.tensor([0, 0]))
    with pytest.raises(ValueError, match="needs 4 classes; the model has 3"):
        targeted_dlr(LOGITS[:, :3], torch.tensor([0, 0]), torch.tensor([1, 1]))


@pytest.mark.parametrize("classes", [2, 3, 4, 10])
def test_every_number_of_classes_has_losses_whose_gradient_does_not_vanish(classes) -> None:
    """For three classes z_(1) - z_(3) as divisor would be constant where the target is last."""
    logits = torch.arange(float(classes)).flip(0).repeat(classes - 1, 1).requires_grad_()
    labels, targets = torch.zeros(classes - 1, dtype=torch.int64), torch.arange(1, classes)
    indices = torch.arange(classes - 1)
    for loss in (untargeted_loss(labels), targeted_loss(labels, targets)):
        (gradient,) = torch.autograd.grad(loss(logits, indices).sum(), logits)
        assert (gradient.abs().amax(1) > 0).all()


def test_losses_fall_as_the_target_rises() -> None:
    labels, indices = torch.tensor([0, 1]), torch.arange(2)
    towards = LOGITS.clone()
    towards[indices, torch.tensor([2, 3])] += 0.5
    for loss in (untargeted_loss(labels), targeted_loss(labels, torch.tensor([2, 3]))):
        assert (loss(towards, indices) < loss(LOGITS, indices)).all()


def test_lead_is_a_difference_of_two_logits() -> None:
    assert lead(LOGITS, torch.tensor([0, 1]), torch.tensor([2, 0])).tolist() == [-1.0, -7.0]


def test_targets_are_the_likeliest_wrong_classes_first_class_on_ties() -> None:
    logits = torch.tensor([[4.0, 1.0, 3.0, 3.0, 0.0], [0.0, 0.0, 0.0, 0.0, 0.0]])
    assert likeliest_targets(logits, torch.tensor([0, 1]), 3).tolist() == [[2, 3, 1], [0, 2, 3]]
    assert likeliest_targets(logits, torch.tensor([0, 1]), 9).shape == (2, 4)
