from xml.etree import ElementTree

import matplotlib as mpl
import pytest

from seatrial.contracts.noise import ATTACKERS, COMBINED
from tests.families.low_level_attack.fabricated import parameters, sampled
from workers.families.low_level_attack import estimates
from workers.families.low_level_attack.figures import COLOURS, MARKERS, draw

ALL = {"curves", "ranking", "edit_distance", "confidence"}
TASKS = ["text-classification", "multi-label-classification", "token-classification"]


@pytest.fixture(scope="module")
def drawn():
    params = parameters(combined=True)
    result = estimates.reduce(params, sampled(TASKS[0], params, n=20), 0)
    return params, result, draw(params, result)


@pytest.mark.slow
def test_every_figure_is_xml_with_a_title_and_nothing_from_outside(drawn) -> None:
    _, _, figures = drawn
    assert set(figures) == ALL
    for svg in figures.values():
        root = ElementTree.fromstring(svg)
        assert root.tag == "{http://www.w3.org/2000/svg}svg"
        assert root[0].text == root.attrib["aria-label"]
        assert "<image" not in svg
        assert "url(http" not in svg


@pytest.mark.drill
@pytest.mark.slow
def test_the_stored_result_draws_the_same_bytes_and_leaves_no_settings_behind(drawn) -> None:
    params, result, figures = drawn
    before = dict(mpl.rcParams)
    stored = type(result).model_validate_json(result.model_dump_json())
    assert draw(params, stored) == figures
    assert dict(mpl.rcParams) == before


def test_attackers_are_told_apart_by_shape_alone() -> None:
    assert set(MARKERS) == set(COLOURS) == {*ATTACKERS, COMBINED}
    assert len(set(MARKERS.values())) == len(MARKERS)


@pytest.mark.parametrize("task", TASKS)
def test_one_attacker_at_one_level_in_several_draws_is_drawn_too(task) -> None:
    params = parameters(attackers=["visual"], levels=[1.0], draws=2)
    assert set(draw(params, estimates.reduce(params, sampled(task, params, n=10), 0))) == ALL


def test_what_is_not_there_is_not_drawn() -> None:
    params = parameters(attackers=["visual"], levels=[0.5])
    nothing = estimates.reduce(params, sampled(TASKS[0], params, n=4, errored=frozenset(range(4))), 0)
    assert draw(params, nothing) == {}
