"""Outside of its two folders nothing names a family."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from seatrial.contracts.registry import SHIPPED

ROOT = Path(__file__).resolve().parents[2]
KINDS = [point.name for point in SHIPPED]
NAMED = re.compile(rf"(?<!\w)({'|'.join(KINDS)})(?!\w)")

FOLDERS = tuple(f"{half}/families/{kind}/" for half in ("seatrial", "workers") for kind in KINDS)
MAY_NAME = {"seatrial/contracts/registry.py": "the entry points", "app/policies/presets.py": "the shipped policies"}


def named(path: Path) -> Iterator[str]:
    """Yield where a file names a family; docstrings are documentation and may."""
    text = path.read_text()
    if path.suffix != ".py":
        yield from NAMED.findall(text)
        return
    tree = ast.parse(text)
    documented = {
        id(node.body[0].value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
        and node.body
        and isinstance(node.body[0], ast.Expr)
    }
    for node in ast.walk(tree):
        match node:
            case ast.Constant(value=str(said)) if id(node) not in documented and NAMED.search(said):
                yield f"line {node.lineno}: {said!r}"
            case ast.ImportFrom(module=str(module)) if NAMED.search(module):
                yield f"line {node.lineno}: {module}"
            case ast.Import(names=names) if any(NAMED.search(one.name) for one in names):
                yield f"line {node.lineno}: import"
            case ast.Name(id=name) | ast.Attribute(attr=name) | ast.alias(name=name) if name in KINDS:
                yield f"a name: {name}"


def sources() -> Iterator[Path]:
    for floor in ("seatrial", "app", "workers"):
        for path in sorted((ROOT / floor).rglob("*")):
            if path.suffix in (".py", ".html", ".js", ".css", ".yaml", ".yml", ".json", ".md"):
                yield path


def test_no_family_is_named_outside_of_its_folders() -> None:
    found = {}
    for path in sources():
        place = path.relative_to(ROOT).as_posix()
        if not place.startswith(FOLDERS) and place not in MAY_NAME and (told := list(named(path))):
            found[place] = told
    assert found == {}


@pytest.mark.parametrize("kind", KINDS)
def test_a_family_names_no_other(kind: str) -> None:
    others = [folder.replace("/", ".").rstrip(".") for folder in FOLDERS if f"/{kind}/" not in folder]
    for half in ("seatrial", "workers"):
        for path in sorted((ROOT / half / "families" / kind).rglob("*.py")):
            for node in ast.walk(ast.parse(path.read_text())):
                module = node.module if isinstance(node, ast.ImportFrom) else None
                assert module is None or not module.startswith(tuple(others)), (path.name, module)


def test_who_may_name_a_family_does() -> None:
    assert all(list(named(ROOT / path)) for path in MAY_NAME)
