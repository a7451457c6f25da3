from xml.etree import ElementTree

import matplotlib as mpl
import pytest

from tests.families.uncertainty_span.audits import DATA, NETWORK, audit, parameters
from tests.families.uncertainty_span.test_outliers import OUTLIERS
from workers.families.uncertainty_span.family import FAMILY

PARAMS = parameters(steps=3, attacks=["ace", "max_miscalibration"], outliers={"dataset": "dat_1"})


@pytest.fixture(scope="module")
def result():
    return audit(PARAMS, NETWORK, DATA, outliers=OUTLIERS)[0]


@pytest.fixture(scope="module")
def figures(result):
    return FAMILY.figures(PARAMS, result)


def test_every_figure_is_xml_with_a_title_and_nothing_from_outside(figures) -> None:
    assert set(figures) == {*("entropy", "reliability", "span_by_epsilon", "attacks", "attack_reliability", "outliers")}
    for svg in figures.values():
        root = ElementTree.fromstring(svg)
        assert root.tag == "{http://www.w3.org/2000/svg}svg"
        assert root.attrib["role"] == "img"
        assert root[0].tag.endswith("title")
        assert root[0].text == root.attrib["aria-label"]
        assert "<image" not in svg
        assert "url(http" not in svg


def test_reliability_under_attacks_is_of_the_confidences_reached(result, figures) -> None:
    diagrams = result.series["attack_reliability"]
    assert list(diagrams) == ["ace", "max_miscalibration"]
    for attack, diagram in diagrams.items():
        assert sum(diagram["count"]) == 40
        gaps = [
            n * abs(accuracy - confidence)
            for n, accuracy, confidence in zip(
                diagram["count"], diagram["accuracy"], diagram["confidence"], strict=True
            )
            if n
        ]
        assert sum(gaps) / 40 == pytest.approx(result.estimates[f"ece[attack={attack}]"].value)
        assert attack in figures["attack_reliability"]
        adaptive = result.estimates[f"ece_equal_mass[attack={attack}]"]
        assert adaptive.low <= adaptive.value <= adaptive.high
        # Every error is its bin's here: no binning exceeds the mean of all, nor falls below the signed one.
        assert abs(result.estimates[f"s_ece[attack={attack}]"].value) <= adaptive.value + 1e-12
        assert f"AdaECE {adaptive.value:.3f}" in figures["attack_reliability"]


def test_the_same_stored_result_draws_the_same_bytes_and_leaves_no_settings_behind(result, figures) -> None:
    before = dict(mpl.rcParams)
    stored = type(result).model_validate_json(result.model_dump_json())
    assert FAMILY.figures(PARAMS, stored) == figures
    assert dict(mpl.rcParams) == before
