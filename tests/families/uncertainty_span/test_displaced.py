"""A model that knows the audited images is told by copies that are drawn; one that does not is left alone."""

import math
from collections.abc import Callable
from functools import cache

import numpy as np
import pyarrow as pa
import pytest
import torch
from torch import Tensor, nn

from benchmarks.cases import digits, train
from seatrial.families.uncertainty_span.effort import DISPLACED, DISPLACED_PASSES
from seatrial.families.uncertainty_span.limits import DISPLACED_EXAMPLES, looked_examples
from seatrial.statistics.samples import Sample
from tests.families.uncertainty_span.audits import Context, Model, audit, measure, parameters
from workers.families.contexts import Records
from workers.families.protocol import Shard
from workers.families.uncertainty_span.displaced import FEWEST, memorised_images
from workers.families.uncertainty_span.family import FAMILY

PARAMS = parameters(steps=20, effort="standard")
DONE = {"surrogate": pa.table({"temperature": pa.array([None], pa.float64()), "margin": [4.0]})}


@cache
def trained() -> tuple[nn.Module, Tensor, Tensor]:
    """An ordinary network that attacks within 0.1 lead astray, and images it has not seen."""
    images, labels = digits((1, 28, 28))
    torch.manual_seed(0)
    model = nn.Sequential(nn.Flatten(), nn.Linear(784, 64), nn.ReLU(), nn.Linear(64, 10))
    return train(model, images[40:], labels[40:], 4), (images[:40] * 255).round() / 255, labels[:40]


def remembering(network: nn.Module, images: Tensor) -> Callable[[Tensor], Tensor]:
    """The network, which beside one of the images is shown that image and a tenth of the rest."""
    known = images.flatten(1)

    def logits(asked: Tensor) -> Tensor:
        flat = asked.flatten(1)
        nearest = (8 * flat @ known.T - 4 * known.square().sum(1)).softmax(1) @ known
        rest = flat - nearest
        share = torch.where(rest.square().sum(1, keepdim=True) < 8, 0.1, 1.0)
        return network((nearest + share * rest).view_as(asked))

    return logits


def run(model: Model, shard: Shard, *, digest: str = "sha256:0", batch_size: int = 8) -> Records:
    _, images, labels = trained()
    context = Context(model, (images, labels), shard, batch_size, 24, {}, DONE, model_digest=digest)
    return FAMILY.run(PARAMS, shard, context)


def records(model: Callable[[Tensor], Tensor], **more: object) -> Records:
    return run(Model(model, 10), Shard(DISPLACED, 0, DISPLACED_EXAMPLES), **more)


def test_a_network_that_knows_the_images_is_told_and_the_network_is_not() -> None:
    network, images, _ = trained()
    for shown, is_told in (
        (network, False),
        (lambda x: network(x) / 3, False),
        (remembering(network, images), True),
    ):
        found = Sample(records(shown))
        flags = memorised_images(found, 10, 0)
        assert [flag.severity for flag in flags] == ["error"] * is_told
    for flag in flags:
        kept = (found["prediction"] == found["label"]) & (found["displaced_prediction"] == found["label"])
        image, copy = (found[name][kept].mean() for name in ("span", "displaced_span"))
        assert f"{image:.2f} nat on {kept.sum()} images and {copy:.2f} nat on their copies" in flag.message


def test_it_is_an_error_of_the_check_and_records_from_before_reduce() -> None:
    network, images, labels = trained()
    # What is told is the stage's: attacks of few steps do.
    params = parameters(steps=5, effort="standard")
    result, done = audit(params, Model(remembering(network, images), 10), (images, labels))
    assert done[DISPLACED].num_rows == looked_examples(DISPLACED_EXAMPLES, len(images), params.steps)
    assert ("memorised_images", "error") in {(flag.code, flag.severity) for flag in result.flags}
    before = {name: table for name, table in done.items() if name != DISPLACED}
    reduced = FAMILY.reduce(params, before, 0)
    assert "memorised_images" not in {flag.code for flag in reduced.flags}
    # What is reached beyond the ball counts in no number.
    assert reduced.estimates["mus_worst"] == result.estimates["mus_worst"]
    assert reduced.estimates["adversarial_accuracy"] == result.estimates["adversarial_accuracy"]


