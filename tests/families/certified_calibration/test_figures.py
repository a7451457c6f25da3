from xml.etree import ElementTree

import matplotlib as mpl
import pytest

from seatrial.contracts.estimates import Result
from seatrial.statistics.estimating import estimate
from tests.families.certified_calibration.fabricated import parameters, samples
from workers.certification.admm import GRID, admm_calibration_error
from workers.families.certified_calibration.estimates import estimate_all
from workers.families.certified_calibration.figures import draw
from workers.families.certified_calibration.sample import certified_at, worst_value
from workers.families.certified_calibration.series import make_series

PARAMS = parameters(
    radii=[0.0, 0.1, 0.25, 0.75],
    bins=6,
    ace_attacks=["ace_lower_true", "ace_raise_predicted"],
    solvers=["dece", "brier"],
)


def result(params, **how) -> Result:
    certify, attacks = samples(params, **({"n": 40} | how))
    estimates = estimate_all(params, certify, attacks, 0)
    return Result(estimates=estimates, series=make_series(params, certify, attacks), counts={"n": certify.size})


@pytest.fixture(scope="module")
def whole() -> Result:
    return result(PARAMS)


@pytest.fixture(scope="module")
def figures(whole) -> dict[str, str]:
    return draw(PARAMS, whole)


def labels(svg: str) -> str:
    """The comments matplotlib leaves where it draws a text."""
    return "".join(part.split("-->")[0] for part in svg.split("<!--")[1:])


@pytest.mark.slow
def test_every_figure_is_xml_with_a_title_and_nothing_from_outside(figures) -> None:
    assert set(figures) == {"certified", "reliability", "interval_width"}
    for svg in figures.values():
        root = ElementTree.fromstring(svg)
        assert root.tag == "{http://www.w3.org/2000/svg}svg"
        assert root.attrib["role"] == "img"
        assert root[0].tag.endswith("title")
        assert root[0].text == root.attrib["aria-label"]
        assert "<image" not in svg
        assert "url(http" not in svg


@pytest.mark.drill
@pytest.mark.slow
def test_the_same_stored_result_draws_the_same_bytes_and_leaves_no_settings_behind(whole, figures) -> None:
    before = dict(mpl.rcParams)
    assert draw(PARAMS, Result.model_validate_json(whole.model_dump_json())) == figures
    assert dict(mpl.rcParams) == before


@pytest.mark.slow
def test_what_was_compared_and_attacked_is_in_the_legend_and_nothing_else(figures) -> None:
    told = labels(figures["certified"])
    for label in (
        "certified, exactly",
        "gradient ascent",
        "worst Brier",
        "less in the label",
        "more in the prediction",
    ):
        assert label in told
    assert "ADMM" not in told
    plain = parameters(radii=[0.1, 0.25], bins=6)
    assert "attack:" not in labels(draw(plain, result(plain))["certified"])


def test_the_reliability_figure_names_its_radius_and_both_errors(whole, figures) -> None:
    told = labels(figures["reliability"])
    assert "certified at radius 0.25" in told
    for metric in ("ece", "cce"):
        assert f"{metric.upper()} {whole.estimates[f'{metric}[radius=0.25]'].value:.3f}" in told


@pytest.mark.slow
@pytest.mark.parametrize(
    ("radii", "how", "drawn"),
    [
        ([0.0, 0.25], {"sureness": -6.0}, {"certified"}),
        ([0.25], {}, {"certified", "reliability", "interval_width"}),
        ([0.0], {"n": 1, "sureness": 5.0}, {"certified", "reliability", "interval_width"}),
        ([0.25], {"errored": frozenset(range(40))}, set()),
    ],
    ids=["nobody certified", "one radius", "one example", "all errored"],
)
def test_figures_without_numbers_are_left_out(radii, how, drawn) -> None:
    params = parameters(radii=radii, bins=6)
    assert set(draw(params, result(params, **how))) == drawn


def test_the_convergence_of_admm_is_drawn_where_it_was_asked_for() -> None:
    params = parameters(radii=[0.0, 0.25], bins=5, solvers=["admm"])
    certify, attacks = samples(params, n=30)
    chosen = certified_at(params, certify, 0.25)
    given = chosen.lower, chosen.upper, chosen.correct, chosen.confidence
    outcome = admm_calibration_error(*given, params.bins, settings=GRID[:2], steps=320)
    series = make_series(params, certify, attacks, {0.25: outcome})
    assert series["admm"]["ece"][0] <= series["admm"]["value"] == outcome.value
    assert [len(one["values"]) for one in series["admm"]["assignments"]] == [10, 10, 10]
    cce = estimate(worst_value(chosen, params.bins), None, len(chosen))
    whole = Result(estimates={"cce[radius=0.25]": cce}, series=series, counts={})
    stored = Result.model_validate_json(whole.model_dump_json())
    drawn = draw(params, stored)
    for told in ("bounded confidence", "unique assignment", "valid assignment", "binary assignment", "l_inf", "exact"):
        assert told in labels(drawn["admm"])
    for step in ("step 0", "step 300", "step 320"):
        assert step in labels(drawn["admm_assignment"])
    assert "<image" not in drawn["admm_assignment"]
    assert not {"admm", "admm_assignment"} & set(draw(params, result(parameters(radii=[0.0, 0.25], bins=5), n=30)))
