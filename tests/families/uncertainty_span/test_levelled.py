"""A network that hears another only where that is undecided is told, and one without such scores has no such stage."""

import numpy as np
import pyarrow as pa
import pytest
import torch
from torch import Tensor

from benchmarks.undecided_image_fakes import Loyal, contestants, reached_by_scores
from seatrial.families.uncertainty_span.effort import Effort, Norm, budget
from seatrial.families.uncertainty_span.levelled import (
    INNER_SCORES,
    LEVELLED,
    follow_steps,
    levelled_passes,
    rounds_left,
)
from tests.families.uncertainty_span.audits import (
    DATA,
    IMAGES,
    NETWORK,
    Model,
    audit,
    killed_and_run_again,
    masked_by,
    measure,
    network,
    parameters,
    stages_but,
)
from workers.attacks.closed_gates import follow
from workers.attacks.losses import entropy
from workers.attacks.tried import Trial
from workers.families.uncertainty_span.family import FAMILY
from workers.families.uncertainty_span.levelled import DISTORTED, GATE, INNER, is_levelled, kept_gate, kept_inner_scores

BASE = network(0, 10).logits
CLASSES = BASE(IMAGES).argmax(1)


def voice(images: Tensor) -> Tensor:
    """Say the class of the audited image that is next, whatever the radius allows."""
    apart = (images.flatten(1)[:, None] - IMAGES.flatten(1)).square().sum(2)
    return 6 * (-6 * apart).softmax(1) @ torch.eye(10)[CLASSES]


MODEL = Model(Loyal(BASE, voice, 0.3, scale=1.0), 10)


@pytest.fixture(scope="module")
def found():
    params = parameters(steps=40, effort="standard", epsilon=0.15)
    return params, audit(params, MODEL, (IMAGES, CLASSES))


def test_a_network_that_waits_for_ties_of_another_is_told(found) -> None:
    _, (result, done) = found
    assert "beside its answer are level" in masked_by(result)
    assert 1 <= len(kept_inner_scores(done["surrogate"])) <= INNER_SCORES
    table = done[LEVELLED]
    assert table.num_rows == len(IMAGES)
    own = np.asarray(table["entropy_under"]) - np.asarray(table["entropy_over"])
    alone = np.asarray(table["alone_entropy_under"]) - np.asarray(table["alone_entropy_over"])
    assert (own >= alone - 1e-9).all()
    assert result.estimates["mus[attack=levelled]"].value == pytest.approx(own.mean())
    assert result.estimates["mus_worst"].value >= own.mean() - 1e-9
    assert result.counts["levelled_n"] == len(IMAGES)
    assert "calibrated_entropy_under" in table.column_names


def test_records_are_those_of_any_cut(found) -> None:
    params, (_, done) = found
    before = stages_but(done, "surrogate", LEVELLED)
    cut = measure(params, MODEL, (IMAGES, CLASSES), batch_size=20, shards=2, done=before)
    assert cut[LEVELLED].equals(done[LEVELLED])
    for column in (INNER, GATE):
        assert cut["surrogate"][column].equals(done["surrogate"][column])


def test_killed_half_way_it_gives_the_same_records(found) -> None:
    params, (_, done) = found
    killed_and_run_again(params, MODEL, (IMAGES, CLASSES), done, LEVELLED)


def test_the_gate_it_waits_behind_is_followed_by_itself_too(found) -> None:
    params, (_, done) = found
    gate = kept_gate(done["surrogate"])
    assert gate is not None
    # Without the scores the gate alone is enough, and whatever is stored of it.
    one = {"surrogate": without(done["surrogate"], INNER)}
    assert is_levelled(one["surrogate"])
    assert not is_levelled(without(done["surrogate"], INNER, GATE, DISTORTED))
    trial = Trial("linf", params.epsilon, (0.0, 1.0), lambda: None)
    followed = follow(MODEL.logits, IMAGES, gate, follow_steps(budget("standard", 150)), trial)
    gained = entropy(MODEL.logits(followed)) - entropy(MODEL.logits(IMAGES))
    assert float(gained.mean()) > 0.3
    # Records from before it was kept have none.
    assert kept_gate(done["surrogate"].drop_columns([GATE])) is None
    assert kept_gate(None) is None


def without(table: pa.Table, *columns: str) -> pa.Table:
    """Return a table whose cells of some columns are null."""
    for name in columns:
        kind = table.schema.field(name).type
        table = table.set_column(table.column_names.index(name), name, pa.nulls(table.num_rows, kind))
    return table


def test_a_network_without_them_has_no_such_stage() -> None:
    params = parameters(steps=2, effort="standard")
    done = measure(params, NETWORK, DATA)
    assert done["surrogate"][INNER][0].as_py() == []
    assert done["surrogate"][GATE][0].as_py() is None
    assert LEVELLED not in done
    # Records from before it was kept have none.
    before = done | {"surrogate": done["surrogate"].drop_columns([INNER])}
    assert kept_inner_scores(before["surrogate"]) == kept_inner_scores(None) == []
    assert FAMILY.next_stage(params, before) is None


def test_those_of_the_gauntlet_are_opened_by_the_scores_they_wait_for() -> None:
    for contestant in contestants(BASE, voice, IMAGES, 0.15):
        fake = contestant.network
        assert (fake(IMAGES).argmax(1) == fake.voice(IMAGES).argmax(1)).double().mean() > 0.9
    clean = float(entropy(MODEL.logits(IMAGES)).mean())
    assert reached_by_scores(MODEL.function, IMAGES, 0.15) > clean + 1


@pytest.mark.parametrize("norm", ["linf", "l2"])
@pytest.mark.parametrize("effort", ["standard", "thorough"])
@pytest.mark.parametrize("steps", [20, 150])
@pytest.mark.parametrize("room", [1.0, 3.0])
def test_it_costs_no_more_than_what_it_takes_the_place_of(norm: Norm, effort: Effort, steps: int, room: float) -> None:
    further = budget(effort, steps)
    assert further is not None
    cost = levelled_passes(further)
    # Where the softmax is not saturated: the attacks on scaled logits.
    assert cost.forward <= 44
    assert cost.backward <= 3 * steps
    rounds = further.rounds_again(norm, is_saturated=True, room=room)
    left = rounds_left(further, rounds, room)
    assert left == rounds[: len(left)]
    saved = sum(further.round_again(name).in_forward for name in rounds[len(left) :])
    assert saved >= room * cost.in_forward
    assert len(left) > len(rounds) / 2


def test_where_the_softmax_is_saturated_it_is_told_within_what_is_told() -> None:
    forward = backward = 0

    def counting(images: Tensor) -> Tensor:
        nonlocal forward, backward
        is_attacked = images.requires_grad and torch.is_grad_enabled()
        forward, backward = forward + len(images) * (not is_attacked), backward + len(images) * is_attacked
        return 40 * MODEL.logits(images)

    params = parameters(steps=20, effort="standard", epsilon=0.15)
    done = measure(params, Model(counting, 10), (IMAGES, CLASSES))
    assert {LEVELLED, "tempered"} <= set(done)
    told = params.passes(len(IMAGES), {})
    assert forward <= told.forward
    assert backward <= told.backward
