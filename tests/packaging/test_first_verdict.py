"""From a clone to the first verdict on one's own model, in the time that the README says."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.servers import ROOT, die_with_parent

MOST_S = 300


@pytest.mark.drill
@pytest.mark.slow
def test_a_first_verdict_takes_less_than_five_minutes(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "scripts/first_verdict.py", "--keep", str(tmp_path / "first")],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=4 * MOST_S,
        preexec_fn=die_with_parent,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    found = re.search(r"^first verdict \((\w+)\) after (\d+) s: ", done.stdout, re.MULTILINE)
    assert found, done.stdout
    assert found[1] in ("passed", "failed", "inconclusive")
    assert int(found[2]) <= MOST_S, done.stdout
