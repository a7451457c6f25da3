"""Attacks on the parts of an entropy: closed forms, a grid, whole checks, and models made to look robust."""

import math
from functools import cache

import numpy as np
import pyarrow as pa
import pytest
import torch
from pydantic import ValidationError
from torch import Tensor, nn

from seatrial.contracts.family import Situation
from seatrial.families.uncertainty_span.narrative import answer
from seatrial.families.uncertainty_span.spec import SPEC
from seatrial.statistics.samples import Sample
from tests.families.uncertainty_span.audits import (
    DATA,
    IMAGES,
    NETWORK,
    Context,
    Ensemble,
    audit,
    ensemble,
    network,
    parameters,
)
from workers.attacks.losses import entropy
from workers.attacks.parts import PARTS
from workers.errors import PreflightError
from workers.families.protocol import DataInfo, Shard, TargetInfo
from workers.families.uncertainty_span.family import FAMILY
from workers.families.uncertainty_span.part_estimates import doubt_parts
from workers.models.passes import DropoutPasses, mixed

BOTH = ["aleatoric", "epistemic"]


HONEST = ensemble(*(network(seed).logits for seed in range(3)))


@cache
def checked():
    return audit(parameters(parts=BOTH), HONEST, DATA)


def attacked(part: str, model: Ensemble, data=DATA, **changes: object):
    """Return the records of one part's stage, which needs no other."""
    images, _ = data
    shard = Shard(part, 0, len(images))
    params = parameters(**{"parts": [part], "effort": "standard", "steps": 30} | changes)
    return {part: FAMILY.run(params, shard, Context(model, data, shard, 16, len(images)))}


def flagged(done) -> dict[str, str]:
    samples = {part: Sample(table) for part, table in done.items()}
    return {flag.code: flag.severity for flag in doubt_parts(samples, 0)}


def column(done, stage: str, name: str) -> np.ndarray:
    return np.asarray(done[stage][name].to_numpy(zero_copy_only=False), dtype=float)


def test_what_two_opposite_lines_reach_is_their_closed_form() -> None:
    # Members (0, m) and (0, -m): the mean is even, and the information log 2 less the entropy of sigmoid(m).
    weights = torch.tensor([3.0, -5.0, 2.0, 4.0])

    def line(images: Tensor, sign: float) -> Tensor:
        lead = sign * ((images.flatten(1) - 0.5) @ weights)
        return torch.stack([torch.zeros_like(lead), lead], 1)

    generator = torch.Generator().manual_seed(3)
    images = 0.4 + 0.2 * torch.rand(12, 1, 2, 2, generator=generator)
    model = ensemble(lambda at: line(at, 1.0), lambda at: line(at, -1.0), classes=2)
    done = {}
    for part in BOTH:
        data = images, torch.zeros(12, dtype=torch.int64)
        done |= attacked(part, model, data, effort="quick", steps=40)
    lead = ((images.flatten(1) - 0.5) @ weights).abs().double().numpy()
    reach = 0.1 * weights.abs().sum().item()

    def halved(m):
        p = 1 / (1 + np.exp(-m))
        return -p * np.log(p) - (1 - p) * np.log1p(-p)

    most, least = lead + reach, np.maximum(lead - reach, 0)
    assert column(done, "epistemic", "part_highest") == pytest.approx(math.log(2) - halved(most), abs=1e-6)
    assert column(done, "epistemic", "part_lowest") == pytest.approx(math.log(2) - halved(least), abs=3e-3)
    assert column(done, "aleatoric", "part_lowest") == pytest.approx(halved(most), abs=1e-6)
    assert column(done, "aleatoric", "part_highest") == pytest.approx(halved(least), abs=3e-3)


@pytest.mark.parametrize("part", BOTH)
def test_nothing_on_a_fine_grid_is_much_beyond_what_was_reached(part) -> None:
    generator = torch.Generator().manual_seed(5)
    hidden, outer = torch.randn(3, 8, 2, generator=generator) * 6, torch.randn(3, 3, 8, generator=generator)
    members = [lambda at, i=i: torch.relu((at.flatten(1) - 0.5) @ hidden[i].T) @ outer[i].T for i in range(len(hidden))]
    images = 0.3 + 0.4 * torch.rand(10, 1, 1, 2, generator=generator)
    data = images, torch.zeros(10, dtype=torch.int64)
    done = attacked(part, ensemble(*members, classes=3), data)
    step = torch.linspace(-0.1, 0.1, 201)
    ball = torch.cartesian_prod(step, step).view(-1, 1, 1, 2)
    truths = [PARTS[part](torch.stack([one(image + ball) for one in members], 1)) for image in images]
    least, most = (np.array([getattr(one, end)().item() for one in truths]) for end in ("min", "max"))
    lowest, highest = column(done, part, "part_lowest"), column(done, part, "part_highest")
    # No more than there is, by the grid's own slack, and nearly all of it.
    assert np.all(highest <= most + 0.01)
    assert np.all(lowest >= least - 0.01)
    assert highest - lowest == pytest.approx(most - least, abs=0.03)


