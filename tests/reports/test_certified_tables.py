"""The tables of a report on certificates: radii as rows, in order, and what guarantees nothing apart."""

from typing import Any

import pytest

from seatrial.reporting.schemas import ReportEstimate
from seatrial.reporting.tables import EstimateTable, arrange
from tests.reports import fabricated_certificates
from tests.reports.conftest import Reports


def tables(reports: Reports, **measured: Any) -> dict[str, EstimateTable]:
    audit_id = reports.own(fabricated_certificates.finished(reports.database, reports.store, **measured))
    return {table.title: table for table in arrange(reports.compose(audit_id).checks[0].estimates)}


def test_radii_are_rows_in_the_order_of_their_size(reports: Reports) -> None:
    found = tables(reports)
    for title in ("All examples, by radius", "Examples certified at the radius", "interval_width"):
        headings = [row.heading for row in found[title].rows]
        assert headings == ["0 (no attacker)", "0.05", "0.1", "0.15", "0.2", "0.25", "0.5", "1"], title


def test_radii_are_ordered_by_size_whatever_the_order_they_come_in() -> None:
    names = ["cce[radius=1]", "cce[radius=0.1]", "cce[radius=0]", "cce[radius=0.05]", "cce[radius=10]"]
    told = {"value": 0.5, "low": None, "high": None, "n": 9, "method": "none", "unit": "1"}
    estimates = [
        ReportEstimate.model_validate({"name": f"f.{name}", "better": "lower", "description": "", **told})
        for name in names
    ]
    (table,) = arrange(estimates)
    assert [row.heading for row in table.rows] == ["0 (no attacker)", "0.05", "0.1", "1", "10"]


def test_what_guarantees_nothing_stands_apart_from_what_does(reports: Reports) -> None:
    found = tables(reports)
    assert found["All examples, by radius"].columns == ["certified_accuracy", "certified_share", "cce_system"]
    assert found["Examples certified at the radius"].columns == ["cce", "cbs", "ece"]
    assert found["The same examples, for comparison: no guarantees"].columns == ["acce", "dece", "brier_ece"]
    assert found["Examples certified at the radius"].rows[5].basis == "900 examples; 95% intervals by Gaffke's bound"


def test_numbers_of_two_qualifiers_have_radii_as_rows(reports: Reports) -> None:
    table = tables(reports, radii=(0.1, 0.25))["interval_width"]
    assert table.columns == ["CDF certificate", "DKW certificate", "Standard certificate"]
    assert [row.heading for row in table.rows] == ["0.1", "0.25"]
    assert [cell.value for cell in table.rows[1].cells if cell] == pytest.approx([0.0825, 0.095, 0.12])


def test_attacks_at_one_radius_are_rows_of_a_table_that_names_it(reports: Reports) -> None:
    attacked = {"ace_lower_true": 0.05, "ace_raise_predicted": 0.04}
    table = tables(reports, attacked=attacked)["Under attack: radius 0.25"]
    assert table.columns == ["ece", "brier"]
    assert [row.heading for row in table.rows] == [
        "confidence in the true class lowered",
        "confidence in the predicted class raised",
    ]
    alone = tables(reports, attacked={"ace_lower_true": 0.05})["Under attack: radius 0.25"]
    assert [row.heading for row in alone.rows] == ["confidence in the true class lowered"]


def test_what_is_certified_of_all_classes_stands_with_what_it_is_over() -> None:
    radii = ("0.1", "0.25")
    names = [
        f"{name}[uncertainty={one},radius={radius}]"
        for name in ("certified_span", "attacked_span")
        for one in ("entropy", "smoothed_entropy")
        for radius in radii
    ]
    plain = ("cce", "certified_ks", "cce_classwise", "certified_coverage")
    names += [f"{name}[radius={radius}]" for name in plain for radius in radii]
    told = {"value": 0.5, "low": None, "high": None, "n": 9, "method": "none", "unit": "1"}
    estimates = [
        ReportEstimate.model_validate({"name": f"f.{name}", "better": "lower", "description": "", **told})
        for name in names
    ]
    found = {table.title: table for table in arrange(estimates)}
    assert {title: table.columns for title, table in found.items()} == {
        "certified_span": ["entropy", "mean entropy of a draw"],
        "attacked_span": ["entropy", "mean entropy of a draw"],
        "Examples certified at the radius": ["cce", "certified_ks"],
        "All examples, by radius": ["cce_classwise"],
        "Conformal prediction sets, on the half judged": ["certified_coverage"],
    }
    assert all([row.heading for row in table.rows] == list(radii) for table in found.values())
