"""The page of the families describes every number a policy can ask about, every attacker and every flag."""

import re
from pathlib import Path

import pytest

from seatrial.contracts.noise import ATTACKERS
from seatrial.contracts.registry import families, metrics_of

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "families.md").read_text()
SECTIONS = {section.split()[0].rstrip(","): section for section in PAGE.split("\n## ")[1:]}


@pytest.mark.parametrize("family", families())
def test_every_number_is_in_the_table_of_its_family(family: str) -> None:
    text = SECTIONS[family] + (SECTIONS["robust_accuracy"] if "robust_accuracy" in SECTIONS[family] else "")
    cells = " ".join(re.findall(r"^\| (`.*?) \| ", text, re.MULTILINE))
    described = set(re.findall(r"`([a-z_0-9]+)", cells))
    assert {metric.name for metric in metrics_of(family)} <= described


def test_every_attacker_is_described_in_both_readings() -> None:
    rows = re.findall(r"^\| `([a-z_]+)` \| .+ \| .+ \| .+ \|$", SECTIONS["low_level_attack"], re.MULTILINE)
    assert tuple(rows) == ATTACKERS


def test_every_flag_about_noise_is_described() -> None:
    source = (ROOT / "workers" / "families" / "low_level_attack" / "flags.py").read_text()
    described = re.findall(r"^\| (`.*?) \| ", SECTIONS["low_level_attack"].partition("### Flags")[2], re.MULTILINE)
    assert set(re.findall(r'code="([a-z_]+)"', source)) == set(re.findall("`([a-z_]+)`", " ".join(described)))
