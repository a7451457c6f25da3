"""The stages ``span_raise`` and ``span_lower``: below the certificates, and a flag where they are not."""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
import torch
from pydantic import ValidationError

from seatrial.contracts.estimates import metric_name
from seatrial.contracts.family import Situation
from seatrial.contracts.models import IMAGES as IMAGE_TASK
from seatrial.families.certified_calibration.spec import misfits
from seatrial.statistics.samples import Sample
from tests.families.certified_calibration.audits import IMAGES, LABELS, NETWORK, audit, measure, parameters
from tests.families.in_memory import Context, Model
from workers.certification.uncertainty import UNCERTAINTIES
from workers.families.certified_calibration.class_flags import SHOWN, attack_beyond_span, span_not_shown
from workers.families.certified_calibration.family import FAMILY
from workers.families.certified_calibration.records import class_column, stages_of, uncertainty_column
from workers.families.protocol import Shard

PARAMS = parameters(n=300, radii=[0.0, 0.1, 0.25], attack_steps=6, attack_draws=4, uncertainty={"attack": True})


DATA = IMAGES[:12], LABELS[:12]
DIRECTIONS = stages_of("entropy")


@pytest.fixture(scope="module")
def attacked():
    return audit(PARAMS, NETWORK, DATA)


def column(done, stage, name, radius, **more):
    return done[stage][metric_name(name, **more, radius=radius)].to_numpy()


@pytest.mark.slow
def test_it_moves_entropy_and_stays_within_every_certificate(attacked) -> None:
    result, done = attacked
    for radius in (0.1, 0.25):
        for name in (*UNCERTAINTIES, "smoothed_entropy"):
            spans = [result.estimates[metric_name(one, uncertainty=name, radius=radius)] for one in
                     ("attacked_span", "certified_span")]  # fmt: skip
            assert 0 < spans[0].value < spans[1].value
        clean = done["certify"]["uncertainty[uncertainty=entropy]"].to_numpy()
        raised, lowered = (column(done, one, "uncertainty", radius, uncertainty="entropy") for one in DIRECTIONS)
        assert (raised > clean).mean() > 0.9
        assert (lowered < clean).mean() > 0.9
        for stage in DIRECTIONS:
            assert (column(done, stage, "beyond", radius) == 0).all()
            moved = column(done, stage, "distance", radius)
            assert (moved <= radius + 1e-9).all()
            assert moved.max() > 0.9 * radius
    assert not {"attack_beyond_span"} & {flag.code for flag in result.flags}


@pytest.mark.slow
def test_records_do_not_depend_on_shards_or_batches(attacked) -> None:
    data = IMAGES[:10], LABELS[:10]
    whole, cut = (measure(PARAMS, NETWORK, data, **how) for how in ({"batch_size": 5}, {"batch_size": 5, "shards": 2}))
    for stage in DIRECTIONS:
        assert whole[stage].equals(cut[stage])


@pytest.mark.slow
def test_certificates_that_are_too_narrow_are_caught(attacked, monkeypatch) -> None:
    """Half as wide, around the middle: the attack leaves them, class by class or in the entropy alone."""
    _, done = attacked
    certify = done["certify"]

    def narrowed(table, names):
        for low, high in names:
            ends = [np.stack(table[one].to_pylist()) for one in (low, high)]
            middle, half = (ends[0] + ends[1]) / 2, (ends[1] - ends[0]) / 40
            for name, values in ((low, middle - half), (high, middle + half)):
                at = table.column_names.index(name)
                table = table.set_column(at, name, pa.array(values.tolist()))
        return table

    of_classes = [(class_column("lower", 0.25), class_column("upper", 0.25))]
    low, high = (uncertainty_column(side, "smoothed_entropy", 0.25) for side in ("low", "high"))
    of_entropy = [(low, high)]
    for names in (of_classes, of_entropy):
        table = narrowed(certify, names)
        monkeypatch.setattr("tests.families.in_memory.Books.records", lambda self, stage, table=table: table)
        again = {**done}
        for stage in DIRECTIONS:
            shard = Shard(stage, 0, len(DATA[0]))
            again[stage] = FAMILY.run(PARAMS, shard, Context(NETWORK, DATA, shard, 16, len(DATA[0])))
        assert (column(again, "span_raise", "beyond", 0.25) > 0).any()
        assert (column(again, "span_raise", "beyond", 0.1) == 0).all()
        flags = FAMILY.reduce(PARAMS, again, 0).flags
        assert [flag.severity for flag in flags if flag.code == "attack_beyond_span"] == ["error"]


