import math
from dataclasses import replace
from functools import cache
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from tests.defences import builders
from workers.defences.copies import penultimate
from workers.defences.protocol import OPTIMIZER, DefenceError, Remembering
from workers.defences.rmc import PRESETS, EarlyStop, Rmc, split

PARAMS = replace(PRESETS["small"], neighbours=60, batch_size=32, epochs=3, attack_steps=3)
TRAINING = builders.training(120)
POINTS = builders.points(8)


@cache
def pool() -> Any:
    return Rmc(PARAMS).make_pool(builders.base(), TRAINING)


def play(defence, base, rounds, seed=0):
    """Play some rounds; return their answers to all points."""
    answers = []
    for i in rounds:
        adapted = defence.adapt(base, TRAINING, POINTS[i : i + 1], builders.generator(1000 * seed + i))
        answers.append(adapted.logits(POINTS))
        defence.end_round(POINTS[i : i + 1], builders.generator(1000 * seed + 500 + i))
    return torch.stack(answers)


def rmc(params=PARAMS, **more) -> Rmc:
    rmc = Rmc(params, **more)
    rmc.use(pool().tensors())
    return rmc


def literal_epochs(curve, patience, below):
    """The official loop over made-up losses; how many epochs it runs."""
    least, count = math.inf, 0
    for epoch, (held_out, training) in enumerate(curve, 1):
        if held_out < least:
            least, count = held_out, 0
        else:
            count += 1
        if count >= patience and (below is None or training < below):
            return epoch
    return len(curve)


def epochs(curve, patience, below):
    stop = EarlyStop(patience, below)
    return next((i for i, losses in enumerate(curve, 1) if stop.after(*losses)), len(curve))


def test_early_stop_on_a_hand_made_curve() -> None:
    held_out = [1.0, 0.8, 0.9, 0.7, 0.7, 0.71, 0.72, 0.73, 0.74, 0.75, 0.76]
    training = [0.5, 0.1, 0.05, 0.02, 0.02, 0.02, 0.02, 0.02, 0.02, 0.009, 0.001]
    curve = list(zip(held_out, training, strict=True))
    # The least is at epoch 4 (an equal one is none), so patience is out at epoch 9; training is below only at 10.
    assert epochs(curve, 5, None) == 9
    assert epochs(curve, 5, 0.01) == 10
    assert epochs(curve, 5, 0.0001) == 11


@given(
    curve=st.lists(st.tuples(st.integers(0, 6), st.integers(0, 6)), min_size=1, max_size=25),
    patience=st.integers(1, 6),
    below=st.none() | st.integers(0, 6),
)
def test_early_stop_agrees_with_the_official_loop(curve, patience, below) -> None:
    assert epochs(curve, patience, below) == literal_epochs(curve, patience, below)


@given(count=st.integers(2, 60), seed=st.integers(0, 99))
def test_a_split_keeps_every_position_once(count, seed) -> None:
    trained_on, held_out = split(torch.arange(100, 100 + count), 0.25, builders.generator(seed))
    assert sorted(torch.cat([trained_on, held_out]).tolist()) == list(range(100, 100 + count))
    assert len(held_out) == math.ceil(count / 4)


def test_the_official_sizes() -> None:
    params = PRESETS["cifar10"]
    nearest = int(params.neighbours * params.nearest_share)
    trained_on, held_out = split(torch.arange(nearest), params.held_out_share, builders.generator())
    assert (nearest, len(held_out), len(trained_on) + params.neighbours - nearest) == (204, 51, 973)
    parts = split(torch.arange(params.neighbours), params.calibration_held_out_share, builders.generator())
    assert [len(part) for part in parts] == [896, 128]


def trained_on_in(monkeypatch, params, act):
    """The positions in the pool that are trained on and held out while ``act`` plays."""
    seen = []
    defence = rmc(params)
    monkeypatch.setattr(defence, "_train", lambda moving, pool, *positions: seen.append(positions[:2]))
    act(defence)
    return seen


