"""What the README says of settings, targets and files is so."""

import json
import re
from pathlib import Path

import pytest
from pydantic import ValidationError

from app.policies import presets
from seatrial.contracts.models import ModelManifest
from seatrial.store.settings import Settings

ROOT = Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text()


def test_every_setting_is_described_as_it_is() -> None:
    rows = dict(re.findall(r"^\| `(SEATRIAL_[A-Z_]+)` \| .*? \| (.*) \|$", README, re.MULTILINE))
    described = {f"SEATRIAL_{name.upper()}": field.description for name, field in Settings.model_fields.items()}
    assert rows == described


def test_every_default_is_the_real_one() -> None:
    shown = dict(re.findall(r"^\| `SEATRIAL_([A-Z_]+)` \| `?([^`|]*?)`? \| ", README, re.MULTILINE))
    for name, field in Settings.model_fields.items():
        default = "" if field.default in ("", None, [], {}) else str(field.default)
        assert shown[name.upper()].strip() == default, name


def test_the_make_targets_exist() -> None:
    targets = re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert set(re.findall(r"make ([a-z]+)", README)) <= set(targets)


def test_the_pictures_and_files_are_there() -> None:
    for path in re.findall(r"\]\(([^)#:]+)\)", README):
        assert (ROOT / path).exists(), path


def test_nothing_is_left_to_fill_in() -> None:
    assert "@@" not in README


def test_the_shipped_policies_are_described_as_they_are() -> None:
    assert presets.describe().strip() in (ROOT / "docs" / "gate.md").read_text()


def test_what_other_pages_link_to_is_there() -> None:
    pages = [ROOT / "docs" / "gate.md", ROOT / "docs" / "families.md", ROOT / "docs" / "ci" / "README.md"]
    for page in pages:
        for path in re.findall(r"\]\(([^)#:]+)\)", page.read_text()):
            assert (page.parent / path).exists(), (page.name, path)


def test_the_templates_of_endpoints_fit_the_tasks_said() -> None:
    (block,) = re.findall(r"^```json\n(\{\"inputs\".*?)^```$", README, re.DOTALL | re.MULTILINE)
    tasks = ["text-pair-classification"] * 2 + ["token-classification"] * 2
    for task, line in zip(tasks, block.splitlines(), strict=True):
        architecture = {"kind": "endpoint", "url": "https://models.example.com/ask", "request": json.loads(line)}
        said = {"name": "m", "version": "1", "task": task, "labels": ["a", "b"], "architecture": architecture}
        assert ModelManifest.model_validate(said).architecture is not None
        with pytest.raises(ValidationError):
            ModelManifest.model_validate({**said, "task": "text-classification"})
