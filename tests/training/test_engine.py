"""What the loop does around a method: gradients, memory, cancelling, curves, and what it refuses."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from seatrial.contracts import training
from seatrial.hardening.cross_entropy import GradientNormalisedParams, HighTemperatureParams
from tests.training.builders import (
    batch_of,
    cnn,
    gradients,
    image_data,
    linear,
    set_gradients_to_none,
    step_of,
    trainable,
)
from workers.errors import PreflightError
from workers.training.data import Batch, InMemory
from workers.training.engine import Progress, make_optimizer, train
from workers.training.errors import DivergedError
from workers.training.methods.plain import CrossEntropy
from workers.training.protocol import Step


def _params(**more: Any) -> GradientNormalisedParams:
    body = {"method": "gradient_normalised", "gradients": "plain", "epochs": 1, "batch_size": 8, "optimizer": "sgd"}
    return GradientNormalisedParams.model_validate({**body, **more})


def _run(model: Any, method: Any, params: GradientNormalisedParams, **more: Any) -> Any:
    return train(model, method, params, image_data(16), image_data(12, seed=1), seed=0, **more)


def _by_hand(model: Any, batch: Batch) -> list[Tensor]:
    set_gradients_to_none(model)
    F.cross_entropy(model.logits(batch.inputs), batch.labels).backward()
    found = gradients(model)
    set_gradients_to_none(model)
    return found


def _norm(grads: list[Tensor]) -> float:
    return float(torch.cat([each.flatten() for each in grads]).double().norm())


@pytest.mark.parametrize(
    ("treatment", "scale"), [("normalised", 1.0), ("clipped", 1.0), ("clipped", 1000.0), ("plain", 1.0)]
)
def test_the_gradient_is_normalised_over_all_parameters_and_clipped_only_where_it_is_long(
    treatment: str, scale: float
) -> None:
    model = cnn(dropout=0, has_norm=False)
    batch = batch_of(image_data(8))
    raw = _by_hand(model, batch)
    clip_norm = _norm(raw) * 0.5 * scale
    params = _params(gradients=treatment, clip_norm=clip_norm)
    method, step = CrossEntropy(params, model), step_of(model, 8)
    method.accumulate(batch, 1.0, step)
    assert method.finish(step)
    factor = {
        "plain": 1.0,
        "normalised": 1 / _norm(raw),
        "clipped": min(1.0, clip_norm / (_norm(raw) + 1e-6)),
    }[treatment]
    for found, expected in zip(gradients(model), raw, strict=True):
        assert torch.allclose(found, expected * factor, rtol=1e-5, atol=1e-8)


def test_a_short_gradient_is_made_longer_too_and_one_of_zero_is_skipped() -> None:
    # Both classes' logits are far apart and right: the gradient is tiny, and clipping would leave it so.
    images = torch.tensor([1.0, 0.0]).view(1, 1, 1, 2)
    model = linear(torch.tensor([[5.0, 0.0], [-5.0, 0.0]]))
    batch = Batch((0,), images, torch.tensor([0]))
    assert _norm(_by_hand(model, batch)) < 1e-4
    method = CrossEntropy(_params(gradients="normalised"), model)
    step = step_of(model)
    method.accumulate(batch, 1.0, step)
    assert method.finish(step)
    assert _norm(gradients(model)) == pytest.approx(1, rel=1e-5)
    dark = Batch((0,), torch.zeros(1, 1, 1, 2), torch.tensor([0]))
    set_gradients_to_none(model)
    method.accumulate(dark, 1.0, step)
    assert not method.finish(step)
    outcome = train(
        model,
        method,
        _params(gradients="normalised"),
        InMemory(dark.inputs, np.array([0])),
        InMemory(dark.inputs, np.array([0])),
        seed=0,
    )
    assert outcome.skipped == 1


def test_a_training_temperature_has_the_gradient_of_the_paper_and_cancels_under_normalisation() -> None:
    images = torch.tensor([[0.2, 0.9], [0.7, 0.1]]).view(2, 1, 1, 2)
    weights = torch.tensor([[3.0, -1.0], [0.5, 2.0], [0.0, 1.0]])
    labels = torch.tensor([1, 2])
    temperature = 20.0
    logits = images.flatten(1) @ weights.T
    error = (torch.softmax(logits / temperature, 1) - F.one_hot(labels, 3)) / temperature / 2
    expected = error.T @ images.flatten(1)
    body = {"method": "high_temperature", "training_temperature": temperature}
    for treatment, wanted in (("plain", expected), ("normalised", expected / expected.norm())):
        model = linear(weights)
        params = HighTemperatureParams.model_validate({**body, "gradients": treatment})
        method, step = CrossEntropy(params, model), step_of(model, 2)
        method.accumulate(Batch((0, 1), images, labels), 1.0, step)
        method.finish(step)
        assert torch.allclose(gradients(model)[0], wanted, rtol=1e-5)


def test_a_step_of_sgd_is_the_one_by_hand() -> None:
    model, data = cnn(dropout=0, has_norm=False), image_data(8)
    raw = _by_hand(model, batch_of(data))
    before = [each.detach().clone() for each in model.module.parameters()]
    params = _params(learning_rate=0.1, momentum=0.0, weight_decay=0.01, keep="last")
    train(model, CrossEntropy(params, model), params, data, data, seed=0)
    for now, then, gradient in zip(model.module.parameters(), before, raw, strict=True):
        assert torch.allclose(now, then - 0.1 * (gradient + 0.01 * then), atol=1e-6)


def test_micro_batches_accumulate_to_the_gradient_of_the_batch() -> None:
    whole, halves = cnn(dropout=0, has_norm=False), cnn(dropout=0, has_norm=False)
    for model, size in ((whole, None), (halves, 3)):
        params = _params(micro_batch_size=size, keep="last")
        _run(model, CrossEntropy(params, model), params)
    for a, b in zip(whole.module.parameters(), halves.module.parameters(), strict=True):
        assert torch.allclose(a, b, atol=1e-6)


class _ShortOfMemory(CrossEntropy):
    """Fails on more than so many examples at once, after the forward pass has counted them."""

    most = 3

    def accumulate(self, batch: Batch, share: float, step: Step) -> Tensor:
        loss = super().accumulate(batch, share, step)
        if len(batch) > self.most:
            torch.rand(5, generator=step.generator)
            raise torch.OutOfMemoryError("out of memory")
        return loss


def test_where_memory_runs_out_the_step_begins_again_in_halves_as_if_it_had_been_asked_for() -> None:
    short, asked = cnn(), cnn()
    params = _params(batch_size=8)
    outcome = _run(short, _ShortOfMemory(params, short), params)
    assert outcome.micro_batch_size == 2
    params = _params(batch_size=8, micro_batch_size=2)
    _run(asked, CrossEntropy(params, asked), params)
    state = asked.module.state_dict()
    # Running statistics and dropout too: the tries that failed have left nothing.
    assert all(torch.equal(value, state[name]) for name, value in short.module.state_dict().items())


def test_memory_for_less_than_one_example_is_told() -> None:
    model, params = cnn(), _params()
    method = _ShortOfMemory(params, model)
    method.most = 0
    with pytest.raises(torch.OutOfMemoryError):
        _run(model, method, params)


class _CancelledError(Exception):
    pass


def test_a_run_is_cancelled_within_a_step_and_leaves_the_model_frozen() -> None:
    model, params = cnn(), _params(epochs=50, micro_batch_size=2)
    asked = 0

    def check() -> None:
        nonlocal asked
        asked += 1
        if asked > 5:
            raise _CancelledError

    with pytest.raises(_CancelledError):
        _run(model, CrossEntropy(params, model), params, check_cancelled=check)
    assert asked == 6
    assert not model.module.training
    assert not any(each.requires_grad for each in model.module.parameters())


def test_curves_progress_and_the_first_best_epoch_is_kept() -> None:
    model, params = cnn(), _params(epochs=4, learning_rate=0.05, milestones=[2])
    seen: list[Progress] = []
    weights: list[dict[str, Tensor]] = []

    def save(checkpoint: Any) -> None:
        weights.append({name: value for name, value in checkpoint.tensors.items() if name.startswith("model.")})

    outcome = _run(model, CrossEntropy(params, model), params, on_progress=seen.append, save=save)
    accuracies = [point["accuracy"] for point in outcome.curves]
    assert outcome.kept_epoch == accuracies.index(max(accuracies))
    assert [point["learning_rate"] for point in outcome.curves] == pytest.approx([0.05, 0.05, 0.005, 0.005])
    assert [(one.epoch, one.step) for one in seen] == [(epoch, 2) for epoch in range(4)]
    kept = weights[outcome.kept_epoch]
    assert all(torch.equal(kept[f"model.{name}"], value) for name, value in model.module.state_dict().items())
    data = image_data(12, seed=1)
    predicted = model.logits(data.inputs).argmax(1).numpy()
    assert float((predicted == data.labels).mean()) == pytest.approx(max(accuracies))


def test_loss_goes_down() -> None:
    model, params = cnn(dropout=0), _params(epochs=30, learning_rate=0.1)
    outcome = _run(model, CrossEntropy(params, model), params)
    assert outcome.curves[-1]["train_loss"] < 0.3 * outcome.curves[0]["train_loss"]


@pytest.mark.filterwarnings("ignore")
def test_a_run_that_diverges_says_so() -> None:
    model, params = cnn(), _params(epochs=20, learning_rate=100, momentum=0.99, weight_decay=1)
    with pytest.raises(DivergedError, match="learning_rate"):
        _run(model, CrossEntropy(params, model), params)


def test_bfloat16_trains_float32_weights_to_nearly_the_same_decisions() -> None:
    # Requests take it on GPUs only; autocast is the same on a CPU, but slow.
    decided, data, held_out = [], image_data(200), image_data(100, seed=1)
    for in_bfloat16 in (False, True):
        model = cnn(dropout=0, has_norm=False)
        model.in_bfloat16 = in_bfloat16
        params = _params(learning_rate=0.1)
        method, optimizer = CrossEntropy(params, model), make_optimizer(model, params)
        for start in [*range(0, 200, 20)] * 6:
            set_gradients_to_none(model)
            method.accumulate(batch_of(data, start, start + 20), 1.0, step_of(model, 20))
            optimizer.step()
        assert {each.dtype for each in model.module.parameters()} == {torch.float32}
        logits = model.logits(held_out.read(range(100)))
        assert logits.dtype == torch.float32
        # What bfloat16 holds has no more than 8 bits: it was computed in it.
        assert bool((logits == logits.bfloat16().float()).all()) == in_bfloat16
        decided.append(logits.argmax(1))
    assert float((decided[0] == decided[1]).float().mean()) >= 0.95
    assert float((decided[0] == torch.as_tensor(held_out.labels)).float().mean()) > 0.6


def test_what_cannot_be_trained_is_refused() -> None:
    model = cnn()
    with pytest.raises(PreflightError, match="GPUs"):
        _run(model, CrossEntropy(_params(), model), _params(precision="bfloat16"))
    empty = InMemory(torch.zeros(0, 1, 4, 4), np.zeros(0, np.int64))
    with pytest.raises(PreflightError, match="nothing to train on"):
        train(model, CrossEntropy(_params(), model), _params(), empty, empty, seed=0)
    with pytest.raises(PreflightError, match="no floating parameter"):
        trainable(nn.Flatten(), (1, 2, 2), 4)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"milestones": [3, 3]}, "ascend"),
        ({"micro_batch_size": 9}, "at most batch_size"),
        ({"learning_rate": 0}, "greater than 0"),
        ({"patience": 1}, "Extra inputs"),
    ],
)
def test_parameters_name_what_is_wrong(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        _params(**changes)


@pytest.fixture
def found(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    """Return the methods there are with further entry points."""

    def find(*points: training.EntryPoint) -> Any:
        monkeypatch.setattr(training, "entry_points", lambda group: points)
        training._found.cache_clear()
        return training._found()

    yield find
    monkeypatch.undo()
    training._found.cache_clear()


def test_methods_of_other_distributions_are_found_and_broken_ones_told(found: Callable[..., Any]) -> None:
    def point(name: str, value: str) -> training.EntryPoint:
        return training.EntryPoint(name, value, training.GROUP)

    here = "tests.training.toy_method"
    specs, broken = found(
        point("toy", f"{here}:SPEC"),
        point("misnamed", f"{here}:SPEC"),
        point("nothing", f"{here}:NOTHING"),
        point("high_temperature", f"{here}:SPEC"),
    )
    assert [*specs][-1] == "toy"
    assert specs["high_temperature"].params is HighTemperatureParams
    assert set(broken) == {"misnamed", "nothing", "high_temperature"}
    model, params = cnn(), specs["toy"].params.model_validate({"method": "toy", "epochs": 1})
    outcome = _run(model, specs["toy"].load()(params, model), params)
    assert outcome.curves[0]["attacked_accuracy"] == 0


def test_every_shipped_method_loads_and_prices_itself() -> None:
    declared = {point.name: point.value for point in training.entry_points(group=training.GROUP)}
    for point in training.SHIPPED:
        # A checkout with older metadata lacks the newest.
        assert declared.get(point.name, point.value) == point.value
    for slug, spec in training.methods().items():
        assert spec.load() is not None
        params = spec.params.model_validate({"method": slug})
        assert params.passes(100, 20).forward >= 0
        assert all(field.description for field in spec.params.model_fields.values())
