from dataclasses import replace
from itertools import pairwise

import pytest
import torch
from torch import Tensor

from seatrial.families.shared.robust_accuracy import ATTACKS
from tests.attacks.autoattack.networks import (
    IMAGES,
    LABELS,
    NET,
    Linear,
    generators,
    is_in_ball_and_box,
    near_the_middle,
)
from workers.attacks.autoattack.checks import square_improves, zero_gradients
from workers.attacks.autoattack.ensemble import (
    BROKE,
    HELD,
    NON_FINITE,
    NOT_RUN,
    AutoAttack,
)


def short(norm: str, epsilon: float, attacks=ATTACKS["standard"]) -> AutoAttack:
    return AutoAttack(norm, epsilon, attacks, steps=15, queries=80)


@pytest.mark.parametrize("classes", [2, 3, 4, 10])
@pytest.mark.parametrize("norm", ["linf", "l2"])
def test_robust_accuracy_of_a_linear_model_is_the_closed_form(norm, classes) -> None:
    model, images = Linear(classes), near_the_middle(20)
    labels = model(images).argmax(1)
    labels[:2] = (labels[:2] + 1) % classes
    distances = model.distances(images, labels, norm)
    # In the widest gap between two distances, so that no attack is asked to be exact to a hair.
    ordered = distances[2:].sort().values
    gap = int((ordered[6:15] - ordered[5:14]).argmax()) + 5
    epsilon = float(ordered[gap : gap + 2].mean())
    found = short(norm, epsilon).run(model, images, labels, generators=generators(20))
    assert torch.equal(found.correct, distances > 0)
    assert torch.equal(found.robust, distances > epsilon)
    assert found.correct.sum() == 18
    # The cross-entropy of several classes climbs towards a mixture of them, not the shortest way out.
    exact = ("apgd-ce", "apgd-dlr", "apgd-t", "fab-t") if classes == 2 else ("apgd-t", "fab-t")
    for attack in exact:
        alone = short(norm, epsilon, (attack,)).run(model, images, labels, generators=generators(20))
        assert torch.equal(alone.robust, distances > epsilon), attack


@pytest.mark.parametrize("norm", ["linf", "l2"])
def test_what_is_said_of_every_example_is_so(norm) -> None:
    labels = torch.where(torch.arange(10) == 4, (LABELS + 1) % 5, LABELS)
    epsilon = 0.015 if norm == "linf" else 0.08
    found = short(norm, epsilon).run(NET, IMAGES, labels, generators=generators(10))
    assert not found.correct[4]
    assert 0 < found.robust.sum() < 9
    broken = found.broken_by >= 0
    assert torch.equal(found.correct & ~broken, found.robust)
    assert torch.equal(NET(found.images).argmax(1) != labels, broken | ~found.correct)
    assert torch.equal(found.images[~broken], IMAGES[~broken])
    assert is_in_ball_and_box(found.images, IMAGES, norm, epsilon)
    torch.testing.assert_close(found.logits, NET(IMAGES))
    for number, name in enumerate(found.attacks):
        assert torch.equal(found.outcomes[name] == BROKE, found.broken_by == number)
        ran = found.correct & ((found.broken_by == -1) | (found.broken_by >= number))
        assert torch.equal(found.outcomes[name] != NOT_RUN, ran)
        assert torch.equal(found.forward[name] + found.backward[name] > 0, ran)
    assert torch.equal(found.holding_after("square"), found.robust)
    assert (found.outcomes["apgd-ce"][found.robust] == HELD).all()


def test_the_worst_case_is_never_above_a_single_attack() -> None:
    found = short("linf", 0.015).run(NET, IMAGES, LABELS, generators=generators(10))
    for name in ("apgd-ce", "fab-t"):
        alone = short("linf", 0.015, (name,)).run(NET, IMAGES, LABELS, generators=generators(10))
        assert (found.robust <= alone.robust).all()
    held = [found.holding_after(name) for name in found.attacks]
    assert all((later <= earlier).all() for earlier, later in pairwise(held))
    assert held[-1].sum() == found.robust.sum()


