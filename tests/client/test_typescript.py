"""Types that openapi-typescript makes of our document: they check, and they are not ``any``."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from app.main import create_app
from seatrial.store.settings import Settings

PACKAGES = ("openapi-typescript@7.13.0", "typescript@5.9.3")
PROGRAM = Path(__file__).with_name("audit.ts")
"""What somebody may write with the types; lines that must not check say so."""


@pytest.mark.drill
def test_types_for_typescript_check_and_tell_right_from_wrong(tmp_path: Path) -> None:
    npm = shutil.which("npm")
    installed = npm and _run(tmp_path, npm, "install", "--no-audit", "--no-fund", "--loglevel=error", *PACKAGES)
    if not installed or installed.returncode:
        print("\n*** NO NPM, OR NO REGISTRY: types for TypeScript were not made ***\n", file=sys.__stderr__)
        pytest.skip("npm, and a registry it reaches, have openapi-typescript")
    (tmp_path / "openapi.json").write_text(json.dumps(create_app(Settings(home=tmp_path / "home")).openapi()))
    binaries = tmp_path / "node_modules" / ".bin"
    # The command of docs/rest.md.
    made = _run(
        tmp_path,
        *(str(binaries / "openapi-typescript"), "openapi.json", "-o", "api.d.ts", "--default-non-nullable=false"),
    )
    assert made.returncode == 0, made.stdout + made.stderr
    shutil.copy(PROGRAM, tmp_path)
    checked = _run(tmp_path, str(binaries / "tsc"), "--strict", "--noEmit", "api.d.ts", PROGRAM.name)
    assert checked.returncode == 0, checked.stdout
    # Without what is said of them, its two wrong lines are all that does not check.
    wrong = tmp_path / PROGRAM.name
    wrong.write_text(wrong.read_text().replace("@ts-expect-error", ""))
    refused = _run(tmp_path, str(binaries / "tsc"), "--strict", "--noEmit", PROGRAM.name)
    assert refused.stdout.count("error TS") == 2, refused.stdout


def _run(folder: Path, *command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=180, check=False)
