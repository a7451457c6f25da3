"""Attacks on what refuses: closed forms on linear rejectors, and which models there is nothing to attack of."""

import math

import pytest
import torch
from torch import Tensor
from torch.nn import functional

from workers.attacks.evasion import RaiseAnsweredLoss, answered_loss
from workers.attacks.model_space import ModelSpaceAttack, RaiseCrossEntropy
from workers.attacks.pgd import PGD
from workers.attacks.rejectors import ANSWERED, has_gradient, log_odds, rejection_margins, with_margin
from workers.models.adapted import Margined, Rejecting

CPU = torch.device("cpu")
IMAGES = torch.full((6, 2), 0.5)
LABELS = torch.zeros(6, dtype=torch.int64)
EPSILON = 0.2
SEARCH = PGD("linf", EPSILON, 0.05, 12, random_start=True)


class Linear:
    """Class 0 while the first pixel is above a half; no refusals."""

    classes, device = 2, CPU

    def logits(self, images: Tensor, indices: Tensor | None = None) -> Tensor:
        lead = 20 * (images[:, 0] - 0.45)
        return torch.stack([lead, -lead], 1)


class Refusing(Linear):
    """Refuses what has a second pixel below where it stands, by the odds of a steep slope."""

    def __init__(self, at: float, threshold: float = 0.5, slope: float = 40.0) -> None:
        self.at, self.threshold, self.slope = at, threshold, slope

    def rejection_scores(self, images: Tensor) -> Tensor:
        return torch.sigmoid(self.slope * (self.at - images[:, 1]))


class Blind(Refusing):
    """The same decision, without a gradient."""

    def rejection_scores(self, images: Tensor) -> Tensor:
        return super().rejection_scores(images).detach().round()


def starts() -> list[torch.Generator]:
    return [torch.Generator().manual_seed(number) for number in range(len(IMAGES))]


def run(induced: list[Linear], *, evade: bool = True, method: str = "fpa"):
    """Play against a defence that answers V^(i) with the i-th model; F^(0) is the first of them."""
    perturb = RaiseAnsweredLoss(SEARCH) if evade else None
    attack = ModelSpaceAttack(method, RaiseCrossEntropy(SEARCH), len(induced) - 2, evade=perturb)
    return list(
        attack.attack_iterations(
            induced[0], lambda images, i: induced[i + 1], IMAGES, LABELS, generators=lambda i: starts()
        )
    )


def test_the_loss_by_hand() -> None:
    z = torch.tensor([[1.0, 3.0], [1.0, 3.0], [1.0, 3.0], [3.0, 1.0]])
    margins = torch.tensor([[0.5], [-0.5], [-9.0], [-9.0]])
    found = answered_loss(torch.cat([z, margins], 1), LABELS[:4], slack=2.0)
    wrong, right = math.log(1 + math.exp(2)), math.log(1 + math.exp(-2))
    assert found.tolist() == pytest.approx([-2.5, wrong - 1.5, wrong, right])


@pytest.mark.parametrize("slack", [0.0, 2.0])
def test_what_is_answered_always_counts_more_than_what_is_refused(slack: float) -> None:
    generator = torch.Generator().manual_seed(3)
    z = 10 * torch.randn(200, 5, generator=generator)
    labels = torch.randint(0, 5, (200,), generator=generator)
    margins = 6 * torch.randn(200, 1, generator=generator)
    found = answered_loss(torch.cat([z, margins], 1), labels, slack)
    refused = margins[:, 0] > 0
    assert found[refused].max() < found[~refused].min()
    far = margins[:, 0] < -slack
    torch.testing.assert_close(found[far], functional.cross_entropy(z, labels, reduction="none")[far])


def test_margins_have_the_sign_of_the_decision_and_a_gradient_where_scores_have_saturated() -> None:
    model = Refusing(0.3, threshold=0.8)
    images = torch.rand(50, 2, generator=torch.Generator().manual_seed(0))
    margins = rejection_margins(model, images)
    assert torch.equal(margins > 0, model.rejection_scores(images) > 0.8)
    # In float32 this score is 1, and a logit of it would be infinite.
    far = torch.tensor([[0.5, 0.0]], requires_grad=True)
    margin = rejection_margins(Refusing(0.3, slope=400.0), far)
    assert bool(margin.isfinite().all())
    assert log_odds(0.8) == pytest.approx(math.log(4), abs=1e-5)


