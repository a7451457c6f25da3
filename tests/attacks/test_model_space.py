import dataclasses
from collections.abc import Callable, Sequence

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor, nn

from tests.attacks.test_pgd import IMAGES, LABELS, NET, generators
from workers.attacks.gradients import IndexedModel
from workers.attacks.losses import cross_entropy
from workers.attacks.model_space import CLEAN, Found, Iteration, ModelSpaceAttack, RaiseCrossEntropy, descend
from workers.attacks.pgd import PGD
from workers.models.adapted import Adapted

torch.manual_seed(2)
OTHERS = [
    nn.Sequential(nn.Flatten(), nn.Linear(36, 8), nn.Tanh(), nn.Linear(8, 5)).eval().requires_grad_(False)
    for _ in range(2)
]
SEARCH = PGD("linf", 0.06, 0.01, 6, random_start=True)
METHODS = ["fpa", "gmsa_avg", "gmsa_min"]


@dataclasses.dataclass
class Frozen:
    """An adapted classifier: a function of images and indices."""

    answer: Callable[[Tensor, Tensor], Tensor]
    classes: int = 5
    device: torch.device = torch.device("cpu")  # noqa: RUF009

    def logits(self, images: Tensor, indices: Tensor | None = None) -> Tensor:
        return self.answer(images, torch.arange(len(images)) if indices is None else indices)


BASE = Frozen(lambda images, indices: NET(images))


def lost(logits: Tensor, indices: Tensor) -> Tensor:
    return -cross_entropy(logits, LABELS[indices])


def make_attack(method: str = "fpa", iterations: int = 2, search: PGD = SEARCH, **more) -> ModelSpaceAttack:
    return ModelSpaceAttack(method, RaiseCrossEntropy(search), iterations, **more)


def starts(iteration: int) -> list[torch.Generator]:
    return generators(range(100 * iteration, 100 * iteration + 12))


def run(attack: ModelSpaceAttack, induce, base: Adapted = BASE, images=IMAGES, labels=LABELS, done=()):
    found = attack.attack_iterations(
        base, induce, images, labels, generators=lambda i: starts(i)[: len(images)], done=done
    )
    return [*done, *found]


def shifting(images: Tensor, iteration: int) -> Frozen:
    """A defence with parameters per example that depend on the perturbed images."""
    mean = images.flatten(1).mean(1, keepdim=True)
    shift = torch.sin(40 * mean * torch.arange(1, 6)) + 0.1 * iteration
    return Frozen(lambda at, indices: NET(at) + shift[indices])


def same(one: Sequence[Iteration], other: Sequence[Iteration]) -> bool:
    return len(one) == len(other) and all(
        torch.equal(vars(a)[name], vars(b)[name]) for a, b in zip(one, other, strict=True) for name in vars(a)
    )


def official_pgd(models, images: Tensor, labels: Tensor, start: Tensor, steps: int, combine: str) -> Tensor:
    """The authors' loop, written from its description: perturbation first, all models in one graph."""

    def value(delta: Tensor) -> Tensor:
        losses = [nn.functional.cross_entropy(model(images + delta), labels, reduction="none") for model in models]
        return torch.stack(losses).min(0).values if combine == "max" else torch.stack(losses).sum(0)

    best = torch.zeros_like(images)
    best_value, delta = value(best), start - images
    for step in range(steps + 1):
        delta = delta.detach().requires_grad_()
        now = value(delta)
        better = now > best_value
        best = torch.where(better.view(-1, 1, 1, 1), delta, best).detach()
        best_value = torch.where(better, now, best_value).detach()
        if step < steps:
            (gradient,) = torch.autograd.grad(now.mean(), delta)
            moved = (delta + SEARCH.step_size * gradient.sign()).clamp(-SEARCH.epsilon, SEARCH.epsilon)
            delta = (images + moved).clamp(0, 1) - images
    return images + best


@pytest.mark.parametrize("combine", ["sum", "max"])
@pytest.mark.parametrize("models", [1, 3])
def test_the_batch_is_perturbed_as_by_the_authors_loop(combine: str, models: int) -> None:
    chosen = [NET, *OTHERS][:models]
    by_model = [IndexedModel(lambda images, indices, model=model: model(images)) for model in chosen]
    drawn = dataclasses.replace(SEARCH, steps=0).run(by_model, IMAGES, descend(lost, "sum"), generators=starts(0)).final
    found = RaiseCrossEntropy(SEARCH)(
        by_model, combine, IMAGES, LABELS, generators=starts(0), check_cancelled=lambda: None
    )
    steps = 6 * models if combine == "max" else 6
    expected = official_pgd(chosen, IMAGES, LABELS, drawn, steps, combine)
    torch.testing.assert_close(found.images, expected, rtol=0, atol=1e-5)
    assert not found.non_finite.any()


