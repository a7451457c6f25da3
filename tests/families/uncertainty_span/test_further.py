"""The further attacks in whole checks: closed forms, masks, and that nothing but the example decides its record."""

import itertools
import math

import numpy as np
import pyarrow as pa
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from benchmarks.fakes import Quantised, sawtooth, stairs
from seatrial.families.uncertainty_span.effort import INTEGRATED, MOST_ROOM, STAGES, TRANSFORMED, Budget, budget
from tests import assets
from tests.families.uncertainty_span.audits import (
    DATA,
    IMAGES,
    LABELS,
    NETWORK,
    Context,
    Model,
    audit,
    killed_and_run_again,
    masked_by,
    measure,
    parameters,
)
from workers.families.protocol import Shard
from workers.families.uncertainty_span.calibrated import calibrated_temperature
from workers.families.uncertainty_span.family import FAMILY
from workers.families.uncertainty_span.repeated import OPEN, _most_doubtful

WEIGHTS = torch.randn(16, generator=torch.Generator().manual_seed(2))
BIAS = -(IMAGES.flatten(1) @ WEIGHTS).median()


def linear(images: Tensor) -> Tensor:
    score = images.flatten(1) @ WEIGHTS + BIAS
    return torch.stack([torch.zeros_like(score), score], 1)


def binary_entropy(score: np.ndarray) -> np.ndarray:
    return np.log1p(np.exp(-score)) + score / (1 + np.exp(score))


def codes(result, *severities: str) -> set[str]:
    return {flag.code for flag in result.flags if flag.severity in severities}


@pytest.mark.slow
@pytest.mark.parametrize("norm", ["linf", "l2"])
def test_no_attack_leaves_the_closed_form_of_a_linear_model_and_together_they_reach_it(norm) -> None:
    """An image outside of ball or box would go beyond, by the entropies that the box leaves to its own pixels."""
    epsilon = 0.02 if norm == "linf" else 0.1
    score = (IMAGES.flatten(1) @ WEIGHTS + BIAS).double()
    room = torch.stack([(1 - IMAGES).clamp_max(epsilon), IMAGES.clamp_max(epsilon)]).flatten(2).double()
    steepest = torch.stack([torch.where(WEIGHTS * sign > 0, room[0], room[1]) for sign in (1, -1)])
    rise, fall = (steepest * WEIGHTS.abs()).sum(2)
    if norm == "l2":
        # Where the box does not matter; elsewhere it is a bound.
        rise = fall = torch.full_like(rise, epsilon * float(WEIGHTS.norm()))
    far = torch.maximum(score + rise, fall - score).numpy()
    near = torch.maximum(score - fall, -score - rise).clamp_min(0).numpy()
    low, high = binary_entropy(far), binary_entropy(near)
    params = parameters(norm=norm, epsilon=epsilon, steps=25, effort="standard")
    result, done = audit(params, Model(linear, 2), (IMAGES, (score > 0).long()))
    for stage in (*STAGES, TRANSFORMED, INTEGRATED):
        over, under = (np.asarray(done[stage][f"entropy_{arm}"]) for arm in ("over", "under"))
        assert (over >= low[: len(over)] - 2e-6).all(), stage
        assert (under <= high[: len(under)] + 2e-6).all(), stage
    worst = result.estimates["mus_worst"]
    assert worst.value == pytest.approx((high - low).mean(), abs=2e-3 if norm == "linf" else 0.03)
    assert [flag.code for flag in result.flags] == ["few_steps"] + ["small_radius"] * (norm == "l2")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("mask", "steps"),
    [(sawtooth(1, 0.05), 20), (stairs(1, 32, 0.0), 10), (Quantised(17), 10)],
    ids=["sawtooth", "flat stairs", "quantised"],
)
def test_a_mask_is_an_error_that_gives_both_numbers(mask, steps) -> None:
    result, done = audit(parameters(steps=steps, effort="standard"), Model(lambda x: NETWORK.logits(mask(x)), 4), DATA)
    message = masked_by(result)
    gradients, search = (
        [np.asarray(done[stage][f"{name}entropy_{arm}"]) for arm in ("over", "under")]
        for stage, name in (("ascent", ""), ("score", "alone_"))
    )
    first = np.asarray(done["attack"]["entropy_over"]), np.asarray(done["attack"]["entropy_under"])
    by_gradients = (np.maximum(gradients[1], first[1]) - np.minimum(gradients[0], first[0])).mean()
    without = (search[1] - search[0]).mean()
    assert without > by_gradients + 0.05 * math.log(4)
    assert f"gradients span {by_gradients:.3g} nat" in message
    assert f"a search by scores alone {without:.3g} (difference" in message
    assert result.estimates["mus_worst"].value >= without


