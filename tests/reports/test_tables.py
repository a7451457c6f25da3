"""How numbers are laid out: matrices by two qualifiers, rows for many values."""

from seatrial.contracts.estimates import split_name
from seatrial.reporting.schemas import ReportEstimate
from seatrial.reporting.tables import EstimateTable, arrange, arrange_counts


def number(name: str, *, n: int = 100, method: str = "gaffke", value: float = 0.5) -> ReportEstimate:
    low = None if method == "none" else value
    return ReportEstimate.model_validate(
        {"name": f"f.{name}", "value": value, "low": low, "high": low, "n": n, "method": method}
        | {"unit": "1", "better": "lower", "description": f"What {name.partition('[')[0]} is."}
    )


def values(table: EstimateTable) -> dict[str, list[float | None]]:
    return {row.heading: [None if cell is None else cell.value for cell in row.cells] for row in table.rows}


def test_two_qualifiers_make_a_matrix_with_gaps() -> None:
    found = arrange(
        [
            number("accuracy[arm=calibrated,recipe=pwws]", value=0.1),
            number("accuracy[arm=as_served,recipe=deepwordbug]", value=0.7),
            number("accuracy[arm=as_served,recipe=pwws]", value=0.6),
            number("queries[arm=as_served,recipe=deepwordbug]"),
            number("queries[arm=as_served,recipe=pwws]"),
        ]
    )
    assert [table.title for table in found] == ["accuracy", "queries"]
    assert found[0].corner == "arm"
    assert found[0].columns == ["PWWS", "DeepWordBug"]
    assert values(found[0]) == {"as served": [0.6, 0.7], "calibrated": [0.1, None]}
    assert found[0].descriptions == ["What accuracy is."]


def test_a_qualifier_with_one_value_is_said_once() -> None:
    (table,) = arrange(
        [
            number(f"{name}[arm={arm},recipe=pwws]")
            for name in ("accuracy", "queries")
            for arm in ("as_served", "optimized")
        ]
    )
    assert table.title == "By arm: recipe PWWS"
    assert table.columns == ["as served", "optimized"]
    assert list(values(table)) == ["accuracy", "queries"]


def test_many_values_are_rows() -> None:
    arms = ["optimized", "calibrated", "as_served", "platt_vector", "transfer"]
    (table,) = arrange([number(f"{name}[arm={arm}]") for name in ("ece", "mce") for arm in arms])
    assert table.columns == ["ece", "mce"]
    assert table.rows[0].heading == "as served"
    assert len(table.rows) == 5
    matrix = arrange([number(f"a[arm={arm},recipe=r{n}]") for arm in arms[:2] for n in range(6)])[0]
    assert (matrix.corner, len(matrix.columns), len(matrix.rows)) == ("recipe", 2, 6)


def test_what_numbers_rest_on_is_said_as_seldom_as_can_be() -> None:
    same = [number(f"{name}[arm={arm}]") for name in ("ece", "mce") for arm in ("over", "under")]
    assert arrange(same)[0].basis == "100 examples; 95% intervals by Gaffke's bound"
    by_row = [number(f"ece[arm={arm}]") for arm in "ab"] + [number(f"t[arm={arm}]", method="none") for arm in "ab"]
    table = arrange(by_row)[0]
    assert table.basis == ""
    assert [row.basis for row in table.rows] == [
        "100 examples; 95% intervals by Gaffke's bound",
        "100 examples; no intervals",
    ]
    by_column = [number(f"{name}[arm={arm}]", n=n) for name, n in (("ece", 5), ("t", 6)) for arm in "abcde"]
    table = arrange(by_column)[0]
    assert table.descriptions[0] == "ece: What ece is. (5 examples; 95% intervals by Gaffke's bound.)"
    assert table.is_said(table.rows[0], 0)
    mixed = arrange([number("ece[arm=a]", n=1), number("ece[arm=b]", n=2)])[0]
    assert not mixed.is_said(mixed.rows[0], 0)


def test_a_value_may_hold_commas() -> None:
    name = "temperature_attack.illusion_gap[arm=a,recipe=textfooler (variant: minilm, glove)]"
    assert split_name(name) == ("illusion_gap", {"arm": "a", "recipe": "textfooler (variant: minilm, glove)"})


def test_counts_of_parts_are_tables() -> None:
    counts = {"n": 9, "robust[arm=as_served,recipe=pwws]": 4, "flipped[arm=as_served,recipe=pwws]": 1}
    whole, tables = arrange_counts(counts | {"robust[arm=calibrated,recipe=pwws]": 2, "served_only[recipe=pwws]": 3})
    assert whole == {"n": 9}
    assert [(table.corner, table.columns) for table in tables] == [
        ("arm, recipe", ["robust", "flipped"]),
        ("recipe", ["served_only"]),
    ]
    assert tables[0].rows == [("as served, PWWS", [4, 1]), ("calibrated, PWWS", [2, None])]
