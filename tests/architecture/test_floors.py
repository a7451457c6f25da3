"""Seatrial beside packages of other people that are called as its floors are."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.servers import ROOT

HEAVY = "('app', 'workers', 'torch', 'fastapi', 'sqlalchemy', 'celery')"


pytestmark = pytest.mark.slow


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A repository that has an ``app`` and ``workers`` of its own, and is first on the path."""
    for name in ("app", "workers"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text(f"OURS = {name!r}\n")
    return tmp_path


def _python(repository: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    # A checkout that is not installed is on the path as well, after the repository.
    path = os.pathsep.join((".", str(ROOT)))
    environment = {**os.environ, "PYTHONPATH": path, "SEATRIAL_HOME": str(repository / "home")}
    command = [sys.executable, *arguments]
    return subprocess.run(command, cwd=repository, env=environment, capture_output=True, text=True)


def test_the_client_needs_neither_floor(repository: Path) -> None:
    program = (
        "import sys, app, workers\n"
        "from seatrial import AsyncClient, Client, __version__\n"
        "assert (app.OURS, workers.OURS) == ('app', 'workers') and Client is not AsyncClient and __version__\n"
        "for name in ('app', 'workers'): del sys.modules[name]\n"
        f"print([name for name in {HEAVY} if name in sys.modules])\n"
    )
    done = _python(repository, "-c", program)
    assert (done.stdout, done.stderr) == ("[]\n", "")


@pytest.mark.parametrize("arguments", [["gate", "--help"], pytest.param(["migrate"], marks=pytest.mark.drill)])
def test_the_command_finds_its_own_floors(repository: Path, arguments: list[str]) -> None:
    done = _python(repository, "-m", "seatrial", *arguments)
    assert done.returncode == 0, done.stderr


def test_a_process_that_is_started_finds_them_too(repository: Path) -> None:
    done = _python(repository, "-m", "seatrial.floors", "workers.resources", "--help")
    assert done.returncode == 0, done.stderr
    assert "usage" in done.stdout.lower()


def test_only_the_floors_are_pinned(repository: Path) -> None:
    (repository / "shown.py").write_text("import app, json; print(app.__file__, json.__name__)\n")
    done = _python(repository, "-m", "seatrial.floors", "shown")
    assert done.stdout == f"{ROOT / 'app' / '__init__.py'} json\n", done.stderr