def test_a_model_that_thresholds_pixels_is_found_out_by_noise_that_narrows() -> None:
    """Black images whose every pixel is flat to .45, as the first layers of l_inf-trained networks are."""
    black, weights = torch.zeros(4, 1, 10, 10), torch.arange(100) / 5

    def thresholded(images: Tensor) -> Tensor:
        moved = torch.relu(images.flatten(1) - 0.45) @ weights
        return torch.stack([torch.full_like(moved, 6.0), moved], 1)

    params = parameters(norm="l2", epsilon=1.2, steps=30, effort="standard")
    result, done = audit(params, Model(thresholded, 2), (black, torch.zeros(4, dtype=torch.int64)))
    assert max(np.asarray(done[stage]["entropy_under"]).max() for stage in ("attack", "ascent")) < 0.02
    assert np.asarray(done["smoothed"]["alone_entropy_under"]).mean() > 0.4
    assert result.estimates["mus_worst"].value > 0.6
    assert "masked_gradients" in codes(result, "error")


def test_fewer_doubtful_examples_get_more_rounds_at_the_same_cost() -> None:
    plain = budget("standard", 150)
    for norm in ("linf", "l2"):
        once = plain.rounds_again(norm, is_saturated=False)
        assert len(once) == plain.again
        assert len(plain.rounds_again(norm, is_saturated=False, room=2.5)) == 7
        more = plain.rounds_again(norm, is_saturated=True, room=MOST_ROOM)
        assert len(more) == MOST_ROOM * len(plain.rounds_again(norm, is_saturated=True))
        assert set(more) == ({"search", "nearby", "away"} if norm == "linf" else {"afresh", "ascent"})
        ascents = plain.rounds_again(norm, is_saturated=True, by_ascents=True)
        assert set(ascents) == {"afresh", "ascent"}
        searches = plain.rounds_again(norm, is_saturated=True)
        spent, most = (
            sum(plain.round_again(one).forward + 2 * plain.round_again(one).backward for one in of)
            for of in (ascents, searches)
        )
        assert 0.9 * most < spent <= most
        assert len(ascents) >= len(searches)


@pytest.mark.parametrize(("smoothed", "is_by_ascents"), [(1.4, True), (1.3, False), (0.5, False)])
def test_rounds_go_on_with_what_found_more_of_the_doubtful(monkeypatch, smoothed, is_by_ascents) -> None:
    params = parameters(epsilon=0.1, steps=10, effort="standard")
    images, labels = torch.rand(4, 1, 6, 6), torch.zeros(4, dtype=torch.int64)
    model = Model(lambda given: given.flatten(1)[:, :3], 3)
    _, done = audit(params, model, (images, labels))
    for stage, found in {"smoothed": [smoothed] * 4, "score": [1.0] * 4}.items():
        table = done[stage]
        at = table.column_names.index("entropy_under")
        done[stage] = table.set_column(at, "entropy_under", pa.array(found))
    asked: list[bool] = []

    def rounds_again(self: object, *of: object, by_ascents: bool, **more: object) -> list[str]:
        asked.append(by_ascents)
        return []

    monkeypatch.setattr(Budget, "rounds_again", rounds_again)
    shard = Shard("repeated", 0, 4)
    FAMILY.run(params, shard, Context(model, (images, labels), shard, 4, 4, {}, done))
    assert asked == [is_by_ascents]