@pytest.mark.parametrize("method", METHODS)
def test_the_steps_grow_with_the_models_under_the_minimum_only(method: str) -> None:
    passes = {True: 0, False: 0}

    def counting(images: Tensor, indices: Tensor) -> Tensor:
        passes[torch.is_grad_enabled()] += 1
        return NET(images)

    counted = Frozen(counting)
    found = run(make_attack(method), lambda images, i: counted, counted, IMAGES[:1], LABELS[:1])
    attacked = [[0], [1], [2]] if method == "fpa" else [[0], [0, 1], [0, 1, 2]]
    assert [record.attacked.tolist() for record in found] == attacked
    # One pass with a gradient per step and model; under the minimum per step, of which there are 6, 12 and 18.
    assert passes[True] == {"fpa": 6 * 3, "gmsa_avg": 6 + 6 * 2 + 6 * 3, "gmsa_min": 6 + 12 + 18}[method]
    # Clean and last iterate of every model, three judges and F^(0) beside each; under the minimum, all others too.
    extra = 12 * 2 + 18 * 3 if method == "gmsa_min" else 0
    assert passes[False] == 2 * sum(len(models) for models in attacked) + 6 + extra


def test_without_iterations_it_is_the_transfer_attack_bit_for_bit() -> None:
    objective = descend(lost, "sum")
    transfer = SEARCH.run([NET], IMAGES, objective, generators=starts(0)).best
    for method in METHODS:
        attack = make_attack(method, 0)
        (only,) = run(attack, shifting)
        assert torch.equal(only.perturbed, transfer)
        assert torch.equal(attack.sent([only], IMAGES), transfer)
        assert torch.equal(only.correct, shifting(transfer, 0).logits(transfer).argmax(1) == LABELS)


@pytest.mark.parametrize("start_at", ["one", "clean"])
def test_the_transfer_attack_does_not_fall_back(start_at: str) -> None:
    right = Frozen(lambda images, indices: 9 * nn.functional.one_hot(LABELS[indices], 5).float())
    attack = make_attack("fpa", 0, start_at=start_at)
    found = run(attack, lambda images, i: right)
    assert [record.accuracy for record in found] == [1.0]
    assert attack.selected(found) == 0


@pytest.mark.parametrize("method", METHODS)
def test_a_defence_that_changes_nothing_gives_the_static_models_numbers(method: str) -> None:
    found = run(make_attack(method), lambda images, i: BASE)
    objective = descend(lost, "sum")
    for i, record in enumerate(found):
        steps = SEARCH.steps * (i + 1 if method == "gmsa_min" else 1)
        static = dataclasses.replace(SEARCH, steps=steps).run([NET], IMAGES, objective, generators=starts(i))
        assert torch.equal(record.perturbed, static.best)
        assert torch.equal(record.correct, static.best_logits[:, 0].argmax(1) == LABELS)
        torch.testing.assert_close(record.losses, -static.best_value, rtol=1e-5, atol=1e-6)


def swings(images: Tensor, indices: Tensor, *, side: float) -> Tensor:
    """Wrong once 3 * side * x + 2 * y > 1.5, x and y the shifts from 0.5: weakest in a direction of its own in x."""
    x, y = (images.flatten(1) - 0.5).unbind(1)
    return torch.stack([torch.full_like(x, 1.5), 3 * side * x + 2 * y], 1)


def dodges(images: Tensor, iteration: int) -> Frozen:
    """A defence that turns its weak side away from where the batch was pushed."""
    side = -1.0 if (images.flatten(1)[:, 0] - 0.5).mean() > 0.5 else 1.0
    return Frozen(lambda at, indices: swings(at, indices, side=side), classes=2)


