from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from tests.defences.builders import base, generator, images, labels, points, same, training
from workers.attacks.pgd import PGD
from workers.attacks.robust_accuracy import robust_accuracy
from workers.defences import tadv
from workers.defences.tadv import PRESETS, Tadv, TadvParams, attack, random_starts

TINY = replace(PRESETS["small"], epochs=1, attack_steps=2, batch_size=16)
EPSILON = 0.15


def naive_attack(model, search: PGD, x: Tensor, y: Tensor, start: Tensor) -> Tensor:
    """The official loop, on the perturbation: elementwise best of the clean image and every iterate."""
    losses = F.cross_entropy(model(x), y, reduction="none").detach()
    best, delta = torch.zeros_like(x), start - x
    for step in range(search.steps + 1):
        delta.requires_grad_()
        loss = F.cross_entropy(model(x + delta), y, reduction="none")
        better = loss.detach() > losses
        losses = torch.where(better, loss.detach(), losses)
        best[better] = delta.detach()[better]
        if step < search.steps:
            (gradient,) = torch.autograd.grad(loss.mean(), delta)
            delta = (delta.detach() + search.step_size * gradient.sign()).clamp(-search.epsilon, search.epsilon)
            delta = (x + delta).clamp(0, 1) - x
    return x + best


@pytest.mark.parametrize("is_random", [True, False], ids=["random", "zero"])
def test_the_attack_agrees_with_the_official_loop(is_random) -> None:
    target, x, y = base(), points(30), labels(1200, 30)
    search = PGD("linf", 0.2, 0.07, 6)
    starts = random_starts(x, 0.2, generator()) if is_random else None
    found = attack(search, target.logits, x, y, starts)
    expected = naive_attack(target.logits, search, x, y, x if starts is None else starts)
    torch.testing.assert_close(found, expected, atol=1e-6, rtol=0)


def test_the_attack_begins_where_it_is_told() -> None:
    seen: list[Tensor] = []
    target, x, y = base(), points(5), labels(1200, 5)
    starts = random_starts(x, 0.2, generator())

    def watched(inputs: Tensor) -> Tensor:
        seen.append(inputs.detach().clone())
        return target.logits(inputs)

    attack(PGD("linf", 0.2, 0.1, 2), watched, x, y, starts)
    assert torch.equal(seen[0], x)
    assert torch.equal(seen[1], starts)
    assert len(seen) == 4


def test_random_starts_are_gaussian_directions_of_uniform_length() -> None:
    x = torch.full((4000, 1, 4, 4), 0.5)
    deltas = (random_starts(x, 0.3, generator(1)) - x).flatten(1)
    lengths = deltas.abs().amax(1) / 0.3
    assert 0 <= lengths.min() < 0.01
    assert 0.99 < lengths.max() <= 1 + 1e-6
    # A uniform's quartiles, to 3 standard errors.
    assert lengths.quantile(torch.tensor([0.25, 0.5, 0.75])).tolist() == pytest.approx([0.25, 0.5, 0.75], abs=0.024)
    # Of 16 Gaussian entries a twentieth of the squares' sum is beyond what uniform entries would have at most.
    directions = deltas / deltas.norm(dim=1, keepdim=True)
    assert directions.pow(4).mean() == pytest.approx(3 / (16 * 18), rel=0.03)


def test_random_starts_stay_in_the_box() -> None:
    x = torch.rand(200, 1, 3, 3, generator=generator()).round()
    starts = random_starts(x, 0.4, generator(1))
    assert (starts - x).abs().max() <= 0.4 + 1e-6
    assert starts.min() >= 0
    assert starts.max() <= 1


def test_half_the_batches_are_attacked_from_a_random_start(monkeypatch) -> None:
    random: list[bool] = []
    known = tadv.attack

    def watched(search, model, inputs, expected, starts, check_cancelled):
        random.append(starts is not None)
        return known(search, model, inputs, expected, starts, check_cancelled)

    monkeypatch.setattr(tadv, "attack", watched)
    Tadv(replace(TINY, attack_steps=0, batch_size=4)).adapt(base(), training(400), points(2), generator())
    assert len(random) == 100
    assert 35 <= sum(random) <= 65  # 3 standard deviations


def test_only_the_second_half_of_a_batch_is_attacked_in_eval_mode(monkeypatch) -> None:
    sizes: list[tuple[int, bool]] = []

    def watched(search, model, inputs, expected, starts, check_cancelled):
        sizes.append((len(inputs), model.training))
        return inputs

    monkeypatch.setattr(tadv, "attack", watched)
    Tadv(replace(TINY, batch_size=16)).adapt(base(), training(43), points(2), generator())
    assert sizes == [(8, False), (8, False), (6, False)]


def robustness(model) -> float:
    x, y = images(1200, 200), labels(1200, 200)
    return float(robust_accuracy(PGD("linf", EPSILON, EPSILON / 3, 10), model.logits, x, y).float().mean())


