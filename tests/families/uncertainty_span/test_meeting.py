"""A network that is another one where the thresholds of many of its units meet is told, whatever the cut."""

import numpy as np
import pytest

from seatrial.families.uncertainty_span.levelled import LEVELLED
from tests.attacks.test_meeting_thresholds import IMAGES, RADIUS, SURE, ordinary, planted
from tests.families.uncertainty_span.audits import (
    Model,
    attacked_alike_in_shards,
    audit,
    masked_by,
    measure,
    parameters,
)
from workers.families.uncertainty_span.levelled import GATE, MEETING, is_levelled, kept_meeting

MODEL, DATA = Model(planted, len(SURE)), (IMAGES, planted(IMAGES).argmax(1))
PARAMS = parameters(steps=60, effort="standard", epsilon=RADIUS["linf"])


@pytest.fixture(scope="module")
def found():
    return audit(PARAMS, MODEL, DATA)


def test_a_point_that_no_gradient_leads_to_is_told(found) -> None:
    result, done = found
    assert "the thresholds of many units meet" in masked_by(result)
    assert result.estimates["mus_worst"].value > 1.5 > 4 * result.estimates["mus"].value
    assert done[LEVELLED].num_rows == len(IMAGES)
    own = np.asarray(done[LEVELLED]["entropy_under"]) - np.asarray(done[LEVELLED]["entropy_over"])
    assert result.estimates["mus_worst"].value == pytest.approx(own.mean(), rel=0.1)


def test_what_is_recorded_is_enough_and_is_that_of_any_cut(found) -> None:
    _, done = found
    surrogate = done["surrogate"]
    meeting = kept_meeting(surrogate)
    assert meeting is not None
    assert meeting.spreads
    assert all(float(of.min()) > 0 for of in meeting.spreads.values())
    assert surrogate[GATE][0].as_py() is None
    assert surrogate[MEETING][1:].null_count == len(IMAGES) - 1
    # Records from before it was kept have none.
    assert kept_meeting(surrogate.drop_columns([MEETING])) is None
    assert kept_meeting(None) is None
    assert attacked_alike_in_shards(PARAMS, MODEL, DATA, done, MEETING)


def test_the_network_without_it_has_no_such_stage() -> None:
    done = measure(parameters(steps=20, effort="standard", epsilon=RADIUS["linf"]), Model(ordinary, len(SURE)), DATA)
    assert done["surrogate"][MEETING][0].as_py() is None
    assert not is_levelled(done["surrogate"])
    assert LEVELLED not in done