def test_a_point_is_answered_after_training_on_its_neighbours(monkeypatch) -> None:
    base = builders.base()
    ((trained_on, held_out),) = trained_on_in(
        monkeypatch, PARAMS, lambda defence: defence.adapt(base, TRAINING, POINTS[:1], builders.generator())
    )
    features = penultimate(base, POINTS[:1])[0]
    order = sorted(range(240), key=lambda i: float((pool().features[i] - features).square().sum()))
    assert set(held_out.tolist()) <= set(order[:12])
    assert sorted(trained_on.tolist() + held_out.tolist()) == sorted(order[:60])
    assert len(held_out) == 3


def test_neighbours_are_of_the_fixed_base_however_the_model_has_moved(monkeypatch) -> None:
    base, defence = builders.base(), rmc(replace(PARAMS, learning_rate=0.05))
    play(defence, base, range(2))
    seen = []
    monkeypatch.setattr(defence, "_train", lambda moving, pool, *positions: seen.append(positions[:2]))
    defence.adapt(base, TRAINING, POINTS[5:6], builders.generator(9))
    ((expected_trained_on, expected_held_out),) = trained_on_in(
        monkeypatch, PARAMS, lambda fresh: fresh.adapt(base, TRAINING, POINTS[5:6], builders.generator(9))
    )
    assert torch.equal(seen[0][0], expected_trained_on)
    assert torch.equal(seen[0][1], expected_held_out)


@pytest.mark.parametrize(("variant", "among"), [("official", range(120)), ("paper", range(240))])
def test_calibration_draws_from_the_clean_part_officially_and_from_all_in_the_paper(monkeypatch, variant, among):
    def act(defence) -> None:
        defence.adapt(builders.base(), TRAINING, POINTS[:1], builders.generator())
        for seed in range(8):
            defence.end_round(POINTS[:1], builders.generator(seed))

    calibrations = trained_on_in(monkeypatch, replace(PARAMS, variant=variant), act)[1:]
    drawn = torch.cat([position for positions in calibrations for position in positions]).tolist()
    assert set(drawn) <= set(among)
    assert max(drawn) > 0.9 * len(among)
    assert len(drawn) == 8 * 60 > len(set(drawn))
    assert len(calibrations[0][1]) == 8


def test_a_round_agrees_with_a_plain_loop_and_ends_with_the_last_weights_not_the_best() -> None:
    """In training mode, the running statistics moved with it, at a rate that makes the held-out loss rise again."""
    params = replace(PARAMS, epochs=4, learning_rate=0.05)
    base = builders.base()
    found = rmc(params).adapt(base, TRAINING, POINTS[:1], builders.generator(3))
    order, generator = pool().nearest(penultimate(base, POINTS[:1])[0], 60), builders.generator(3)
    trained_on, held_out = split(order[:12], 0.25, generator)
    chosen = torch.cat([trained_on, order[12:]])
    module = builders.network()
    module.load_state_dict(base.module.state_dict())
    optimizer = torch.optim.Adam(module.parameters(), lr=0.05)
    # Dropout's seed.
    torch.randint(2**63 - 1, (), generator=generator)
    held_out_losses = []
    for _ in range(4):
        module.train()
        for batch in torch.randperm(57, generator=generator).split(32):
            images, labels = pool().images[chosen[batch]], pool().labels[chosen[batch]]
            optimizer.zero_grad()
            nn.functional.cross_entropy(module((images - 0.3) / 0.4), labels).backward()
            optimizer.step()
        module.eval()
        logits = module((pool().images[held_out] - 0.3) / 0.4)
        held_out_losses.append(nn.functional.cross_entropy(logits, pool().labels[held_out]).item())
    assert min(held_out_losses) < held_out_losses[-1]
    torch.testing.assert_close(found.logits(POINTS), module((POINTS - 0.3) / 0.4).detach(), rtol=1e-2, atol=1e-2)