def test_attacks_on_a_part_go_further_than_those_on_the_entropy() -> None:
    result, done = checked()
    for part in BOTH:
        clean, lowest, highest = (column(done, part, f"part_{one}") for one in ("clean", "lowest", "highest"))
        assert np.all((lowest <= clean) & (clean <= highest))
        assert column(done, "attack", f"{part}_clean") == pytest.approx(clean, abs=1e-9)
        assert result.estimates[f"part_span[part={part}]"].value == pytest.approx((highest - lowest).mean())
    reached = column(done, "attack", "epistemic_under").mean()
    assert result.estimates["part_highest[part=epistemic]"].value > 1.2 * reached
    assert result.counts["passes"] == 3
    assert "passes_agree" not in {flag.code for flag in result.flags}


def test_the_parts_of_every_arm_add_up_to_its_entropy() -> None:
    result, done = checked()
    for arm in ("clean", "over", "under"):
        both = sum(column(done, "attack", f"{part}_{arm}") for part in BOTH)
        assert both == pytest.approx(column(done, "attack", f"entropy_{arm}"), abs=1e-6)
        told = [result.estimates[f"entropy_part[part={part},arm={arm}]"].value for part in BOTH]
        assert sum(told) == pytest.approx(result.estimates[f"entropy[arm={arm}]"].value, abs=1e-6)
    clean = torch.stack([member(IMAGES) for member in HONEST.members], 1)
    assert column(done, "attack", "entropy_clean") == pytest.approx(entropy(mixed(clean)).numpy(), abs=1e-9)


@pytest.mark.parametrize("part", BOTH)
def test_more_effort_reaches_no_less_and_raises_no_doubt(part) -> None:
    done = attacked(part, HONEST, steps=10)
    span, before = (
        column(one, part, "part_highest") - column(one, part, "part_lowest") for one in (done, checked()[1])
    )
    assert np.all(span >= before - 1e-12)
    assert flagged(done) == {}
    for name in ("gradient", "score"):
        assert np.all(column(done, part, f"{name}_part_highest") <= column(done, part, "part_highest"))
        assert np.all(column(done, part, f"{name}_part_lowest") >= column(done, part, "part_lowest"))


@pytest.mark.parametrize("effort", ["quick", "standard"])
def test_shards_change_no_byte(effort) -> None:
    params, images = parameters(parts=BOTH, effort=effort, steps=5), DATA[0]
    for part in BOTH:
        pieces = (
            [Shard(part, 0, 40)],
            [Shard(part, 0, 16), Shard(part, 16, 40)],
            [Shard(part, 0, 32), Shard(part, 32, 40)],
        )
        whole, *cut = (
            pa.concat_tables([FAMILY.run(params, one, Context(HONEST, DATA, one, 16, len(images))) for one in several])
            for several in pieces
        )
        assert all(one.equals(whole) for one in cut)


def test_parts_change_nothing_else() -> None:
    result, plain = audit(parameters(), HONEST, DATA)
    names = plain["attack"].column_names
    assert checked()[1]["attack"].select(names).equals(plain["attack"])
    assert not any("part" in name for name in (*result.estimates, *names, *plain))
    for name, estimate in result.estimates.items():
        assert checked()[0].estimates[name] == estimate


def test_a_model_of_one_pass_is_refused_before_and_while_it_is_audited() -> None:
    params = parameters(parts=["epistemic"])

    def misfits(passes):
        situation = Situation("mdl_1", "image-classification", [1, 4, 4], 40, {}, 10**9, passes=passes)
        return [(one.parameter, one.detail) for one in SPEC.misfits(params, situation)]

    assert misfits(2) == []
    ((field, told),) = misfits(1)
    assert field == "parts"
    assert 'upload its members as an ensemble ({"kind": "ensemble"' in told
    for classifier in (NETWORK, None):
        target = TargetInfo(4, None, (1, 4, 4), classifier=classifier)
        with pytest.raises(PreflightError, match="this model has one") as refused:
            FAMILY.preflight(target, DataInfo(40, 4, 0.75), params)
        assert refused.value.problem.field == "parts"
    FAMILY.preflight(TargetInfo(4, None, (1, 4, 4), classifier=HONEST), DataInfo(40, 4, 0.75), params)
    with pytest.raises(ValidationError, match="parts must differ"):
        parameters(parts=["epistemic", "epistemic"])