@pytest.mark.slow
def test_what_the_paper_s_attacks_cannot_see_through_the_union_does() -> None:
    plain, _ = audit(parameters(), NETWORK, DATA)
    mask = stairs(1, 16, -0.5)
    result, _ = audit(parameters(effort="standard"), Model(lambda x: NETWORK.logits(mask(x)), 4), DATA)
    assert result.estimates["mus"].value < 0.1 * plain.estimates["mus"].value
    assert result.estimates["mus_worst"].value > 0.8 * plain.estimates["mus"].value


def trained_by_pgd(epsilon: float) -> tuple[nn.Module, Tensor, Tensor]:
    """Fit a small network to digits as PGD leaves them."""
    bundle = assets.digits()
    images, labels = torch.tensor(bundle[0][:600]).float() / 255, torch.tensor(bundle[1][:600]).long()
    torch.manual_seed(0)
    model = nn.Sequential(nn.Flatten(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))
    optimizer = torch.optim.Adam(model.parameters(), 5e-3)
    for _ in range(12):
        for batch in torch.randperm(len(images)).split(128):
            moved = images[batch]
            for _ in range(4):
                moved = moved.detach().requires_grad_()
                (slope,) = torch.autograd.grad(functional.cross_entropy(model(moved), labels[batch]), moved)
                moved = moved + epsilon / 3 * slope.sign()
                moved = torch.minimum(torch.maximum(moved, images[batch] - epsilon), images[batch] + epsilon).clamp(
                    0, 1
                )
            optimizer.zero_grad()
            functional.cross_entropy(model(moved.detach()), labels[batch]).backward()
            optimizer.step()
    return model.eval().requires_grad_(False), images[:40], labels[:40]


@pytest.mark.slow
@pytest.mark.parametrize("scale", [1.0, 30.0])
def test_an_honest_adversarially_trained_model_gets_notes_at_most(scale) -> None:
    model, images, labels = trained_by_pgd(0.1)
    params = parameters(effort="standard")
    result, _ = audit(params, Model(lambda x: scale * model(x), 10), (images, labels))
    assert codes(result, "error", "warning") == {"few_steps"}
    assert ("saturated_logits" in codes(result, "info")) == (scale > 1)
    assert result.estimates["mus_worst"].value > result.estimates["mus"].value


@pytest.mark.slow
def test_the_scale_of_logits_changes_no_calibrated_span() -> None:
    found = {}
    for scale in (1.0, 0.2):
        result, _ = audit(parameters(effort="standard"), Model(lambda x, by=scale: by * NETWORK.logits(x), 4), DATA)
        found[scale] = {name: result.estimates[name].value for name in ("mus", "mus_calibrated")}
    assert found[0.2]["mus"] != pytest.approx(found[1.0]["mus"], rel=0.05)
    assert found[0.2]["mus_calibrated"] == pytest.approx(found[1.0]["mus_calibrated"], rel=0.02)


def test_the_calibrated_temperature_follows_the_scale_also_where_nothing_is_wrong() -> None:
    logits = NETWORK.logits(IMAGES)
    for labels in (LABELS, logits.argmax(1)):
        first, second = calibrated_temperature(logits, labels), calibrated_temperature(7 * logits, labels)
        assert second == pytest.approx(7 * first, rel=1e-6)
    assert calibrated_temperature(torch.zeros(4, 3), torch.zeros(4, dtype=torch.int64)) is None
    assert calibrated_temperature(logits, torch.full_like(LABELS, 99)) is None


@pytest.mark.parametrize(
    "stage",
    [
        *("surrogate", "ascent", "smoothed", "score", "distilled", "repeated", "transformed", "integrated"),
        *("crossing", "pictures"),
    ],
)
def test_what_was_killed_half_way_gives_the_same_records(stage, undisturbed) -> None:
    params, done = undisturbed
    killed_and_run_again(params, NETWORK, DATA, done, stage)