def test_the_paper_trains_without_moving_the_running_statistics() -> None:
    before = builders.weights(builders.base())
    for variant, is_moved in (("official", True), ("paper", False)):
        defence = rmc(replace(PARAMS, variant=variant))
        play(defence, builders.base(), range(1))
        assert torch.equal(defence.state()["model.1.running_mean"], before["1.running_mean"]) is not is_moved
        assert not torch.equal(defence.state()["model.1.weight"], before["1.weight"])


def test_one_adam_serves_a_defenders_whole_life() -> None:
    defence = rmc()
    play(defence, builders.base(), range(3))
    # 57 examples are two batches of at most 32, then 52 of a calibration are two; three epochs each, three rounds.
    assert defence.state()["optimizer.0.step"] == 3 * 3 * (2 + 2)


def test_a_restored_defender_goes_on_bit_for_bit() -> None:
    base, one, other = builders.base(0.3), rmc(), rmc()
    play(one, base, range(2))
    kept = one.state()
    expected = play(one, base, range(2, 5))
    other.restore(kept)
    assert builders.same(other.state(), kept)
    assert torch.equal(play(other, base, range(2, 5)), expected)
    assert builders.same(other.state(), one.state())
    one.restore(kept)
    assert builders.same(one.state(), kept)
    assert torch.equal(play(one, base, range(2, 5)), expected)


def test_a_defender_killed_between_answer_and_calibration_resumes_bit_for_bit() -> None:
    base, one, other = builders.base(), rmc(), rmc()
    one.adapt(base, TRAINING, POINTS[:1], builders.generator(1))
    kept = one.state()
    one.end_round(POINTS[:1], builders.generator(2))
    other.adapt(base, TRAINING, POINTS[1:2], builders.generator(7))
    other.restore(kept)
    other.end_round(POINTS[:1], builders.generator(2))
    assert builders.same(other.state(), one.state())


def test_state_and_restore_share_no_memory_with_the_model() -> None:
    base, defence = builders.base(), rmc()
    play(defence, base, range(1))
    kept = defence.state()
    frozen = {name: value.clone() for name, value in kept.items()}
    defence.restore(kept)
    play(defence, base, range(2))
    assert builders.same(kept, frozen)
    assert not builders.same(defence.state(), frozen)


def test_a_state_without_moments_is_one_with_a_new_adam() -> None:
    base, one, other = builders.base(), rmc(), rmc()
    play(one, base, range(1))
    kept = one.state()
    other.restore({name: value for name, value in kept.items() if not name.startswith(OPTIMIZER)})
    one.adapt(base, TRAINING, POINTS[3:4], builders.generator(8))
    other.adapt(base, TRAINING, POINTS[3:4], builders.generator(8))
    assert other.state()["optimizer.0.step"] == 6 == one.state()["optimizer.0.step"] - 12
    assert not torch.equal(other.state()["model.0.weight"], one.state()["model.0.weight"])


def test_the_empty_state_is_a_defender_that_has_done_nothing() -> None:
    base, defence = builders.base(), rmc()
    assert defence.state() == {}
    expected = play(defence, base, range(2))
    defence.restore({})
    assert defence.state() == {}
    assert torch.equal(play(defence, base, range(2)), expected)


def test_the_state_persists_so_the_same_point_is_answered_otherwise_later() -> None:
    base, defence = builders.base(), rmc()
    first = defence.adapt(base, TRAINING, POINTS[:1], builders.generator()).logits(POINTS)
    again = defence.adapt(base, TRAINING, POINTS[:1], builders.generator()).logits(POINTS)
    assert not torch.equal(first, again)


def test_the_generators_decide_dropout_included() -> None:
    base = builders.base(dropout=0.3)
    first = play(rmc(), base, range(2))
    torch.rand(5)
    assert torch.equal(play(rmc(), base, range(2)), first)
    assert not torch.equal(play(rmc(), base, range(2), seed=1), first)


def test_a_pool_made_at_the_first_round_is_the_one_made_beforehand() -> None:
    params = replace(PARAMS, epochs=1)
    assert torch.equal(play(Rmc(params), builders.base(), range(1)), play(rmc(params), builders.base(), range(1)))