def test_dlr_breaks_a_model_whose_softmax_hides_its_gradient() -> None:
    """Logits in the thousands: the gradient of the cross-entropy is 0 in float32, that of a ratio of logits is not."""
    images = IMAGES.float()

    def steep(x: Tensor) -> Tensor:
        return NET.float()(x) * 1e5

    try:
        labels = steep(images).argmax(1)
        found = short("linf", 0.1, ("apgd-ce", "apgd-dlr")).run(steep, images, labels, generators=generators(10))
    finally:
        NET.double()
    assert found.zero_gradient["apgd-ce"].any()
    assert not found.zero_gradient["apgd-dlr"].any()
    assert not found.robust.any()
    assert (found.broken_by == 1).any()


def test_masked_gradients_are_broken_by_square_alone_and_flagged() -> None:
    def quantised(images: Tensor) -> Tensor:
        return NET((images * 16).round() / 16)

    images = (IMAGES * 16).round() / 16
    labels = quantised(images).argmax(1)
    # Below half a level the starts of APGD round back to the image; only to be broken by what goes further.
    found = AutoAttack("linf", 0.06, steps=10, queries=300).run(quantised, images, labels, generators=generators(10))
    assert (found.broken_by == 3).sum() >= 3
    before, after = (int(found.holding_after(name).sum()) for name in ("fab-t", "square"))
    assert square_improves(before, after, 10) is not None
    stuck = found.zero_gradient["apgd-t"]
    started = found.outcomes["apgd-t"] != NOT_RUN
    assert zero_gradients(int(stuck.sum()), int(started.sum())) is not None


@pytest.mark.slow
@pytest.mark.parametrize("norm", ["linf", "l2"])
def test_shards_and_memory_change_nothing(norm) -> None:
    def limited(images: Tensor) -> Tensor:
        if len(images) > 2:
            raise torch.OutOfMemoryError("CUDA out of memory.")
        return NET(images)

    ensemble = replace(short(norm, 0.015 if norm == "linf" else 0.08), steps=8, queries=40)
    whole = ensemble.run(NET, IMAGES, LABELS, generators=generators(10))
    parts = [
        ensemble.run(NET, IMAGES[i : i + 3], LABELS[i : i + 3], generators=generators(len(IMAGES[i : i + 3]), i))
        for i in (0, 3, 6, 9)
    ]
    halved = ensemble.run(limited, IMAGES, LABELS, generators=generators(10))
    for images, broken_by in (
        (torch.cat([part.images for part in parts]), torch.cat([part.broken_by for part in parts])),
        (halved.images, halved.broken_by),
    ):
        torch.testing.assert_close(images, whole.images)
        assert torch.equal(broken_by, whole.broken_by)


@pytest.mark.parametrize("classes", [2, 5])
def test_nothing_costs_more_than_was_said(classes) -> None:
    model, images = Linear(classes), near_the_middle(6)
    labels = model(images).argmax(1)
    ensemble = short("linf", 1e-4)
    found = ensemble.run(model, images, labels, generators=generators(6))
    assert found.robust.all()
    most = ensemble.passes(classes)
    assert set(most) == set(ATTACKS["standard"])
    for name, passes in most.items():
        assert (found.backward[name] == passes.backward).all()
        assert (found.forward[name] <= passes.forward).all()
        if name != "fab-t":
            assert (found.forward[name] == passes.forward).all()


def test_an_output_that_is_not_finite_is_unsound_and_never_robust() -> None:
    def breaks(images: Tensor) -> Tensor:
        clean = (images.flatten(1).unsqueeze(1) == IMAGES.flatten(1)).all(2).any(1)
        return torch.where(clean.unsqueeze(1), NET(images), torch.nan)

    found = short("linf", 0.01).run(breaks, IMAGES, LABELS, generators=generators(10))
    assert found.correct.all()
    assert found.non_finite.all()
    assert not found.robust.any()
    assert (found.broken_by == -1).all()
    assert (found.outcomes["apgd-ce"] == NON_FINITE).all()
    at_once = short("linf", 0.01).run(lambda x: NET(x) / 0.0, IMAGES, LABELS, generators=generators(10))
    assert at_once.non_finite.all()
    assert not at_once.correct.any()