@pytest.mark.parametrize(
    ("method", "accuracies", "selected"),
    [
        ("fpa", [1.0, 1.0, 1.0, 1.0], 0),
        # The average leans to the side of which it has more models.
        ("gmsa_avg", [1.0, 0.0, 1.0, 0.0], 1),
        ("gmsa_min", [1.0, 0.0, 0.0, 0.0], 1),
    ],
    ids=METHODS,
)
def test_the_fixed_point_attack_goes_round_in_circles_where_the_greedy_ones_win(method, accuracies, selected) -> None:
    middle, labels = torch.full((4, 1, 1, 2), 0.5), torch.zeros(4, dtype=torch.int64)
    attack = make_attack(method, 3, PGD("linf", 0.9, 0.1, 20, box=(-9.0, 9.0)))
    found = run(attack, dodges, dodges(middle, CLEAN), middle, labels)
    assert [record.accuracy for record in found] == accuracies
    assert attack.selected(found) == selected
    if method == "fpa":
        sides = [float(record.perturbed[0, 0, 0, 0] - 0.5) for record in found]
        assert sides == pytest.approx([0.9, -0.9, 0.9, -0.9])


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("start_at", ["above_one", "clean"])
def test_resumed_after_any_iteration_it_is_the_undisturbed_run_bit_for_bit(method: str, start_at: str) -> None:
    attack = make_attack(method, 3, dataclasses.replace(SEARCH, steps=3), start_at=start_at)
    whole = run(attack, shifting)
    assert len(whole) == (5 if start_at == "clean" else 4)
    for stop in range(len(whole) + 1):
        stored = [Iteration(**{name: tensor.clone() for name, tensor in vars(r).items()}) for r in whole[:stop]]
        assert same(run(attack, shifting, done=stored), whole)


def test_a_resumed_attack_induces_only_the_models_it_needs() -> None:
    def numbers(method: str) -> list[int]:
        attack, calls = make_attack(method, 4, dataclasses.replace(SEARCH, steps=2)), []
        done = run(attack, shifting)[:3]
        run(attack, lambda images, i: calls.append(i) or shifting(images, i), done=done)
        return calls

    assert numbers("fpa") == [2, 3, 4]
    assert numbers("gmsa_min") == [0, 1, 2, 3, 4]


def test_the_first_iteration_of_one_method_serves_the_others() -> None:
    first = run(make_attack("fpa", 3), shifting)[:1]
    for method in METHODS:
        assert same(run(make_attack(method, 3), shifting, done=first), run(make_attack(method, 3), shifting))


@given(
    method=st.sampled_from(METHODS),
    norm=st.sampled_from(["linf", "l2"]),
    epsilon=st.floats(0, 1.5),
    step_size=st.floats(1e-3, 2),
    random_start=st.booleans(),
    seed=st.integers(0, 1000),
)
def test_every_image_is_in_ball_and_box(method, norm, epsilon, step_size, random_start, seed) -> None:
    images = torch.rand(3, 1, 6, 6, generator=torch.Generator().manual_seed(seed)).round(decimals=1)
    before = images.clone()
    attack = make_attack(method, 2, PGD(norm, epsilon, step_size, 3, random_start))
    found = attack.attack_iterations(
        BASE, shifting, images, LABELS[:3], generators=lambda i: generators(range(seed, seed + 3))
    )
    for record in found:
        delta = (record.perturbed - images).flatten(1)
        length = delta.abs().amax(1) if norm == "linf" else delta.norm(dim=1)
        assert (length <= epsilon * (1 + 1e-5) + 2e-6).all()
        assert record.perturbed.min() >= 0
        assert record.perturbed.max() <= 1
    assert torch.equal(images, before)


@pytest.mark.parametrize("method", METHODS)
def test_a_model_per_example_is_given_its_rows_however_the_batch_is_cut(method: str) -> None:
    most = 12

    def limited(images: Tensor, iteration: int) -> Frozen:
        adapted = shifting(images, iteration)

        def answer(at: Tensor, indices: Tensor) -> Tensor:
            if len(at) > most:
                raise torch.OutOfMemoryError("CUDA out of memory.")
            return adapted.logits(at, indices)

        return Frozen(answer)

    search = dataclasses.replace(SEARCH, steps=3)
    whole = run(make_attack(method, search=search), limited)
    assert [len(record.perturbed) for record in whole] == [12] * 3
    for most, size in ((5, 128), (12, 5), (2, 7)):  # noqa: B007
        cut = run(make_attack(method, search=search, batch_size=size), limited)
        for one, other in zip(cut, whole, strict=True):
            torch.testing.assert_close(one.perturbed, other.perturbed, rtol=0, atol=1e-4)
            torch.testing.assert_close(one.losses, other.losses, rtol=1e-3, atol=1e-3)
            assert torch.equal(one.correct, other.correct)


def test_the_clean_batch_is_judged_by_the_model_it_induces() -> None:
    calls: list[tuple[int, Tensor]] = []
    found = run(make_attack(start_at="clean"), lambda at, i: calls.append((i, at)) or shifting(at, i))
    assert [i for i, _ in calls] == [CLEAN, 0, 1, 2]
    assert [record.number for record in found] == [CLEAN, 0, 1, 2]
    assert torch.equal(calls[0][1], IMAGES)
    assert torch.equal(found[0].perturbed, IMAGES)
    assert torch.equal(found[0].correct, shifting(IMAGES, CLEAN).logits(IMAGES).argmax(1) == LABELS)


