"""What the documentation says of the family is what the code has."""

import dataclasses
import importlib
import json
import re
from fractions import Fraction
from pathlib import Path

import pytest

from seatrial.contracts.audits import AuditCreate
from seatrial.families.transductive_attack.params import NEEDS_TRAINING, SHIPPED

TEXT = (Path(__file__).parents[3] / "docs" / "families.md").read_text()
SECTION = TEXT.split("## transductive_attack\n")[1].split("\n## ")[0]
WITH_A_PRESET = ("mean", "std", "milestones")


def written(value: object) -> str:
    """A value of a preset as the table has it, but for fractions."""
    return str(value).lower() if isinstance(value, bool) else f"{value:g}" if isinstance(value, float) else str(value)


def read(cell: str) -> str:
    return f"{float(Fraction(cell)):g}" if re.fullmatch(r"\d+/255", cell) else cell


@pytest.mark.parametrize("name", SHIPPED)
def test_the_table_has_every_hyper_parameter_of_every_preset(name: str) -> None:
    presets = importlib.import_module(f"workers.defences.{name}").PRESETS
    told = {}
    for line in SECTION.splitlines():
        if line.startswith(f"| `{name}` | `"):
            _, parameter, *values = line.strip("| ").split(" | ")
            told[parameter.strip("`")] = [read(value) for value in values]
    assert told == {
        field.name: [written(getattr(presets[preset], field.name)) for preset in ("mnist", "cifar10", "small")]
        for field in dataclasses.fields(presets["small"])
        if field.name not in WITH_A_PRESET
    }


def test_the_example_is_a_request_that_is_accepted() -> None:
    (body,) = re.findall(r"/v1/audits -H .*? -d '(.*?)'", SECTION, re.DOTALL)
    asked = AuditCreate.model_validate(json.loads(body))
    assert [one.name for one in asked.checks[0].defences] == ["dent", "rmc"]


def test_defences_that_require_training_data_are_named() -> None:
    (told,) = re.findall(r"labelled examples \((.*?)\) require `training_dataset`", SECTION)
    assert told == ", ".join(f"`{name}`" for name in NEEDS_TRAINING)
