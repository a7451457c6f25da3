import dataclasses

import pytest
import torch
from torch import Tensor

from tests.attacks.test_model_space import Frozen, same
from tests.attacks.test_pgd import generators
from workers.attacks.carlini_wagner import RaiseWrongConfidence, targeted, untargeted, wrong_confidence
from workers.attacks.gradients import IndexedModel
from workers.attacks.losses import margin
from workers.attacks.model_space import ModelSpaceAttack, descend
from workers.attacks.pgd import PGD

EXAMPLES, CLASSES, PIXELS = 8, 10, 12
WEIGHTS = torch.randn(CLASSES, PIXELS, generator=torch.Generator().manual_seed(5))
TWISTED = WEIGHTS + 0.7 * torch.randn(CLASSES, PIXELS, generator=torch.Generator().manual_seed(6))
IMAGES = torch.rand(EXAMPLES, PIXELS, generator=torch.Generator().manual_seed(7))
LABELS = (IMAGES @ WEIGHTS.T).argmax(1)
# A step of a ball's diameter in all: on a linear model every run gets to a corner.
SEARCH = PGD("linf", 0.05, 0.02, 6, random_start=True)
LOGITS = torch.tensor([[5.0, 3.0, 1.0], [0.0, 2.0, 7.0]])
BOTH = torch.tensor([0, 1])


def linear(weights: Tensor) -> IndexedModel:
    return IndexedModel(lambda images, indices: images @ weights.T)


def starts() -> list[torch.Generator]:
    return generators(range(EXAMPLES))


def perturb(models, combine: str = "sum", attack=None, images=IMAGES, labels=LABELS, **more):
    attack = attack or RaiseWrongConfidence(SEARCH)
    own = more.pop("generators", None) or starts()
    return attack(
        models, combine, images, labels, generators=own, check_cancelled=more.get("check_cancelled", lambda: None)
    )


def each_run(models, combine: str, search: PGD = SEARCH) -> list[tuple[Tensor, Tensor]]:
    """The 14 runs one by one: images and logits (n, models, classes) of each."""
    losses = [lambda logits, indices: margin(logits, LABELS[indices])] * 5
    for k in range(1, CLASSES):
        aim = (LABELS + k) % CLASSES
        losses.append(
            lambda z, indices, aim=aim: z[torch.arange(len(z)), LABELS[indices]] - z[torch.arange(len(z)), aim[indices]]
        )
    search = dataclasses.replace(search, steps=search.steps * (len(models) if combine == "max" else 1))
    own = starts()
    outcomes = [search.run(models, IMAGES, descend(loss, combine), generators=own) for loss in losses]
    return [(outcome.best, outcome.best_logits) for outcome in outcomes]


def test_the_losses_by_hand() -> None:
    assert untargeted(LOGITS, BOTH).tolist() == [-2.0, 5.0]
    assert targeted(LOGITS, BOTH, torch.tensor([2, 0])).tolist() == [-4.0, -2.0]


def test_the_untargeted_loss_is_the_greatest_of_the_targeted_ones() -> None:
    logits = torch.randn(30, CLASSES, generator=torch.Generator().manual_seed(0))
    labels = torch.arange(30) % CLASSES
    towards = torch.stack([targeted(logits, labels, (labels + k) % CLASSES) for k in range(1, CLASSES)], 1)
    assert torch.equal(untargeted(logits, labels), towards.amax(1))


def test_the_wrong_confidence_by_hand() -> None:
    e = torch.tensor([5.0, 3.0, 1.0, 2.0, 7.0], dtype=torch.float64).exp()
    expected = torch.stack([e[1] / (e[0] + e[1] + e[2]), e[4] / (1 + e[3] + e[4])])
    torch.testing.assert_close(wrong_confidence(LOGITS, BOTH), expected)


def test_every_example_keeps_the_run_with_the_largest_wrong_probability() -> None:
    # Too short to get to a corner, so that runs end in different places.
    short = PGD("linf", 0.5, 0.1, 2, random_start=True)
    found = perturb([linear(WEIGHTS)], attack=RaiseWrongConfidence(short))
    runs = each_run([linear(WEIGHTS)], "sum", short)
    values = torch.stack([wrong_confidence(logits[:, 0], LABELS) for _, logits in runs], 1)
    assert values.shape == (EXAMPLES, 14)
    winners = values.argmax(1)
    assert len(winners.unique()) > 2
    assert torch.equal(found.images, torch.stack([runs[int(run)][0][i] for i, run in enumerate(winners)]))
    assert not found.non_finite.any()


def test_on_a_linear_model_no_corner_a_targeted_run_could_reach_is_better() -> None:
    corners = []
    for k in range(1, CLASSES):
        direction = (WEIGHTS[(LABELS + k) % CLASSES] - WEIGHTS[LABELS]).sign()
        corners.append(wrong_confidence((IMAGES + 0.05 * direction).clamp(0, 1) @ WEIGHTS.T, LABELS))
    found = wrong_confidence(perturb([linear(WEIGHTS)]).images @ WEIGHTS.T, LABELS)
    assert (found >= torch.stack(corners).amax(0) - 1e-6).all()