@pytest.mark.parametrize("stage", ["tempered", "transfer"])
def test_so_does_what_a_saturated_model_and_a_transfer_model_call_for(stage) -> None:
    params, sure = parameters(steps=8, transfer_model="mdl_1"), Model(lambda x: 1e3 * NETWORK.logits(x), 4)
    models = {"transfer_model": NETWORK}
    killed_and_run_again(params, sure, DATA, measure(params, sure, DATA, models=models), stage, models)


@pytest.fixture(scope="module")
def undisturbed():
    params = parameters(steps=8, effort="standard")
    return params, measure(params, NETWORK, DATA)


def test_neighbours_in_a_batch_change_nothing_beyond_rounding(undisturbed) -> None:
    params, done = undisturbed
    apart = measure(params, NETWORK, DATA, batch_size=5)
    assert apart["surrogate"].equals(done["surrogate"])
    for stage in (*STAGES, TRANSFORMED, INTEGRATED):
        for arm in ("over", "under"):
            first, second = (np.asarray(of[stage][f"entropy_{arm}"]) for of in (done, apart))
            # A sum in another order may send an attack another way; no draw and no decision may.
            assert np.mean(np.abs(first - second) < 1e-4) > 0.9, (stage, arm)


def test_an_example_that_errors_is_in_no_further_number() -> None:
    def breaks(images: Tensor) -> Tensor:
        is_bad = images.flatten(1)[:, 0] > 0.9
        return torch.where(is_bad.unsqueeze(1), math.nan, NETWORK.logits(images))

    result, done = audit(parameters(steps=5, effort="standard"), Model(breaks, 4), DATA)
    bad = (IMAGES.flatten(1)[:, 0] > 0.9).numpy()
    assert 0 < bad.sum() < 10
    for stage in ("surrogate", *STAGES):
        assert np.asarray(done[stage]["errored"])[bad].all(), stage
    assert result.estimates["mus_worst"].value < math.log(4)
    nothing = measure(parameters(steps=3, effort="standard"), Model(lambda x: NETWORK.logits(x) * math.nan, 4), DATA)
    assert all(np.asarray(nothing[stage]["errored"]).all() for stage in STAGES)


def test_the_most_doubtful_are_where_attacks_disagree() -> None:
    highest = np.array([[0.5] * 8, [0.5, 0.6, 0.5, 0.9, np.nan, 0.5, 0.7, 0.5], [0.5] * 8])
    assert np.flatnonzero(_most_doubtful(highest, 10)).tolist() == [3, 6]
    assert not _most_doubtful(highest[:1], 10).any()
    highest[1, [3, 6]] = 0.5 + 0.9 * OPEN * math.log(10)
    assert np.flatnonzero(_most_doubtful(highest, 10)).tolist() == [1]


def test_the_cost_is_told_beforehand() -> None:
    params = parameters(steps=6, effort="standard")
    forward = backward = 0

    def counting(images: Tensor) -> Tensor:
        nonlocal forward, backward
        is_attacked = images.requires_grad and torch.is_grad_enabled()
        forward, backward = forward + len(images) * (not is_attacked), backward + len(images) * is_attacked
        return NETWORK.logits(images)

    audit(params, Model(counting, 4), DATA)
    told = params.passes(40, {})
    assert forward <= told.forward
    assert backward <= told.backward
    assert 3 * forward + 3 * backward > told.forward + told.backward
    # Of as many steps as leave no doubt, at least, and by default; what is looked at once weighs more beside fewer.
    norms = ({"norm": "linf", "epsilon": 0.1}, {"norm": "l2", "epsilon": 1.0})
    counts = [*itertools.product((40, 60, 100, 200, 500, 2000), (20, 150)), *itertools.product(range(4, 40), [150])]
    for ball, (examples, steps) in itertools.product(norms, counts):
        asked = [parameters(steps=steps, effort=name, **ball) for name in ("standard", "quick")]
        told, quick = (params.passes(examples, {}) for params in asked)
        assert told.forward + 2 * told.backward < 4 * (quick.forward + 2 * quick.backward)
    assert budget("quick", 6) is None
