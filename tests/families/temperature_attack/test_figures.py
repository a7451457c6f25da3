from xml.etree import ElementTree

import matplotlib as mpl
import pytest

from tests.families.temperature_attack.fabricated import parameters, records
from workers.families.temperature_attack import estimates
from workers.families.temperature_attack.figures import draw

PARAMS = parameters(recipes=["deepwordbug", "pwws"], design_temperature=0.01)


@pytest.fixture(scope="module")
def result():
    return estimates.reduce(PARAMS, records(PARAMS), 0)


@pytest.mark.slow
def test_every_figure_is_xml_with_a_title_and_nothing_from_outside(result) -> None:
    figures = draw(PARAMS, result)
    assert set(figures) == {"adversarial_accuracy", "temperature_curve", "reliability", "margins"}
    for svg in figures.values():
        root = ElementTree.fromstring(svg)
        assert root.tag == "{http://www.w3.org/2000/svg}svg"
        assert root[0].text == root.attrib["aria-label"]
        assert "<image" not in svg
        assert "url(http" not in svg


@pytest.mark.slow
def test_the_stored_result_draws_the_same_bytes_and_leaves_no_settings_behind(result) -> None:
    before = dict(mpl.rcParams)
    stored = type(result).model_validate_json(result.model_dump_json())
    assert draw(PARAMS, stored) == draw(PARAMS, result)
    assert dict(mpl.rcParams) == before


@pytest.mark.parametrize(
    ("changes", "errored", "names"),
    [
        ({"arms": []}, frozenset(), {"adversarial_accuracy", "reliability", "margins"}),
        ({"arms": ["platt_matrix"]}, frozenset(), {"adversarial_accuracy", "reliability", "margins"}),
        ({}, frozenset(range(80)), set()),
        (
            {"arms": ["optimized"], "design_temperature": 1e9},
            frozenset(),
            {"adversarial_accuracy", "temperature_curve", "reliability", "margins"},
        ),
    ],
)
def test_what_is_not_there_is_not_drawn(changes, errored, names) -> None:
    params = parameters(**changes)
    result = estimates.reduce(params, records(params, n=20, errored=errored), 0)
    assert set(draw(params, result)) == names
