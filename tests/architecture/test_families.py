"""Outside of its two folders nothing names a family."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from seatrial.contracts.registry import SHIPPED

ROOT = Path(__file__).resolve().parents[2]
KINDS = [point.name for point in SHIPPED]
# The field's word for what a family measures is in many places; where it names the family, it is qualified or quoted.
WORDS = {"calibration": r"families[./]calibration\b|[\"'`]calibration\.|kind\W{1,6}calibration\b"}
NAMED = re.compile("|".join(WORDS.get(kind, kind) for kind in KINDS))

FOLDERS = tuple(f"{half}/families/{kind}/" for half in ("seatrial", "workers") for kind in KINDS)
MAY_NAME = {"seatrial/contracts/registry.py": "the entry points", "app/policies/demands.py": "the shipped policies"}


def sources() -> Iterator[Path]:
    for floor in ("seatrial", "app", "workers"):
        for path in sorted((ROOT / floor).rglob("*")):
            if path.suffix in (".py", ".html", ".js", ".css", ".yaml", ".yml", ".json", ".md"):
                yield path


def test_no_family_is_named_outside_of_its_folders() -> None:
    naming = set()
    for path in sources():
        place = path.relative_to(ROOT).as_posix()
        if not place.startswith(FOLDERS) and NAMED.search(path.read_text()):
            naming.add(place)
    assert naming == set(MAY_NAME)


@pytest.mark.parametrize("kind", KINDS)
def test_a_family_names_no_other(kind: str) -> None:
    others = [folder.replace("/", ".").rstrip(".") for folder in FOLDERS if f"/{kind}/" not in folder]
    for half in ("seatrial", "workers"):
        for path in sorted((ROOT / half / "families" / kind).rglob("*.py")):
            for node in ast.walk(ast.parse(path.read_text())):
                module = node.module if isinstance(node, ast.ImportFrom) else None
                assert module is None or not module.startswith(tuple(others)), (path.name, module)
