"""The workflows and hooks run the commands of a developer's machine, and are what their readers expect."""

import json
import re
import subprocess
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml
from jsonschema.validators import validator_for

from tests.packaging.pages import ROOT
from tests.servers import package_folder

WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
PYTHONS = ["3.11", "3.12", "3.13"]


def workflow(name: str) -> dict[str, Any]:
    """Return a workflow. GitHub's key `on` is a boolean to YAML 1.1, and a string to GitHub."""
    read = yaml.safe_load((ROOT / ".github" / "workflows" / name).read_text())
    return {"on" if key is True else key: value for key, value in read.items()}


def test_there_are_workflows() -> None:
    assert [path.name for path in WORKFLOWS] == ["ci.yml", "nightly.yml", "release.yml"]


@pytest.mark.parametrize("name", [path.name for path in WORKFLOWS])
def test_github_finds_what_its_schema_describes(name: str) -> None:
    folder = package_folder("check_jsonschema") / "builtin_schemas" / "vendor"
    described = json.loads((folder / "github-workflows.json").read_text())
    validator = validator_for(described)(described)
    assert [error.message for error in validator.iter_errors(workflow(name))] == []
    assert list(validator.iter_errors({**workflow(name), "jobs": {"a": {"steps": 1}}})) != []


@pytest.mark.parametrize("name", [path.name for path in WORKFLOWS])
def test_every_job_runs_a_target_of_the_makefile_and_little_else(name: str) -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    for job in workflow(name)["jobs"].values():
        (command,) = (step["run"] for step in job["steps"] if "run" in step)
        assert command.partition(" ")[0] == "make"
        assert command.removeprefix("make ") in targets
        assert job["timeout-minutes"] <= 120
    assert workflow(name)["permissions"] == {"contents": "read"}


def test_every_python_is_checked_tested_and_shown() -> None:
    jobs = workflow("ci.yml")["jobs"]
    assert [step["run"] for job in jobs.values() for step in job["steps"] if "run" in step] == [
        *("make check", "make test", "make demo"),
    ]
    for job in jobs.values():
        assert job["strategy"]["matrix"]["python"] == PYTHONS


def test_the_package_says_which_pythons_were_run() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    prefix = "Programming Language :: Python :: "
    named = [one.removeprefix(prefix) for one in project["classifiers"] if one.startswith(prefix + "3.")]
    assert named == PYTHONS
    assert project["requires-python"] == ">=3.11,<3.14"


HOOKS = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text())["repos"]


def test_hooks_fetch_nothing() -> None:
    assert [repository["repo"] for repository in HOOKS] == ["local"]
    for hook in HOOKS[0]["hooks"]:
        assert hook["language"] == "system"
        assert hook["entry"].startswith(".venv/bin/")
        assert (ROOT / hook["entry"].split()[0]).exists()


def test_hooks_run_what_the_check_runs() -> None:
    called = set(re.findall(r'"\$bin/([\w-]+)"', (ROOT / "scripts" / "check").read_text()))
    assert called == {"ruff", "mypy", "vulture", "lint-imports"}
    assert called <= {hook["entry"].split()[0].removeprefix(".venv/bin/") for hook in HOOKS[0]["hooks"]}


@pytest.mark.parametrize("hook", ["ruff-check", "ruff-format"])
def test_a_hook_that_is_given_files_looks_at_them(hook: str, tmp_path: Path) -> None:
    (entry,) = (one["entry"] for one in HOOKS[0]["hooks"] if one["id"] == hook)
    good = subprocess.run([*entry.split(), "scripts/generate_docs.py"], cwd=ROOT, capture_output=True, text=True)
    assert good.returncode == 0, good.stdout + good.stderr
    bad = tmp_path / "bad.py"
    bad.write_text("import os\nx = ( 1 )\n")
    done = subprocess.run([*entry.split(), str(bad)], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 1
