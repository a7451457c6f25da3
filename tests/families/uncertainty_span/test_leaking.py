"""A network whose answer is vetoed by units that hear a weaker one is told, whatever the cut."""

import pytest

from seatrial.families.uncertainty_span.levelled import LEVELLED
from tests.attacks.test_leaky_gradients import IMAGES, LABELS, RADIUS, sure, vetoed
from tests.families.uncertainty_span.audits import (
    Model,
    attacked_alike_in_shards,
    audit,
    masked_by,
    measure,
    parameters,
    reached_by_stage,
)
from workers.attacks.leaky_gradients import SLOPES
from workers.families.uncertainty_span.levelled import LEAKING
from workers.families.uncertainty_span.records import first_of

DATA = (IMAGES, LABELS)
PARAMS = parameters(steps=40, effort="standard", epsilon=RADIUS["linf"])


@pytest.fixture(scope="module")
def found():
    return audit(PARAMS, Model(vetoed, 4), DATA)


def test_it_is_told(found) -> None:
    result, done = found
    assert "gradients lead that go through units that are off" in masked_by(result)
    assert reached_by_stage(result, done, LEVELLED) > result.estimates["mus"].value + 0.15


def test_what_is_recorded_is_enough_and_is_that_of_any_cut(found) -> None:
    _, done = found
    surrogate = done["surrogate"]
    assert first_of(surrogate, LEAKING) in SLOPES
    assert surrogate[LEAKING][1:].null_count == len(IMAGES) - 1
    # Records from before it was kept have none.
    assert first_of(surrogate.drop_columns([LEAKING]), LEAKING) is None
    assert attacked_alike_in_shards(PARAMS, Model(vetoed, 4), DATA, done, LEAKING)


def test_a_network_without_a_veto_has_none() -> None:
    done = measure(parameters(steps=20, effort="standard", epsilon=RADIUS["linf"]), Model(sure, 4), DATA)
    assert done["surrogate"][LEAKING].null_count == len(IMAGES)
