"""Commands whose output nobody reads to its end: as quiet as any other in a pipeline."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

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