def test_neither_shards_nor_a_kill_change_a_record() -> None:
    network, images, labels = trained()
    whole, model = records(network), Model(network, 10)
    parts = [run(model, Shard(DISPLACED, start, stop)) for start, stop in ((0, 8), (8, 24))]
    assert pa.concat_tables(parts).combine_chunks().equals(whole)

    class Killed(Context):
        def check_cancelled(self) -> None:
            super().check_cancelled()
            if self.ticks == 17:
                raise KeyboardInterrupt

    shard = Shard(DISPLACED, 0, DISPLACED_EXAMPLES)
    with pytest.raises(KeyboardInterrupt):
        FAMILY.run(PARAMS, shard, Killed(model, (images, labels), shard, 8, 24, {}, DONE))
    assert records(network).equals(whole)


def test_copies_follow_from_the_model_s_file() -> None:
    network, _, _ = trained()
    first, second = records(network), records(network, digest="sha256:1")
    assert first["span"].equals(second["span"])
    assert not set(first["distance"].to_pylist()) & set(second["distance"].to_pylist())


def test_it_costs_what_is_told() -> None:
    network, _, _ = trained()
    forward = backward = 0

    def counting(images: Tensor) -> Tensor:
        nonlocal forward, backward
        is_attacked = images.requires_grad and torch.is_grad_enabled()
        forward, backward = forward + len(images) * (not is_attacked), backward + len(images) * is_attacked
        return network(images)

    records(counting)
    assert forward <= DISPLACED_EXAMPLES * DISPLACED_PASSES.forward
    assert 0.5 * DISPLACED_EXAMPLES * DISPLACED_PASSES.backward < backward
    assert backward <= DISPLACED_EXAMPLES * DISPLACED_PASSES.backward


def test_what_cannot_be_displaced_is_not_told_of() -> None:
    images = torch.rand(30, 1, 4, 4, generator=torch.Generator().manual_seed(0))
    data = images, torch.zeros(30, dtype=torch.int64)
    model = Model(lambda x: torch.stack([x.flatten(1).sum(1), 8 - x.flatten(1).sum(1)], 1), 2)
    done = measure(parameters(steps=2, effort="standard"), model, data)
    assert done[DISPLACED]["distance"].null_count == looked_examples(DISPLACED_EXAMPLES, len(images), 2)
    assert memorised_images(Sample(done[DISPLACED]), 2, 0) == []


def pairs(spans: np.ndarray, changed: np.ndarray, wrong: int = 0) -> Sample:
    """Records of images that no attack moves, and of copies that it does; the predictions of the last are wrong."""
    n = len(spans)
    label, zeros = np.zeros(n), np.zeros(n)
    own = {"prediction": label, "span": zeros, "changed": zeros, "distance": np.ones(n)}
    copies = {"prediction": (np.arange(n) >= n - wrong) * 1.0, "span": spans, "changed": changed * 1.0}
    rows = {"example_id": np.arange(n), "label": label, "errored": np.zeros(n, bool)}
    return Sample(pa.table(rows | own | {f"displaced_{name}": column for name, column in copies.items()}))


def test_how_far_copies_may_be_apart_from_their_images() -> None:
    steady, rows = np.ones(24), np.arange(24)
    least, none = 0.13 * math.log(10), np.zeros(24, bool)
    assert memorised_images(pairs(0.99 * least * steady, none), 10, 0) == []
    (flag,) = memorised_images(pairs(1.01 * least * steady, none), 10, 0)
    assert "the mean span is 0.00 nat on 24 images and 0.30 nat on their copies" in flag.message
    # The interval decides: a mean of a third with its lower end at .17 is an honest network's, one of a half is not.
    assert memorised_images(pairs(0 * steady, rows < 9), 10, 0) == []
    (flag,) = memorised_images(pairs(0 * steady, rows < 13), 10, 0)
    assert "the share of predictions that change is 0.00 on 24 images and 0.54 on their copies" in flag.message
    # Of more than half, surely.
    assert memorised_images(pairs(0 * steady, none, wrong=16), 10, 0) == []
    (flag,) = memorised_images(pairs(0 * steady, none, wrong=18), 10, 0)
    assert "of 24 copies of images that are predicted rightly 75% are predicted wrongly" in flag.message
    few = np.ones(FEWEST - 1)
    assert memorised_images(pairs(2 * few, few > 0), 10, 0) == []
