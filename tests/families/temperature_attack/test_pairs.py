"""Pairs of which one part was left alone are told of, and others are not."""

import pyarrow as pa
import pytest

from tests.families.temperature_attack.fabricated import parameters, records
from workers.families.temperature_attack import estimates


def told(recipes: list[str], *, are_pairs: bool = True, **more: str) -> list[str]:
    params = parameters(recipes=recipes, arms=[], **more)
    done = records(params, n=20)
    for name, table in done.items():
        if are_pairs and "second_text" in table.column_names:
            at = table.schema.get_field_index("second_text")
            done[name] = table.set_column(at, "second_text", pa.array(["so it is"] * table.num_rows))
    flags = estimates.reduce(params, done, 0).flags
    return [flag.severity for flag in flags if flag.code == "one_part_edited"]


@pytest.mark.parametrize(
    ("recipes", "parts", "severity"),
    [
        (["textfooler"], "published", ["warning"]),
        (["textfooler", "deepwordbug"], "published", ["info"]),
        (["deepwordbug"], "published", []),
        (["textfooler"], "both", []),
        (["deepwordbug"], "premise", ["warning"]),
    ],
)
def test_a_part_that_no_recipe_edits_is_told(recipes: list[str], parts: str, severity: list[str]) -> None:
    assert told(recipes, pair_parts=parts) == severity
    assert told(recipes, pair_parts=parts, are_pairs=False) == []
