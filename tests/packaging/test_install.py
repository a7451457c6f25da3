"""What `pip install` brings, and what importing the API does."""

import re
import shutil
import subprocess
import sys
import tomllib
import zipfile
from importlib.metadata import PackageNotFoundError, requires
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parents[2]
HEAVY = {"torch", "transformers", "textattack", "matplotlib", "scipy", "scikit-learn"}


def _names(requirements: list[str]) -> set[str]:
    return {re.match(r"[A-Za-z0-9._-]+", one)[0].lower() for one in requirements}  # type: ignore[index]


@pytest.fixture(scope="module")
def project() -> dict[str, object]:
    return dict(tomllib.loads((ROOT / "pyproject.toml").read_text())["project"])


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> zipfile.ZipFile:
    """Build the wheel from a copy of what is in the source, offline."""
    source = tmp_path_factory.mktemp("source")
    for name in ("pyproject.toml", "README.md", "LICENSE", "alembic.ini"):
        shutil.copy(ROOT / name, source)
    for name in ("seatrial", "app", "workers", "alembic"):
        shutil.copytree(ROOT / name, source / name, ignore=shutil.ignore_patterns("__pycache__"))
    out = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "pip", "wheel", "--no-deps", "--no-index", "-q", "-w", str(out), str(source)]
    done = subprocess.run([*command, "--no-build-isolation"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return zipfile.ZipFile(next(out.glob("*.whl")))


def test_the_api_installs_without_torch(project: dict[str, object]) -> None:
    assert not _names(project["dependencies"]) & HEAVY  # type: ignore[arg-type]
    assert "torch" in _names(project["optional-dependencies"]["worker"])  # type: ignore[index]


@pytest.mark.slow
def test_the_wheel_says_the_same(wheel: zipfile.ZipFile) -> None:
    metadata = next(name for name in wheel.namelist() if name.endswith("METADATA"))
    required = [
        line.removeprefix("Requires-Dist: ")
        for line in wheel.read(metadata).decode().splitlines()
        if line.startswith("Requires-Dist: ") and "extra ==" not in line
    ]
    assert len(required) > 10
    assert not _names(required) & HEAVY


@pytest.mark.slow
def test_the_wheel_holds_what_is_no_python(wheel: zipfile.ZipFile) -> None:
    names = wheel.namelist()
    assert {"app/reports/templates/report.html", "app/reports/templates/report.css"} <= set(names)
    tables = {f"seatrial/noise/data/{path.name}" for path in (ROOT / "seatrial/noise/data").iterdir()}
    assert len(tables) > 5
    assert tables | {"seatrial/py.typed"} <= set(names)
    assert any(name.endswith("share/seatrial/alembic/env.py") for name in names)
    migrations = {path.name for path in (ROOT / "alembic" / "versions").glob("*.py")}
    assert migrations <= {Path(name).name for name in names}
    assert any(name.endswith("licenses/LICENSE") for name in names)


@pytest.mark.drill
def test_every_module_of_the_api_loads_without_the_gpu_side() -> None:
    program = (
        "import importlib, pathlib, sys\n"
        "for name in ('torch', 'transformers', 'textattack', 'workers'): sys.modules[name] = None\n"
        "for path in sorted(pathlib.Path('app').rglob('*.py')):\n"
        "    if path.stem != '__main__':\n"
        "        importlib.import_module('.'.join(path.with_suffix('').parts).removesuffix('.__init__'))\n"
        "heavy = ('torch', 'transformers', 'textattack', 'workers')\n"
        "print([name for name in sys.modules if name.split('.')[0] in heavy and sys.modules[name] is not None])\n"
    )
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", program], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "[]"


def test_constraints_pin_everything_installed_for_the_tests() -> None:
    """A package missing from constraints.txt would float, and one day break a fresh machine."""
    lines = (ROOT / "constraints.txt").read_text().splitlines()
    assert all("==" in line for line in lines)
    assert _needed_for_dev() <= {canonicalize_name(line.partition("==")[0]) for line in lines}


def _needed_for_dev() -> set[str]:
    """Return every installed distribution that the dev extra needs, directly or not."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    waiting = [*project["dependencies"], *extras["worker"], *extras["demo"], *extras["dev"]]
    seen: set[tuple[str, frozenset[str]]] = set()
    while waiting:
        requirement = Requirement(waiting.pop())
        name, wanted = canonicalize_name(requirement.name), frozenset(requirement.extras)
        if name == "seatrial" or (name, wanted) in seen:
            continue
        environments = [{"extra": extra} for extra in (*wanted, "")]
        if requirement.marker and not any(requirement.marker.evaluate(environment) for environment in environments):
            continue
        try:
            further = requires(name) or []
        except PackageNotFoundError:
            continue
        seen.add((name, wanted))
        for one in map(Requirement, further):
            if one.marker is None or any(one.marker.evaluate({"extra": extra}) for extra in (*wanted, "")):
                one.marker = None
                waiting.append(str(one))
    # What a CUDA build of torch pins of its own accord; the CPU build, which is tested, has none of it.
    return {name for name, _ in seen if not re.match(r"nvidia-|cuda-|triton$", name)}
