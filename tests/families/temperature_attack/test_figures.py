from xml.etree import ElementTree

import matplotlib as mpl
import pytest

from seatrial.contracts.estimates import Result
from tests.families.temperature_attack.fabricated import parameters, records
from workers.families.temperature_attack import estimates
from workers.families.temperature_attack.figures import draw

PARAMS = parameters(recipes=["deepwordbug", "pwws"], design_temperature=0.01)


@pytest.fixture(scope="module")
def result():
    return estimates.reduce(PARAMS, records(PARAMS), 0)


@pytest.fixture(scope="module")
def figures(result):
    return draw(PARAMS, result)


@pytest.mark.slow
def test_every_figure_is_xml_with_a_title_and_nothing_from_outside(figures) -> None:
    assert set(figures) == {"adversarial_accuracy", "temperature_curve", "reliability", "margins"}
    for svg in figures.values():
        root = ElementTree.fromstring(svg)
        assert root.tag == "{http://www.w3.org/2000/svg}svg"
        assert root[0].text == root.attrib["aria-label"]
        assert "<image" not in svg
        assert "url(http" not in svg


@pytest.mark.drill
@pytest.mark.slow
def test_the_stored_result_draws_the_same_bytes_and_leaves_no_settings_behind(result, figures) -> None:
    before = dict(mpl.rcParams)
    stored = type(result).model_validate_json(result.model_dump_json())
    assert draw(PARAMS, stored) == figures
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


def test_the_curve_is_drawn_against_confidence_too_and_an_older_one_against_temperature_alone(result) -> None:
    curve = result.series["temperature_curve"]
    for points, axes in ((curve["points"], 2), ([point | {"confidence": None} for point in curve["points"]], 1)):
        alone = Result(estimates={}, series={"temperature_curve": curve | {"points": points}}, counts={})
        assert draw(PARAMS, alone)["temperature_curve"].count('id="axes_') == axes


def test_the_curve_has_both_branches_of_the_papers_figure_in_its_precision() -> None:
    params = parameters(temperature_evaluations=40, precision="float32", design_temperature=1e3)
    points = estimates.reduce(params, records(params, validation=120), 0).series["temperature_curve"]["points"]
    confidences = [point["confidence"] for point in points]
    # The hotter, the less sure: from certainty to a coin.
    assert confidences == sorted(confidences, reverse=True)
    assert confidences[0] == pytest.approx(1)
    assert confidences[-1] == pytest.approx(0.5, abs=1e-5)
    left, least, right = points[-1]["accuracy"], min(point["accuracy"] for point in points), points[0]["accuracy"]
    assert min(left, right) > least + 0.2
    exact = parameters(temperature_evaluations=40, design_temperature=1e3)
    points = estimates.reduce(exact, records(exact, validation=120), 0).series["temperature_curve"]["points"]
    # In float64 only certainty leaves an attack without a signal.
    assert points[0]["accuracy"] > least + 0.2
    assert points[-1]["accuracy"] == pytest.approx(least, abs=0.05)
