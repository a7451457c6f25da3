"""A network that is weak for as long as most of an image stays as it is is told, whatever the cut."""

import pytest

from seatrial.families.uncertainty_span.levelled import LEVELLED
from tests.attacks.test_confined import EPSILON, IMAGES, linear, watching
from tests.families.uncertainty_span.audits import (
    Model,
    attacked_alike_in_shards,
    audit,
    masked_by,
    measure,
    parameters,
    reached_by_stage,
)
from workers.attacks.kept_slopes import HALF
from workers.families.uncertainty_span.inner import SLOPES
from workers.families.uncertainty_span.levelled import CONFINED, kept_confinement

DATA = (IMAGES, watching(IMAGES).argmax(1))
PARAMS = parameters(steps=40, effort="standard", epsilon=EPSILON)


@pytest.fixture(scope="module")
def found():
    return audit(PARAMS, Model(watching, 2), DATA)


def test_it_is_told(found) -> None:
    result, done = found
    assert "all but some of the pixels are left as they are" in masked_by(result)
    assert reached_by_stage(result, done, LEVELLED) > result.estimates["mus"].value + 0.15


def test_whatever_it_watches_its_gradients_are_gone_where_it_has_moved(found) -> None:
    result, done = found
    assert "failed_gradient_check" in {flag.code for flag in result.flags}
    slopes = done["surrogate"][SLOPES][0].as_py()
    assert max(slopes) < HALF
    assert done["surrogate"][SLOPES][1:].null_count == len(IMAGES) - 1


def test_what_is_recorded_is_enough_and_is_that_of_any_cut(found) -> None:
    _, done = found
    surrogate = done["surrogate"]
    where = kept_confinement(surrogate)
    assert where is not None
    assert where.startswith("what is drawn")
    assert surrogate[CONFINED][1:].null_count == len(IMAGES) - 1
    # Records from before it was kept have none.
    assert kept_confinement(surrogate.drop_columns([CONFINED])) is None
    assert kept_confinement(None) is None
    assert attacked_alike_in_shards(PARAMS, Model(watching, 2), DATA, done, CONFINED)


def test_a_network_that_watches_nothing_has_no_such_stage() -> None:
    done = measure(parameters(steps=20, effort="standard", epsilon=EPSILON), Model(linear, 2), DATA)
    assert kept_confinement(done["surrogate"]) is None
    assert LEVELLED not in done
    assert min(done["surrogate"][SLOPES][0].as_py()) > 0.9
