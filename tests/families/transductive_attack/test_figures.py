from xml.etree import ElementTree

import matplotlib as mpl
import pytest

from seatrial.contracts.estimates import Result
from seatrial.families.transductive_attack.params import game_of
from tests.families.transductive_attack.fabricated import parameters, records
from workers.families.transductive_attack.estimates import count, estimate_all
from workers.families.transductive_attack.figures import draw
from workers.families.transductive_attack.series import make_series

PARAMS = parameters(defences=["dent", "urejectron"], repeats=2)


def result(params, **how) -> Result:
    done = records(params, **({"n": 40} | how))
    return Result(estimates=estimate_all(params, done), series=make_series(params, done), counts=count(params, done))


@pytest.fixture(scope="module")
def whole() -> Result:
    return result(PARAMS)


@pytest.fixture(scope="module")
def figures(whole) -> dict[str, str]:
    return draw(PARAMS, whole)


def labels(svg: str) -> list[str]:
    """The comments matplotlib leaves where it draws a text."""
    return [part.split("-->")[0].strip() for part in svg.split("<!--")[1:]]


@pytest.mark.slow
def test_every_figure_is_xml_with_a_title_and_nothing_from_outside(figures) -> None:
    assert set(figures) == {"robustness", "iterations", "rejection"}
    for svg in figures.values():
        root = ElementTree.fromstring(svg)
        assert root.tag == "{http://www.w3.org/2000/svg}svg"
        assert root.attrib["role"] == "img"
        assert root[0].text == root.attrib["aria-label"]
        assert "<image" not in svg
        assert "url(http" not in svg


@pytest.mark.slow
def test_the_same_stored_result_draws_the_same_bytes_and_leaves_no_settings_behind(whole, figures) -> None:
    before = dict(mpl.rcParams)
    assert draw(PARAMS, Result.model_validate_json(whole.model_dump_json())) == figures
    assert dict(mpl.rcParams) == before


def test_every_defence_and_attack_asked_for_is_named_and_no_other(figures) -> None:
    told = set(labels(figures["robustness"]))
    assert {"DENT", "URejectron", "no attack", "AutoAttack, transferred", "PGD, transferred"} < told
    assert {"FPA", "GMSA-AVG", "GMSA-MIN", "static model, AutoAttack"} < told
    assert "AutoAttack on the defence" not in told
    assert {"FPA", "GMSA-AVG", "GMSA-MIN", "DENT", "URejectron"} < set(labels(figures["iterations"]))
    assert {"URejectron", "FPA, half clean", "no attack"} < set(labels(figures["rejection"]))
    assert "DENT" not in labels(figures["rejection"])


def test_the_line_of_the_static_model_says_under_which_attack() -> None:
    params = parameters(attacks=["transfer_pgd", "fpa"])
    assert "static model, PGD" in labels(draw(params, result(params))["robustness"])
    params = parameters(attacks=["fpa"])
    assert not [label for label in labels(draw(params, result(params))["robustness"]) if "static" in label]


ALL = ["clean", "transfer_autoattack", "transfer_pgd", "fpa", "gmsa_avg", "gmsa_min"]


@pytest.mark.parametrize(
    ("changes", "how", "drawn"),
    [
        ({}, {}, {"robustness", "iterations"}),
        ({"attacks": ["transfer_pgd"]}, {}, {"robustness"}),
        ({"iterations": 0}, {"n": 1}, {"robustness", "iterations"}),
        ({}, {"errored": {game_of("dent", attack, 0): set(range(40)) for attack in ALL}}, set()),
        ({}, {"failed": {game_of("dent", attack, 0): "no" for attack in ALL}}, set()),
        ({}, {"failed": {game_of("dent", attack, 0): "no" for attack in ALL[:-1]}}, {"robustness", "iterations"}),
    ],
    ids=["no rejection", "transfers alone", "one example", "all errored", "all failed", "one left"],
)
def test_what_is_not_there_is_not_drawn(changes, how, drawn) -> None:
    params = parameters(defences=["dent"], **changes)
    assert set(draw(params, result(params, **how))) == drawn


def test_where_clean_points_are_among_the_rejected_the_axis_says_so(whole, figures) -> None:
    assert "half of all points perturbed, half clean" in labels(figures["rejection"])
    alone = [one | {"clean_rejection_rate": None} for one in whole.series["rejection"]]
    told = labels(draw(PARAMS, whole.model_copy(update={"series": {"rejection": alone}}))["rejection"])
    assert {"FPA", "share wrong of the accepted"} < set(told)
    assert not [label for label in told if "clean" in label]


@pytest.mark.slow
def test_a_defence_of_which_no_iteration_left_anything_has_no_empty_frame(whole) -> None:
    rows = [
        row | {"points": [point | {"score": 0.0, "best": 0.0} for point in row["points"]]}
        for row in whole.series["iterations"]
    ]
    assert "iterations" not in draw(PARAMS, whole.model_copy(update={"series": {"iterations": rows}}))
    rows[0]["points"][0]["score"] = 0.1
    assert "iterations" in draw(PARAMS, whole.model_copy(update={"series": {"iterations": rows}}))


@pytest.mark.slow
def test_as_many_defences_as_may_be_asked_for_are_drawn_within_a_page() -> None:
    names = ["identity", "tent", "dent", "rmc", "dann", "tadv", "urejectron", "mine"]
    params = parameters(defences=names, attacks=[*ALL[1:], "defence_autoattack"])
    figures = draw(params, result(params, n=12, rejecting=frozenset({"urejectron", "mine"})))
    told = {"static model", "TENT", "DENT", "RMC", "DANN", "TADV", "URejectron", "mine"}
    assert told < set(labels(figures["robustness"]))
    assert told < set(labels(figures["iterations"]))
    for svg in figures.values():
        assert float(ElementTree.fromstring(svg).attrib["width"].removesuffix("pt")) <= 13 * 72