def permuted(images: Tensor) -> Tensor:
    """Return what the first member gives, added up in another order."""
    return network(0).logits(images.double().float().flip(0)).flip(0) * (1 + 1e-7)


def thinned(p: float) -> Ensemble:
    generator = torch.Generator().manual_seed(0)
    layers = nn.Sequential(nn.Flatten(), nn.Linear(16, 24), nn.ReLU(), nn.Dropout(p), nn.Linear(24, 4))
    for tensor in layers.parameters():
        tensor.data = torch.randn(tensor.shape, generator=generator) * 0.5
    passes = DropoutPasses(layers.eval().requires_grad_(False), 5, b"seed", kind="layers")
    return ensemble(*(lambda at, i=i: passes.each(at)[:, i] for i in range(5)))


@pytest.mark.parametrize(
    ("model", "severity"),
    [
        (ensemble(network(0).logits, network(0).logits), "error"),
        (ensemble(network(0).logits, permuted), "error"),
        # No unit of 24 falls out in five passes.
        (thinned(1e-9), "error"),
        (ensemble(network(0).logits, lambda at: 1.01 * network(0).logits(at)), "warning"),
        # Sure of different classes, whatever the image.
        (
            ensemble(*(lambda at, k=k: 0 * NETWORK.logits(at) + 20 * torch.eye(4)[k] for k in range(2))),
            "warning",
        ),
        (thinned(0.5), None),
        (HONEST, None),
    ],
)
def test_an_epistemic_part_of_nothing_is_not_sold_as_robust(model: Ensemble, severity: str | None) -> None:
    assert flagged(attacked("epistemic", model, effort="quick", steps=10)).get("passes_agree") == severity


def test_members_that_part_off_the_grid_alone_are_caught_parting() -> None:
    # On 8-bit images they are equal; that is what shows no disagreement without an attack.
    def apart(at: Tensor) -> Tensor:
        off = (at * 255 - (at * 255).round().detach()).abs().flatten(1).amax(1, keepdim=True)
        return torch.where(off > 0.01, network(1).logits(at), NETWORK.logits(at))

    images = (IMAGES * 255).round() / 255
    done = attacked("epistemic", ensemble(NETWORK.logits, apart), (images, DATA[1]), effort="quick", epsilon=0.03)
    assert column(done, "epistemic", "part_clean").max() < 1e-9
    assert column(done, "epistemic", "part_highest").mean() > 0.05
    assert flagged(done) == {}


def test_members_that_agree_off_the_grid_alone_are_found_by_searches_on_it() -> None:
    def apart(at: Tensor) -> Tensor:
        off = (at * 255 - (at * 255).round().detach()).abs().flatten(1).amax(1, keepdim=True)
        return torch.where(off > 0.01, NETWORK.logits(at), network(1).logits(at))

    images = (IMAGES * 255).round() / 255
    done = attacked("epistemic", ensemble(NETWORK.logits, apart), (images, DATA[1]))
    by_gradients, by_scores = (column(done, "epistemic", f"{name}_part_highest") for name in ("gradient", "score"))
    assert (by_scores - by_gradients).mean() > 0.05
    assert column(done, "epistemic", "part_highest").mean() >= by_scores.mean()
    assert flagged(done) == {"masked_gradients": "error"}


def test_disagreement_whose_gradients_are_hidden_is_told() -> None:
    def stairs(at: Tensor) -> Tensor:
        found = network(1).logits(at)
        return (found * 2).round() / 2 + 0 * found

    done = attacked("epistemic", ensemble(lambda at: (NETWORK.logits(at) * 2).round() / 2, stairs))
    assert flagged(done) == {"masked_gradients": "error"}


def test_an_errored_example_is_in_no_part() -> None:
    def broken(at: Tensor) -> Tensor:
        marked = at.flatten(1)[:, :1] > 0.93
        return torch.where(marked, torch.nan, NETWORK.logits(at))

    result, done = audit(parameters(parts=["epistemic"]), ensemble(network(1).logits, broken), DATA)
    errored = done["epistemic"]["errored"].to_numpy(zero_copy_only=False)
    assert 0 < errored.sum() < 40
    assert result.estimates["part_span[part=epistemic]"].n == 40 - errored.sum()
    assert result.counts["epistemic_errored"] == errored.sum()


def test_the_report_says_what_became_of_the_parts() -> None:
    told = " ".join(answer(checked()[0], parameters(parts=BOTH).model_dump(), 4).findings)
    assert "3 passes" in told
    assert "epistemic" in told
