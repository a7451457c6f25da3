"""The pages of metrics and flags say what the families declare."""

import os
import subprocess
import sys
from pathlib import Path

from seatrial.contracts.flags import SHARED
from seatrial.contracts.registry import families

ROOT = Path(__file__).resolve().parents[2]
SCRIPT = ROOT / "scripts" / "family_pages.py"


def run(*arguments: str) -> "subprocess.CompletedProcess[str]":
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    return subprocess.run(
        [sys.executable, SCRIPT, *arguments], cwd=ROOT, env=environment, capture_output=True, text=True
    )


def test_the_pages_are_up_to_date() -> None:
    checked = run("--check")
    assert (checked.returncode, checked.stdout, checked.stderr) == (0, "", "")


def test_every_metric_and_every_flag_has_its_row() -> None:
    metrics, flags = ((ROOT / "docs" / name).read_text() for name in ("metrics.md", "flags.md"))
    for spec in families().values():
        for metric in spec.metrics:
            keys = ",".join(f"{key}=" for key in metric.qualifiers)
            assert f"| `{metric.name}{f'[{keys}]' if keys else ''}` |" in metrics
        for flag in spec.flags:
            assert f"| `{flag.code}` | {', '.join(flag.severities)} |" in flags
    for flag in SHARED:
        assert f"| `{flag.code}` | {', '.join(flag.severities)} |" in flags
