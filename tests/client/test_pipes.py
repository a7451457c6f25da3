"""Commands whose output nobody reads to its end: as quiet as any other in a pipeline."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from app.cli import main
from app.cli.exits import ending_as_documented

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize(
    "arguments",
    [pytest.param(["resources", "list"], marks=pytest.mark.drill), ["perturb", "--help"]],
    ids=["resources", "help"],
)
def test_a_reader_that_has_had_enough_is_no_error(tmp_path: Path, arguments: list[str]) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    done = subprocess.run(
        [sys.executable, "-m", "seatrial", *arguments],
        stdout=writing,
        stderr=subprocess.PIPE,
        text=True,
        cwd=ROOT,
        env=os.environ | {"SEATRIAL_HOME": str(tmp_path)},
    )
    os.close(writing)
    assert (done.returncode, done.stderr) == (141, "")


def test_what_ends_as_documented_ends_so_too() -> None:
    """A verdict nobody read to its end is neither a pass nor a crash."""
    with pytest.raises(BrokenPipeError), ending_as_documented():
        raise BrokenPipeError


@pytest.mark.parametrize("command", [["keys", "list"], ["migrate"]], ids=" ".join)
def test_a_database_that_does_not_answer_is_told_in_a_line(monkeypatch: pytest.MonkeyPatch, command: list[str]) -> None:
    monkeypatch.setenv("SEATRIAL_DATABASE_URL", "postgresql://somebody:secret@127.0.0.1:1/seatrial")
    done = CliRunner().invoke(main, command)
    assert done.exit_code == 4
    assert done.stderr.startswith("Error: The database cannot be used: ")
    assert (done.stderr.count("\n"), "secret" in done.stderr, "Traceback" in done.output) == (1, False, False)