def test_rand_does_not_call_broken_what_errs_now_and_then() -> None:
    chance = torch.Generator().manual_seed(2)

    def errs(images: Tensor) -> Tensor:
        flipped = torch.rand(len(images), generator=chance) < 0.15
        return torch.stack([torch.where(flipped, -1.0, 1.0), torch.zeros(len(images))], 1) + 0 * images.sum()

    images = near_the_middle(5)
    ensemble = AutoAttack("linf", 0.1, ("apgd-ce", "apgd-dlr"), steps=15, draws=20)
    found = ensemble.run(errs, images, torch.zeros(5, dtype=torch.int64), generators=generators(5))
    assert found.robust.all()
    assert (found.backward["apgd-ce"] == 20 * 15).all()


def test_rand_breaks_a_noisy_linear_model_where_its_mean_breaks() -> None:
    chance = torch.Generator().manual_seed(2)
    model, images = Linear(3), near_the_middle(12)
    labels = model(images).argmax(1)
    distances = model.distances(images, labels, "linf")
    ensemble = replace(AutoAttack.rand("linf", float(distances.median())), steps=25)
    assert (ensemble.attacks, ensemble.draws) == (("apgd-ce", "apgd-dlr"), 20)

    def noisy(x: Tensor) -> Tensor:
        return model(x) + 0.01 * torch.randn(len(x), 3, generator=chance, dtype=x.dtype)

    found = ensemble.run(noisy, images, labels, generators=generators(12))
    clearly = (distances / ensemble.epsilon - 1).abs() > 0.05
    assert torch.equal(found.robust[clearly], (distances > ensemble.epsilon)[clearly])


def test_the_published_ensemble() -> None:
    ensemble = AutoAttack.standard("l2", 0.5)
    assert ensemble.attacks == ("apgd-ce", "apgd-t", "fab-t", "square")
    most = ensemble.passes(10)
    assert most["apgd-ce"][:2] == (1, 100)
    assert most["apgd-t"][:2] == (9, 900)
    assert most["fab-t"][:2] == (9 * 103, 900)
    assert most["square"][:3] == (5000, 0, 5000)


def test_a_cancelled_evaluation_stops_before_the_next_pass() -> None:
    class Cancelled(BaseException):
        pass

    left = [40]
    passes: list[int] = []

    def check_cancelled() -> None:
        left[0] -= 1
        if left[0] < 0:
            raise Cancelled

    def model(images: Tensor) -> Tensor:
        passes.append(len(images))
        return NET(images)

    with pytest.raises(Cancelled):
        short("linf", 1e-4).run(model, IMAGES, LABELS, generators=generators(10), check_cancelled=check_cancelled)
    assert len(passes) == 40


@pytest.mark.parametrize(
    "wrong", [{"attacks": ()}, {"attacks": ("square", "square")}, {"draws": 3}, {"targets": 0}], ids=str
)
def test_refuses_what_is_no_ensemble(wrong) -> None:
    with pytest.raises(ValueError, match=r"not an ensemble|averages draws"):
        AutoAttack(**({"norm": "linf", "epsilon": 0.1} | wrong))


def test_refuses_a_batch_it_cannot_attack() -> None:
    with pytest.raises(ValueError, match="10 images and 2 generators"):
        short("linf", 0.1).run(NET, IMAGES, LABELS, generators=generators(2))
    with pytest.raises(ValueError, match="two classes at least"):
        short("linf", 0.1).run(lambda x: x.flatten(1)[:, :1], IMAGES, LABELS, generators=generators(10))
