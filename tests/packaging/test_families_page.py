"""The page of the families describes every number a policy can ask about."""

import re
from pathlib import Path

import pytest

from app.contracts.families import METRICS

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "families.md").read_text()
SECTIONS = {section.split()[0].rstrip(","): section for section in PAGE.split("\n## ")[1:]}


@pytest.mark.parametrize("family", METRICS)
def test_every_number_is_in_the_table_of_its_family(family: str) -> None:
    text = SECTIONS[family] + (SECTIONS["robust_accuracy"] if "robust_accuracy" in SECTIONS[family] else "")
    cells = " ".join(re.findall(r"^\| (`.*?) \| ", text, re.MULTILINE))
    described = set(re.findall(r"`([a-z_0-9]+)", cells))
    assert {metric.name for metric in METRICS[family]} <= described
