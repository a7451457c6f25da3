"""The least versions in pyproject.toml are versions that were run, and docs/compatibility.md says on what."""

import re
import tomllib

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

from tests.packaging.pages import ROOT, read

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
PAGE = read("docs/compatibility.md")
CONSTRAINTS = {
    canonicalize_name(name): Version(version)
    for name, _, version in (line.partition("==") for line in read("constraints.txt").splitlines())
}
BASE = [Requirement(line) for line in PROJECT["dependencies"]]
EXTRAS = [Requirement(line) for lines in PROJECT["optional-dependencies"].values() for line in lines]
EVERY = [one for one in (*BASE, *EXTRAS) if one.name != "seatrial"]


def floor(requirement: Requirement) -> Version:
    """Return the least version a requirement takes."""
    (least,) = (one.version for one in requirement.specifier if one.operator in (">=", "=="))
    return Version(least)


def tried() -> dict[str, Version]:
    """Return the versions of the older stack, by package."""
    rows = re.findall(r"^\| `([\w.-]+)` \| ([\d.]+) \|", PAGE, re.MULTILINE)
    return {canonicalize_name(name): Version(version) for name, version in rows}


@pytest.mark.parametrize("requirement", EVERY, ids=str)
def test_no_floor_is_above_the_tested_set(requirement: Requirement) -> None:
    tested = CONSTRAINTS.get(canonicalize_name(requirement.name))
    if tested is None:
        # Only `bench` brings a package that constraints.txt leaves to float.
        assert str(requirement) in PROJECT["optional-dependencies"]["bench"]
        return
    assert floor(requirement) <= tested
    assert requirement.specifier.contains(tested)


@pytest.mark.parametrize("requirement", BASE, ids=str)
def test_every_floor_is_what_the_page_says_was_run(requirement: Requirement) -> None:
    assert floor(requirement) == tried()[canonicalize_name(requirement.name)]


def test_the_page_lists_nothing_else() -> None:
    assert set(tried()) == {canonicalize_name(requirement.name) for requirement in BASE}


def test_common_environments_are_not_shut_out() -> None:
    """What most environments a client or a gate is installed into have had since the end of 2024."""
    common = {"numpy": "1.26.4", "pyarrow": "18.1.0", "pillow": "10.2.0", "pydantic": "2.10.6", "httpx": "0.27.0"}
    common |= {"click": "8.1.7", "packaging": "23.2", "rich": "13.7.1", "sqlalchemy": "2.0.30", "fsspec": "2024.2.0"}
    by_name = {canonicalize_name(requirement.name): requirement for requirement in BASE}
    for name, version in common.items():
        assert by_name[canonicalize_name(name)].specifier.contains(version), name


def test_the_page_has_every_python() -> None:
    pythons = [one.rpartition(" ")[2] for one in PROJECT["classifiers"] if re.search(r":: 3\.\d+$", one)]
    assert re.findall(r"^\| (3\.\d+)\.\d+ \|", PAGE, re.MULTILINE) == pythons