@pytest.mark.slow
def test_an_example_that_errors_is_attacked_by_nobody() -> None:
    images = IMAGES[:6].clone()
    images[2] = torch.nan
    data = torch.nan_to_num(images, nan=0.5), LABELS[:6]
    sick = Model(lambda x: torch.where((x.flatten(1) - 0.5).abs().mean(1, keepdim=True) < 0.24, torch.nan, 1.0)
                 * NETWORK.logits(x), 4)  # fmt: skip
    result, done = audit(PARAMS, sick, data)
    errored = done["certify"]["errored"].to_pylist()
    assert errored[2]
    for stage in DIRECTIONS:
        assert done[stage]["errored"].to_pylist()[2]
        assert pc.is_null(done[stage]["beyond[radius=0.1]"]).to_pylist()[2]
    assert result.counts["span_raise_errored"] >= 1


def test_what_shows_nothing_is_told_and_what_shows_something_is_not(attacked) -> None:
    result, _ = attacked
    assert span_not_shown(PARAMS, result.estimates) == []
    name = metric_name("attacked_span", uncertainty="entropy", radius=0.25)
    certified = result.estimates[metric_name("certified_span", uncertainty="entropy", radius=0.25)].value
    weak = result.estimates[name].model_copy(update={"value": certified / SHOWN / 1.01})
    flags = span_not_shown(PARAMS, {**result.estimates, name: weak})
    assert [flag.code for flag in flags] == ["span_not_shown"]
    assert "at 0.25" in flags[0].message


def test_beyond_is_told_by_direction_and_radius() -> None:
    table = pa.table({"example_id": [1, 2], "label": [0, 0], "errored": [False, False], "beyond[radius=0.1]": [0, 0.2]})
    flags = attack_beyond_span(PARAMS, {"span_raise": Sample(table)})
    assert "span_raise at 0.1: 1" in flags[0].message
    assert attack_beyond_span(PARAMS, {}) == []


def test_an_endpoint_is_not_attacked_and_the_price_counts_the_attack() -> None:
    served = Situation(
        model="mdl_1", task=IMAGE_TASK, shape=[1, 4, 4],
        samples=10, sizes={}, most_bytes=2**30, has_gradients=False,
    )  # fmt: skip
    assert [one.parameter for one in misfits(PARAMS, served)] == ["uncertainty/attack"]
    plain = parameters(n=300, radii=[0.0, 0.1, 0.25], attack_steps=6, attack_draws=4, uncertainty={})
    assert list(misfits(plain, served)) == []
    more, less = PARAMS.passes(10, {}), plain.passes(10, {})
    assert more.backward - less.backward == 2 * 2 * 10 * 6 * 4
    assert more.forward - less.forward >= 2 * 2 * 10 * (7 * 4 + 300)


@pytest.mark.slow
def test_no_more_passes_are_taken_than_were_priced() -> None:
    asked = []

    def counted(images: torch.Tensor) -> torch.Tensor:
        asked.append(len(images))
        return NETWORK.logits(images)

    audit(PARAMS, Model(counted, 4), (IMAGES[:5], LABELS[:5]))
    passes = PARAMS.passes(5, {})
    # Passes that look at the model's layout and its answers apart are not priced.
    assert sum(asked) <= passes.forward + passes.backward + 5 * 40 + 10


def test_there_must_be_a_radius_to_attack_at() -> None:
    with pytest.raises(ValidationError, match="a radius above 0"):
        parameters(radii=[0.0], uncertainty={"attack": True})
