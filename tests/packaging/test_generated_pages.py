"""The pages made from the code are up to date and leave nothing out."""

import re
import subprocess
import sys
from pathlib import Path

import click
import pytest

from app.cli import main
from scripts import generate_docs
from seatrial.store.settings import Settings
from tests.packaging.pages import ROOT, read

SETTINGS = read("docs/settings.md")


def test_the_pages_are_what_the_script_writes() -> None:
    assert generate_docs.stale() == [], "run: .venv/bin/python -m scripts.generate_docs"


def test_a_page_that_is_out_of_date_is_named(tmp_path: Path) -> None:
    for name, make in generate_docs.PAGES.items():
        (tmp_path / name).write_text(make())
    assert generate_docs.stale(tmp_path) == []
    (tmp_path / "cli.md").write_text((tmp_path / "cli.md").read_text().replace("verdict", "opinion"))
    (tmp_path / "settings.md").unlink()
    assert generate_docs.stale(tmp_path) == ["settings.md", "cli.md"]


def test_every_setting_is_described_as_it_is() -> None:
    rows = dict(re.findall(r"^\| `(SEATRIAL_[A-Z_]+)` \| .*? \| (.*) \|$", SETTINGS, re.MULTILINE))
    described = {f"SEATRIAL_{name.upper()}": field.description for name, field in Settings.model_fields.items()}
    assert rows == described


def test_every_default_is_the_real_one() -> None:
    shown = dict(re.findall(r"^\| `SEATRIAL_([A-Z_]+)` \| `?([^`|]*?)`? \| ", SETTINGS, re.MULTILINE))
    for name, field in Settings.model_fields.items():
        default = "" if field.default in ("", None, [], {}) else str(field.default)
        assert shown[name.upper()].strip() == default, name


def test_every_section_begins_at_a_setting() -> None:
    assert set(generate_docs.SECTIONS) <= set(Settings.model_fields)
    assert next(iter(Settings.model_fields)) in generate_docs.SECTIONS


def test_every_variable_read_anywhere_is_on_the_page() -> None:
    files = [
        *(path for folder in ("app", "seatrial", "workers") for path in (ROOT / folder).rglob("*.py")),
        *(path for path in (ROOT / "scripts").iterdir() if path.is_file()),
        *(ROOT / "tests" / name for name in ("conftest.py", "nursery.py", "servers.py", "e2e/conftest.py")),
        *(ROOT / name for name in ("docker-compose.yml", "Dockerfile", ".env.example", "Makefile")),
    ]
    read_somewhere = {name for path in files for name in re.findall(r"\bSEATRIAL_[A-Z_]*[A-Z]\b", path.read_text())}
    listed = set(re.findall(r"^\| `(SEATRIAL_[A-Z_]+)` \|", SETTINGS, re.MULTILINE))
    settings = {f"SEATRIAL_{name.upper()}" for name in Settings.model_fields}
    assert read_somewhere | settings == listed
    assert set(generate_docs.OTHER_VARIABLES) == listed - settings


def _leaves(command: click.Command, names: tuple[str, ...] = ()) -> dict[tuple[str, ...], click.Command]:
    if not isinstance(command, click.Group):
        return {names: command}
    return {
        path: leaf for name, child in command.commands.items() for path, leaf in _leaves(child, (*names, name)).items()
    }


def test_every_command_and_option_is_on_the_page() -> None:
    sections = dict(re.findall(r"^## seatrial (.+?)\n(.*?)(?=^## |\Z)", read("docs/cli.md"), re.MULTILINE | re.DOTALL))
    leaves = {" ".join(names): command for names, command in _leaves(main).items()}
    assert set(sections) == set(leaves)
    for name, command in leaves.items():
        options = {opt for one in command.params if isinstance(one, click.Option) for opt in one.opts}
        assert set(re.findall(r"`(-[a-z-]+)`", sections[name])) >= options, name
        assert options or not re.search(r"^\| `-", sections[name], re.MULTILINE), name


@pytest.mark.drill
def test_the_script_says_so_with_its_status() -> None:
    done = subprocess.run([sys.executable, "-m", "scripts.generate_docs", "--check"], cwd=ROOT, capture_output=True)
    assert done.returncode == 0, done.stdout
