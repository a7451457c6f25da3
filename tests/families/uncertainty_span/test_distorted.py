"""A network whose answer is vetoed behind units that hear others is told, whatever the cut."""

import pytest

from seatrial.families.uncertainty_span.levelled import LEVELLED
from tests.attacks.test_distortion import IMAGES, LABELS, RADIUS, chained, sure
from tests.families.uncertainty_span.audits import (
    Model,
    attacked_alike_in_shards,
    audit,
    killed_and_run_again,
    masked_by,
    measure,
    parameters,
    reached_by_stage,
)
from workers.attacks.distortion import ALONG
from workers.families.uncertainty_span.levelled import DISTORTED, LEAKING, kept_measures

DATA = (IMAGES, LABELS)
PARAMS = parameters(steps=150, effort="standard", epsilon=RADIUS["linf"])
MODEL = Model(chained, 4)


@pytest.fixture(scope="module")
def found():
    return audit(PARAMS, MODEL, DATA)


def test_it_is_told(found) -> None:
    result, done = found
    assert "what goes into a layer is far from what it was" in masked_by(result)
    assert reached_by_stage(result, done, LEVELLED) > result.estimates["mus"].value + 0.15


def test_what_is_recorded_is_enough_and_is_that_of_any_cut(found) -> None:
    _, done = found
    surrogate = done["surrogate"]
    assert surrogate[LEAKING].null_count == len(IMAGES)
    measures = kept_measures(surrogate)
    for way in (measures.led, measures.drawn):
        assert float(way.scales.min()) > 0
        assert way.along.shape == (ALONG, sum(measures.places.values()))
    assert surrogate[DISTORTED][1:].null_count == len(IMAGES) - 1
    # Records from before it was kept have none.
    assert kept_measures(surrogate.drop_columns([DISTORTED])) is None
    assert kept_measures(None) is None
    assert attacked_alike_in_shards(PARAMS, MODEL, DATA, done, DISTORTED)


def test_killed_half_way_it_gives_the_same_records(found) -> None:
    killed_and_run_again(PARAMS, MODEL, DATA, found[1], LEVELLED)


def test_a_network_without_a_veto_has_none() -> None:
    done = measure(parameters(steps=20, effort="standard", epsilon=RADIUS["linf"]), Model(sure, 4), DATA)
    assert done["surrogate"][DISTORTED].null_count == len(IMAGES)
