"""The example repository is gated by the commands of its page, beside a package ``app`` of its own."""

import os
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path
from xml.etree import ElementTree

import pytest

from app.cli.gate_files import read_gate_file
from tests.packaging.pages import blocks
from tests.servers import ROOT, die_with_parent

EXAMPLE = "examples/gate-in-a-repository"
QUICK = {"OMP_NUM_THREADS": "1", "SEATRIAL_TORCH_THREADS": "1", "SEATRIAL_POLL_S": "0.05"}


def run(folder: Path, *command: str) -> subprocess.CompletedProcess[str]:
    """Run a command in the repository, with the ``seatrial`` and the ``python`` of the tests and little else."""
    path = os.pathsep.join([sysconfig.get_path("scripts"), os.environ["PATH"]])
    return subprocess.run(
        command,
        cwd=folder,
        env={"PATH": path, "HOME": str(folder.parent), **QUICK},
        capture_output=True,
        text=True,
        timeout=200,
        preexec_fn=die_with_parent,
    )


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a copy in which the page's commands have been run."""
    folder = tmp_path_factory.mktemp("example") / "repository"
    shutil.copytree(ROOT / EXAMPLE, folder, ignore=shutil.ignore_patterns("__pycache__", "model", "data", "reports"))
    (commands,) = blocks(f"{EXAMPLE}/README.md", "sh")
    done = run(folder, "bash", "-e", "-c", commands)
    assert done.returncode == 0, done.stdout + done.stderr
    (folder.parent / "said").write_text(done.stdout)
    return folder


@pytest.mark.drill
@pytest.mark.slow
def test_the_page_s_commands_pass_the_gate(repository: Path) -> None:
    assert (repository.parent / "said").read_text().splitlines()[-1].startswith("May ship: ")
    suite = ElementTree.parse(repository / "reports" / "seatrial.xml")
    found = suite.find(".//property[@name='verdict']")
    assert found is not None
    assert found.get("value") == "passed"
    assert "uncertainty_span" in (repository / "reports" / "seatrial.html").read_text()


@pytest.mark.drill
@pytest.mark.slow
def test_the_repository_s_own_package_is_the_one_imported_there(repository: Path) -> None:
    # Ours has no network.
    program = "import app, app.network; print(app.__file__); print(app.network.__file__)"
    shown = run(repository, "env", "PYTHONPATH=.", sys.executable, "-c", program)
    found = [Path(repository, line).resolve() for line in shown.stdout.splitlines()]
    assert found == [repository / "app" / "__init__.py", repository / "app" / "network.py"]


@pytest.mark.drill
@pytest.mark.slow
def test_the_command_is_a_module_too(repository: Path) -> None:
    done = run(repository, "env", "PYTHONPATH=.", sys.executable, "-m", "seatrial", "gate", "--help")
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("Usage: seatrial gate ")


def test_the_policy_says_what_is_run_and_what_must_hold() -> None:
    file = read_gate_file(ROOT / EXAMPLE / "seatrial.yaml")
    assert len(file.checks or []) == 1
    assert len(file.rules) == 3
    assert None not in (file.samples, file.seed)


def test_its_package_has_the_name_of_ours() -> None:
    assert (ROOT / EXAMPLE / "app" / "__init__.py").is_file()
    assert (ROOT / "app" / "__init__.py").is_file()