@pytest.mark.parametrize("combine", ["sum", "max"])
def test_against_several_models_runs_are_compared_by_the_sum_or_by_the_least(combine: str) -> None:
    models = [linear(WEIGHTS), linear(TWISTED)]
    runs = each_run(models, combine)
    found = perturb(models, combine).images
    for i in range(EXAMPLES):
        values = torch.stack([wrong_confidence(logits[i], LABELS[[i, i]]) for _, logits in runs])
        joint = values.sum(1) if combine == "sum" else values.amin(1)
        assert torch.equal(found[i], runs[int(joint.argmax())][0][i])


@pytest.mark.parametrize(("classes", "runs"), [(10, 14), (3, 7), (2, 6), (12, 14)])
def test_there_are_five_untargeted_runs_and_one_per_wrong_class_up_to_nine(classes: int, runs: int) -> None:
    weights = torch.randn(classes, PIXELS, generator=torch.Generator().manual_seed(8))
    ticks: list[None] = []
    perturb([linear(weights)], labels=LABELS % classes, check_cancelled=lambda: ticks.append(None))
    assert len(ticks) == runs * (1 + SEARCH.steps + 1)


def test_the_clean_image_stays_where_more_margin_is_less_confidence() -> None:
    # At x = 0 the logits are (0, 0, -0.5), at x = 0.05 they are (0, 0.05, 0): the margin falls, and so does the
    # probability of the likeliest wrong class.
    model = IndexedModel(lambda images, indices: torch.cat([0 * images, images, 10 * images - 0.5], 1))
    clean, labels = torch.zeros(1, 1), torch.tensor([0])
    attack = RaiseWrongConfidence(PGD("linf", 0.05, 0.05, 2, random_start=True), targets=0)
    assert torch.equal(perturb([model], "sum", attack, clean, labels, generators=starts()[:1]).images, clean)


def test_of_equally_probable_runs_the_first_counts_and_the_clean_image_before_them() -> None:
    # Certain to the last bit of a float64, at the clean image already.
    model = IndexedModel(lambda images, indices: torch.cat([0 * images, 1000 * images], 1))
    clean, labels = torch.full((1, 1), 0.5), torch.tensor([0])
    assert torch.equal(perturb([model], "sum", None, clean, labels, generators=starts()[:1]).images, clean)


def test_rows_are_right_when_memory_runs_out() -> None:
    shifts = torch.randn(EXAMPLES, CLASSES, generator=torch.Generator().manual_seed(9))

    def limited(images: Tensor, indices: Tensor) -> Tensor:
        if len(images) > 3:
            raise torch.OutOfMemoryError("CUDA out of memory.")
        return images @ WEIGHTS.T + shifts[indices]

    whole = perturb([IndexedModel(lambda images, indices: images @ WEIGHTS.T + shifts[indices])])
    torch.testing.assert_close(perturb([IndexedModel(limited)]).images, whole.images, rtol=0, atol=1e-5)


def test_an_example_without_finite_outputs_stays_clean_and_is_told() -> None:
    broken = IndexedModel(
        lambda images, indices: images @ WEIGHTS.T + torch.where(indices == 2, torch.nan, 0.0).unsqueeze(1)
    )
    found, whole = perturb([broken]), perturb([linear(WEIGHTS)])
    assert found.non_finite.nonzero().flatten().tolist() == [2]
    assert torch.equal(found.images[2], IMAGES[2])
    others = torch.arange(EXAMPLES) != 2
    assert torch.equal(found.images[others], whole.images[others])


@pytest.mark.slow
def test_the_game_goes_on_where_it_was_stopped() -> None:
    def adapts(images: Tensor, iteration: int) -> Frozen:
        moved = WEIGHTS + 0.5 * torch.sin(images.mean(0) * 50)
        return Frozen(lambda at, indices: at @ moved.T, classes=CLASSES)

    search = dataclasses.replace(SEARCH, steps=2)
    attack = ModelSpaceAttack("gmsa_min", RaiseWrongConfidence(search), 2, start_at="clean")
    base = Frozen(lambda at, indices: at @ WEIGHTS.T, classes=CLASSES)

    def run(done=()):
        game = attack.attack_iterations(base, adapts, IMAGES, LABELS, generators=lambda i: starts(), done=done)
        return [*done, *game]

    whole = run()
    assert len(whole) == 4
    assert all(same(run(whole[:stop]), whole) for stop in range(5))


@pytest.mark.parametrize(
    "wrong",
    [{"starts": 0}, {"targets": -1}, {"pgd": PGD("linf", 0.1, 0.1, 1)}],
    ids=["starts", "targets", "random_start"],
)
def test_refuses_what_is_no_attack(wrong) -> None:
    with pytest.raises(ValueError, match=r"not an attack|random_start"):
        RaiseWrongConfidence(**({"pgd": SEARCH} | wrong))
