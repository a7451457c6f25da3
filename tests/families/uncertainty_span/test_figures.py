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
    assert set(figures) == {"entropy", "reliability", "span_by_epsilon", "attacks", "outliers"}
    for svg in figures.values():
        root = ElementTree.fromstring(svg)
        assert root.tag == "{http://www.w3.org/2000/svg}svg"
        assert root.attrib["role"] == "img"
        assert root[0].tag.endswith("title")
        assert root[0].text == root.attrib["aria-label"]
        assert "<image" not in svg
        assert "url(http" not in svg


def test_the_same_stored_result_draws_the_same_bytes_and_leaves_no_settings_behind(result, figures) -> None:
    before = dict(mpl.rcParams)
    stored = type(result).model_validate_json(result.model_dump_json())
    assert FAMILY.figures(PARAMS, stored) == figures
    assert dict(mpl.rcParams) == before