@pytest.mark.slow
def test_it_is_more_robust_than_the_same_training_without_attacks() -> None:
    params = TadvParams("small", EPSILON, EPSILON / 2, attack_steps=3, epochs=6, batch_size=50, learning_rate=5e-3)
    adversarial = Tadv(params).adapt(base(), training(600), points(2), generator(1))
    standard = Tadv(replace(params, epsilon=0.0, attack_steps=0)).adapt(base(), training(600), points(2), generator(1))
    assert robustness(adversarial) > robustness(standard) + 0.08
    x, y = images(1200, 200), labels(1200, 200)
    assert (adversarial.logits(x).argmax(1) == y).float().mean() > 0.7


def test_the_batch_has_no_influence() -> None:
    first = Tadv(TINY).adapt(base(), training(60), points(40), generator())
    assert same(first.state(), Tadv(TINY).adapt(base(), training(60), points(1, 1500), generator()).state())


def test_an_attackers_copy_differs_by_its_generator_alone() -> None:
    attackers, defenders = Tadv(TINY), Tadv(TINY)
    copies = [
        defence.adapt(base(), training(60), points(4), generator(seed)).state()
        for defence, seed in ((attackers, 1), (defenders, 2), (defenders, 1))
    ]
    assert not same(copies[0], copies[1])
    assert same(copies[0], copies[2])


@pytest.mark.parametrize(
    "change",
    [
        {"epsilon": 0.1},
        {"step_size": 0.01},
        {"attack_steps": 3},
        {"epochs": 2},
        {"batch_size": 20},
        {"is_augmented": True},
        {"optimizer": "sgd"},
        {"learning_rate": 2e-3},
        {"weight_decay": 0.1},
        {"milestones": (0,)},
        {"network": "resnet20"},
    ],
    ids=lambda change: next(iter(change)),
)
def test_every_hyper_parameter_has_an_effect(change) -> None:
    plain = Tadv(TINY).adapt(base(), training(60), points(2), generator()).state()
    changed = Tadv(replace(TINY, **change)).adapt(base(), training(60), points(2), generator()).state()
    assert not same(plain, changed)


def of_variants(params: TadvParams, examples: int) -> list[dict[str, Tensor]]:
    return [
        Tadv(replace(params, variant=variant)).adapt(base(), training(examples), points(2), generator()).state()
        for variant in ("official", "paper")
    ]


def test_variants_are_the_same_for_adam_and_even_batches() -> None:
    assert same(*of_variants(TINY, 64))


def test_variants_differ_in_nesterov_momentum() -> None:
    assert not same(*of_variants(replace(TINY, optimizer="sgd", learning_rate=0.01), 64))


def test_the_paper_s_momentum_is_nesterov_s_and_the_official_code_s_is_not(monkeypatch) -> None:
    made: list[torch.optim.Optimizer] = []
    known = tadv.make_optimizer
    monkeypatch.setattr(tadv, "make_optimizer", lambda *given, **how: made.append(known(*given, **how)) or made[-1])
    of_variants(replace(TINY, optimizer="sgd", learning_rate=0.01, attack_steps=0), 32)
    assert [one.defaults["nesterov"] for one in made] == [False, True]


def test_the_rate_falls_at_the_step_that_completes_a_milestone(monkeypatch) -> None:
    rates: list[float] = []
    known = tadv.descend
    monkeypatch.setattr(
        tadv,
        "descend",
        lambda loss, optimizer, rate, check_cancelled: (
            rates.append(rate) or known(loss, optimizer, rate, check_cancelled)
        ),
    )
    params = replace(TINY, epochs=2, attack_steps=0, learning_rate=0.1, milestones=(1,))
    Tadv(params).adapt(base(), training(64), points(2), generator())
    assert rates == pytest.approx([0.1] * 3 + [0.01] * 5)


def test_variants_differ_in_odd_batches() -> None:
    assert not same(*of_variants(TINY, 61))


def test_presets_are_those_of_the_paper() -> None:
    mnist, cifar10 = PRESETS["mnist"], PRESETS["cifar10"]
    assert (mnist.epsilon, mnist.step_size, mnist.attack_steps) == (0.3, 0.01, 40)
    assert (mnist.optimizer, mnist.learning_rate, mnist.epochs, mnist.batch_size) == ("adam", 1e-3, 100, 128)
    assert (cifar10.epsilon, cifar10.step_size, cifar10.attack_steps) == (8 / 255, 2 / 255, 10)
    assert (cifar10.optimizer, cifar10.learning_rate, cifar10.weight_decay) == ("sgd", 0.1, 5e-4)
    assert (cifar10.epochs, cifar10.milestones, cifar10.batch_size) == (110, (100, 105), 128)
    assert cifar10.is_augmented


@pytest.mark.parametrize(
    "change",
    [
        {"epochs": 0},
        {"batch_size": 1},
        {"learning_rate": 0.0},
        {"weight_decay": -1.0},
        {"epsilon": -0.1},
        {"step_size": 0.0},
        {"attack_steps": -1},
    ],
    ids=lambda change: next(iter(change)),
)
def test_numbers_out_of_range_are_refused(change) -> None:
    with pytest.raises(ValueError, match="not a"):
        TadvParams(**change)