def test_an_attack_is_judged_by_the_model_its_images_induced() -> None:
    for record in run(make_attack("gmsa_avg", 3), shifting):
        induced = shifting(record.perturbed, record.number).logits(record.perturbed)
        assert torch.equal(record.correct, induced.argmax(1) == LABELS)
        torch.testing.assert_close(
            record.losses, nn.functional.cross_entropy(induced.double(), LABELS, reduction="none")
        )
        assert record.accuracy == pytest.approx(float((induced.argmax(1) == LABELS).float().mean()))


def test_it_can_stop_once_nothing_is_right() -> None:
    wrong = Frozen(lambda images, indices: nn.functional.one_hot((LABELS[indices] + 1) % 5, 5).float())

    def turns(images: Tensor, iteration: int) -> Frozen:
        return (
            wrong if iteration == 1 else Frozen(lambda at, indices: nn.functional.one_hot(LABELS[indices], 5).float())
        )

    attack = make_attack(iterations=4, stop_at_first_success=True, start_at="one")
    found = run(attack, turns, images=IMAGES[:1], labels=LABELS[:1])
    assert [record.accuracy for record in found] == [1.0, 0.0]
    assert attack.selected(found) == 1
    assert same(run(attack, turns, images=IMAGES[:1], labels=LABELS[:1], done=found), found)
    assert len(run(make_attack(iterations=4), turns, images=IMAGES[:1], labels=LABELS[:1])) == 5


def test_outputs_that_are_not_finite_are_told() -> None:
    nowhere = Frozen(lambda images, indices: NET(images) + torch.where(indices == 3, torch.nan, 0.0).unsqueeze(1))
    (induced_only,) = run(make_attack(iterations=0), lambda images, i: nowhere)
    assert induced_only.non_finite.nonzero().flatten().tolist() == [3]
    assert not induced_only.correct[3]
    assert induced_only.loss == torch.inf
    (attacked_only,) = run(make_attack(iterations=0), lambda images, i: BASE, base=nowhere)
    assert attacked_only.non_finite.nonzero().flatten().tolist() == [3]
    assert torch.equal(attacked_only.perturbed[3], IMAGES[3])


def test_cancelling_stops_it_between_any_two_passes() -> None:
    class Cancelled(BaseException):
        pass

    def after(count: int) -> Callable[[], None]:
        left = iter(range(count))

        def check_cancelled() -> None:
            if next(left, None) is None:
                raise Cancelled

        return check_cancelled

    attack = make_attack("gmsa_min", 1, dataclasses.replace(SEARCH, steps=1))
    few, own = (IMAGES[:3], LABELS[:3]), lambda i: starts(i)[:3]
    whole = run(attack, shifting, BASE, *few)
    passes = 0
    while True:
        try:
            found = list(attack.attack_iterations(BASE, shifting, *few, generators=own, check_cancelled=after(passes)))
            break
        except Cancelled:
            passes += 1
    assert same(found, whole)
    # Clean, 2 iterates, two judges; then two models: clean, 3 iterates, 2 steps back through one or both, two judges.
    assert 5 + 2 + 6 + 2 + 2 <= passes <= 5 + 2 + 6 + 4 + 2


@pytest.mark.parametrize(
    "wrong",
    [{"iterations": -1}, {"batch_size": 0}, {"variant": "paper", "start_at": "one"}],
    ids=["iterations", "batch_size", "variant"],
)
def test_refuses_what_is_no_attack(wrong) -> None:
    with pytest.raises(ValueError, match=r"not an attack|never the clean batch"):
        make_attack(**wrong)


def test_refuses_what_is_no_batch() -> None:
    with pytest.raises(ValueError, match="not a batch"):
        run(make_attack(), shifting, labels=LABELS[:5])
    with pytest.raises(ValueError, match="not a batch"):
        run(make_attack(), shifting, images=IMAGES[:0], labels=LABELS[:0])


def test_another_way_to_perturb_can_be_given() -> None:
    def push(models, combine, images, labels, *, generators, check_cancelled) -> Found:
        return Found(images.add(0.01 * len(models)), torch.zeros(len(images), dtype=torch.bool))

    found = run(ModelSpaceAttack("gmsa_avg", push, 2), lambda images, i: BASE)
    assert [round(float((record.perturbed - IMAGES).mean()), 3) for record in found] == [0.01, 0.02, 0.03]