def test_base_and_what_was_adapted_stay_as_they_are() -> None:
    base, defence = builders.base(), rmc()
    before = builders.weights(base)
    found = defence.adapt(base, TRAINING, POINTS[:1], builders.generator())
    answers = found.logits(POINTS)
    defence.end_round(POINTS[:1], builders.generator())
    play(defence, base, range(2))
    assert torch.equal(found.logits(POINTS), answers)
    assert builders.same(builders.weights(base), before)
    assert not base.module.training
    assert not any(parameter.requires_grad for parameter in base.module.parameters())


def test_answers_have_a_gradient_at_their_images() -> None:
    found = rmc().adapt(builders.base(), TRAINING, POINTS[:1], builders.generator())
    images = POINTS.clone().requires_grad_()
    (gradient,) = torch.autograd.grad(found.logits(images, torch.zeros(8, dtype=torch.int64)).sum(), images)
    assert (gradient.flatten(1).abs().amax(1) > 0).all()


def test_a_last_batch_of_one_joins_the_one_before() -> None:
    """Batch norm after global pooling cannot train on one image: 57 examples in batches of 28 leave one over."""
    module = nn.Sequential(
        nn.Conv2d(1, 4, 3), nn.AdaptiveAvgPool2d(1), nn.BatchNorm2d(4), nn.Flatten(), nn.Linear(4, 10)
    )
    base = builders.classifier(module)
    defence = Rmc(replace(PARAMS, batch_size=28, epochs=1, variant="official"))
    assert defence.adapt(base, TRAINING, POINTS[:1], builders.generator()).logits(POINTS).isfinite().all()
    assert defence.state()["optimizer.0.step"] == 2


def test_what_it_cannot_work_with_is_refused() -> None:
    base = builders.base()
    with pytest.raises(DefenceError, match="name a training dataset"):
        Rmc(PARAMS).adapt(base, None, POINTS[:1], builders.generator())
    with pytest.raises(DefenceError, match="60 neighbours among 40 images"):
        Rmc(PARAMS).adapt(base, builders.training(20), POINTS[:1], builders.generator())
    with pytest.raises(DefenceError, match="none was begun"):
        rmc().end_round(POINTS[:1], builders.generator())
    with pytest.raises(ValueError, match="one point, not 2"):
        rmc().adapt(base, TRAINING, POINTS[:2], builders.generator())


def test_one_instance_defends_one_base() -> None:
    defence = rmc()
    defence.adapt(builders.base(), TRAINING, POINTS[:1], builders.generator())
    with pytest.raises(ValueError, match="one base classifier"):
        defence.adapt(builders.base(), TRAINING, POINTS[:1], builders.generator())


def test_every_pass_ticks_and_a_stopped_round_can_be_taken_back() -> None:
    ticks: list[int] = []

    def check_cancelled() -> None:
        ticks.append(1)
        if len(ticks) == 20:
            raise InterruptedError

    base, defence = builders.base(), rmc(check_cancelled=check_cancelled)
    expected = play(rmc(), base, range(1))
    defence.adapt(base, TRAINING, POINTS[:1], builders.generator())
    # Features of the point, then three epochs of two batches, forward and backward, and a look at what is held out.
    assert len(ticks) == 1 + 3 * (2 * 2 + 1)
    with pytest.raises(InterruptedError):
        defence.end_round(POINTS[:1], builders.generator())
    defence.restore({})
    assert torch.equal(play(defence, base, range(1)), expected)


def test_between_rounds_it_shows_the_model_the_last_calibration_left() -> None:
    base, defence = builders.base(), rmc(PARAMS)
    assert torch.equal(defence.answering(base).logits(POINTS), base.logits(POINTS))
    play(defence, base, range(2))
    before = defence.state()
    shown = defence.answering(base)
    fresh = rmc(PARAMS)
    fresh.restore(before)
    assert torch.equal(fresh.answering(base).logits(POINTS), shown.logits(POINTS))
    assert not torch.equal(shown.logits(POINTS), base.logits(POINTS))
    assert isinstance(defence, Remembering)
    assert builders.same(defence.state(), before)
