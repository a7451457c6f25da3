"""What holds for every defence that trains a network from nothing."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

from tests.defences.builders import base, generator, images, labels, points, same, training, weights
from workers.defences import dann, tadv, urejectron
from workers.defences.dann import Dann, DannParams
from workers.defences.fresh import WHOLE_SAMPLE, AdaptedModel, check_finite, rate_at, shuffled_batches
from workers.defences.protocol import DefenceError, Training
from workers.defences.registry import Plugin
from workers.defences.tadv import Tadv, TadvParams
from workers.defences.urejectron import URejectron, URejectronParams
from workers.models.image_classifier import ImageClassifier

Maker = Callable[..., Dann | Tadv | URejectron]

MAKERS: dict[str, Maker] = {
    "dann": lambda **more: Dann(DannParams(network="small", mean=None, std=None, epochs=2, batch_size=16), **more),
    "tadv": lambda **more: Tadv(TadvParams(network="small", attack_steps=2, epochs=1, batch_size=16), **more),
    "urejectron": lambda **more: URejectron(URejectronParams(network="small", epochs=1, batch_size=16), **more),
}

each = pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS.keys())


class CancelledError(Exception):
    pass


def adapted(make: Maker, seed: int = 0, target: ImageClassifier | None = None):
    return make().adapt(target or base(), training(60), points(40), generator(seed))


def answers(model) -> Tensor:
    return model.rejection_scores(points(40)) if hasattr(model, "rejection_scores") else model.logits(points(40))


@each
def test_the_same_seed_gives_the_same_model_bit_for_bit(make) -> None:
    torch.manual_seed(1)
    first = adapted(make)
    torch.manual_seed(2)
    assert same(first.state(), adapted(make).state())


@each
def test_two_seeds_give_two_models(make) -> None:
    first, second = adapted(make, 0).state(), adapted(make, 1).state()
    assert first.keys() == second.keys()
    assert not any(torch.equal(first[name], second[name]) for name in first if name.endswith("weight"))


@each
def test_random_numbers_outside_are_untouched(make) -> None:
    target = base()
    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(5)
    make().reload(target, adapted(make, target=target).state())
    assert torch.equal(torch.rand(3), expected)


@each
def test_the_base_is_unchanged(make) -> None:
    target = base()
    before = weights(target)
    adapted(make, target=target)
    assert same(weights(target), before)
    assert not target.module.training


@each
def test_a_model_comes_back_from_its_state_bit_for_bit(make) -> None:
    model = adapted(make)
    again = make().reload(base(), model.state())
    assert torch.equal(answers(again), answers(model))
    assert torch.equal(again.logits(points(40)), model.logits(points(40)))
    assert same(again.state(), model.state())


@each
def test_a_state_of_something_else_is_refused(make) -> None:
    with pytest.raises(ValueError, match="not a state"):
        make().reload(base(), {"weight": torch.zeros(3)})


@each
def test_a_state_is_a_copy(make) -> None:
    model = adapted(make)
    for value in model.state().values():
        value.zero_()
    assert any(bool(value.any()) for value in model.state().values())


@each
def test_what_was_adapted_is_frozen_and_outlives_the_next_round(make) -> None:
    defence = make()
    model = defence.adapt(base(), training(60), points(40), generator(0))
    before = answers(model)
    defence.adapt(base(), training(60), points(40, 1300), generator(1))
    assert torch.equal(answers(model), before)
    assert not before.requires_grad


@each
def test_what_was_adapted_has_a_gradient(make) -> None:
    inputs = points(40).requires_grad_()
    model = adapted(make)
    scores = model.rejection_scores(inputs) if hasattr(model, "rejection_scores") else model.logits(inputs)
    (gradient,) = torch.autograd.grad(scores.sum(), inputs)
    assert gradient.flatten(1).any(1).all()


@each
def test_what_was_adapted_has_the_bases_classes_and_device(make) -> None:
    model = adapted(make)
    assert (model.classes, model.device) == (10, torch.device("cpu"))
    assert model.logits(points(3), torch.arange(3)).shape == (3, 10)


@each
def test_nothing_lasts_from_round_to_round(make) -> None:
    defence = make()
    first = defence.adapt(base(), training(60), points(40), generator(0))
    defence.end_round(points(40), generator(0))
    assert defence.state() == {}
    defence.restore({})
    assert same(defence.adapt(base(), training(60), points(40), generator(0)).state(), first.state())


@each
def test_traits_say_one_round_and_private_randomness(make) -> None:
    traits, size = make().traits, make().batch_size
    assert (traits.is_one_round, traits.is_randomized, traits.is_stateful) == (True, True, False)
    assert list(range(0, 10_000, size)) == [0]
    assert size == WHOLE_SAMPLE


# DANN: 2 epochs of 3 steps (the points have 3 batches, the examples 4) of 2 forward passes and 1 backward. URejectron:
# 7 steps of one each. TADV: 4 steps of one each, and 3 passes of the attack, one more where it starts at random.
@pytest.mark.parametrize(("name", "least", "most"), [("dann", 18, 18), ("urejectron", 14, 14), ("tadv", 20, 24)])
def test_tick_comes_before_every_pass(name, least, most) -> None:
    calls: list[None] = []
    MAKERS[name](check_cancelled=lambda: calls.append(None)).adapt(base(), training(60), points(40), generator())
    assert least <= len(calls) <= most


@each
def test_a_tick_that_raises_stops_the_training(make) -> None:
    calls: list[None] = []

    def cancel() -> None:
        calls.append(None)
        if len(calls) == 3:
            raise CancelledError

    with pytest.raises(CancelledError):
        make(check_cancelled=cancel).adapt(base(), training(60), points(40), generator())
    assert len(calls) == 3


@each
def test_without_training_data_it_says_what_is_missing(make) -> None:
    with pytest.raises(DefenceError, match="name a training dataset"):
        make().adapt(base(), None, points(4), generator())


@each
def test_training_images_of_another_shape_are_refused(make) -> None:
    odd = Training(torch.rand(8, 1, 9, 9), labels(0, 8))
    with pytest.raises(
        DefenceError, match=r"training images of the model's shape \(1, 8, 8\), and has 8 of \(1, 9, 9\)"
    ):
        make().adapt(base(), odd, points(4), generator())


@each
def test_one_training_example_is_refused(make) -> None:
    with pytest.raises(DefenceError, match="at least two training images"):
        make().adapt(base(), training(1), points(4), generator())


@each
def test_labels_the_model_has_not_are_refused(make) -> None:
    with pytest.raises(DefenceError, match="labels are 3 to 10, and the model has 10 classes"):
        make().adapt(base(), Training(images(0, 2), torch.tensor([3, 10])), points(4), generator())


@pytest.mark.parametrize("name", ["dann", "urejectron"])
def test_test_points_of_another_shape_are_refused(name) -> None:
    with pytest.raises(DefenceError, match=r"test points of the model's shape \(1, 8, 8\)"):
        MAKERS[name]().adapt(base(), training(8), torch.rand(4, 1, 9, 9), generator())


@pytest.mark.parametrize("name", ["dann", "urejectron"])
def test_one_test_point_is_refused(name) -> None:
    with pytest.raises(DefenceError, match="at least two test points"):
        MAKERS[name]().adapt(base(), training(8), points(1), generator())


def test_weights_that_are_not_finite_are_refused() -> None:
    network = nn.Linear(2, 2)
    check_finite("DANN", network)
    with torch.no_grad():
        network.weight[0, 0] = torch.nan
    with pytest.raises(DefenceError, match="lower the learning rate"):
        check_finite("DANN", network)


def test_a_training_that_diverges_fails_the_defence() -> None:
    params = DannParams(
        network="small", mean=None, std=None, epochs=2, batch_size=16, optimizer="sgd", learning_rate=1e30
    )
    with pytest.raises(DefenceError, match="not finite"):
        Dann(params).adapt(base(), training(60), points(40), generator())


def test_batches_hold_every_example_once_and_none_holds_one() -> None:
    for count in range(2, 40):
        batches = shuffled_batches(count, 4, generator(count))
        assert torch.cat(batches).sort().values.tolist() == list(range(count))
        assert min(len(batch) for batch in batches) > 1


def test_rates_fall_tenfold_at_each_milestone() -> None:
    found = [rate_at(epoch, 0.1, (50, 75, 90)) for epoch in (0, 49, 50, 74, 75, 89, 90, 99)]
    assert found == pytest.approx([0.1, 0.1, 0.01, 0.01, 0.001, 0.001, 1e-4, 1e-4])


@pytest.mark.parametrize("module", [dann, tadv, urejectron], ids=["dann", "tadv", "urejectron"])
def test_every_preset_can_be_built(module) -> None:
    plugin: Plugin = module.PLUGIN
    assert set(plugin.presets) == {"mnist", "cifar10", "small"}
    for params in plugin.presets.values():
        assert plugin.build(params, lambda: None).traits.is_one_round


def test_an_adapted_model_takes_images_as_they_are() -> None:
    module = nn.Sequential(nn.Flatten(), nn.Linear(64, 10))
    expected = module(points(5))
    assert torch.equal(AdaptedModel(module, base()).logits(points(5)), expected)