def test_a_model_that_refuses_is_given_with_its_margin_and_another_as_one_that_answers() -> None:
    indices = torch.arange(6)
    asked, never = with_margin(Refusing(0.3), 0).logits(IMAGES, indices), with_margin(Linear(), 0)
    assert asked.shape == (6, 3)
    assert torch.equal(asked[:, -1], rejection_margins(Refusing(0.3), IMAGES))
    assert (never.logits(IMAGES, indices)[:, -1] == ANSWERED).all()
    assert isinstance(Refusing(0.3), Rejecting)
    assert not isinstance(Refusing(0.3), Margined)


@pytest.mark.parametrize("method", ["fpa", "gmsa_avg", "gmsa_min"])
def test_an_attack_that_knows_what_refuses_is_answered_and_one_that_does_not_is_refused(method: str) -> None:
    """What refuses looks at the second pixel alone, and at the image itself it refuses."""
    models = [Refusing(0.6)] * 3
    knowing, blind = run(models, method=method)[-1], run(models, method=method, evade=False)[-1]
    assert not knowing.correct.any()
    assert (knowing.perturbed[:, 0] < 0.45).all()
    assert (knowing.perturbed[:, 1] > 0.6).all()
    assert (knowing.perturbed - IMAGES).abs().max() <= EPSILON + 1e-6
    # The first pixel alone moves an attack that does not know: it stays refused unless its start happened not to be.
    assert blind.correct.any()


@pytest.mark.parametrize("method", ["gmsa_avg", "gmsa_min"])
def test_a_model_that_always_answers_is_not_attacked_beside_those_that_refuse(method: str) -> None:
    """It would be fooled by the first pixel, whatever the refusals say of the second."""
    static, knowing = run([Linear(), *[Refusing(0.6)] * 2], method=method), run([Refusing(0.6)] * 3, method=method)
    assert torch.equal(static[-1].perturbed[:, 1] > 0.6, knowing[-1].perturbed[:, 1] > 0.6)
    assert not static[-1].correct.any()
    # The first iteration is the attack carried over, which is refused.
    assert static[0].correct.any()


def test_a_refusal_is_no_gain_of_the_attackers_and_has_no_loss() -> None:
    """Out of reach of what refuses, every iteration leaves everyone unharmed and the first of them is sent."""
    attack = ModelSpaceAttack("fpa", RaiseCrossEntropy(SEARCH), 1, evade=RaiseAnsweredLoss(SEARCH))
    models = [Refusing(0.9)] * 3
    found = run(models)
    assert all(one.correct.all() for one in found)
    assert all((one.losses == 0).all() for one in found)
    assert attack.selected(found) == 0


@pytest.mark.parametrize(
    ("induced", "evade", "adapted"),
    [
        ([Linear(), Linear()], True, False),
        ([Refusing(0.6), Refusing(0.6)], True, True),
        ([Refusing(0.6), Refusing(0.6)], False, False),
        ([Blind(0.6), Blind(0.6)], True, False),
    ],
    ids=["the same model", "what refuses", "what refuses, not attacked", "what refuses, without a gradient"],
)
def test_whether_there_was_something_of_the_defence_to_attack_is_told(induced, evade: bool, adapted: bool) -> None:
    (found,) = run(induced, evade=evade)
    assert found.adapted.tolist() == [adapted] * 6


def test_other_logits_are_something_to_attack_but_no_excuse_for_what_refuses() -> None:
    class Moved(Linear):
        def logits(self, images: Tensor, indices: Tensor | None = None) -> Tensor:
            return super().logits(images) + torch.tensor([1e-3, 0.0])

    class MovedAndBlind(Moved, Blind):
        pass

    assert run([Linear(), Moved()])[0].adapted.all()
    assert not run([Blind(0.6), MovedAndBlind(0.6)])[0].adapted.any()


def test_where_what_refuses_is_flat_there_is_no_gradient() -> None:
    images = torch.tensor([[0.5, 0.5], [0.5, 0.6]])

    class Half(Refusing):
        def rejection_scores(self, images: Tensor) -> Tensor:
            return 0.5 + 0.1 * (images[:, 1] - 0.55).clamp_min(0.0)

    assert has_gradient(Half(0.5), images, 1, lambda: None).tolist() == [False, True]
