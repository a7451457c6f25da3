"""What no test runs is imported by no name that has moved: benchmarks and scripts, read and not run."""

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
OURS = ("app", "seatrial", "workers", "tests", "benchmarks", "scripts")


def missing(source: str) -> list[str]:
    """Return the names that a program imports from our own modules and that these do not have."""
    return [
        f"{node.module}.{name.name}"
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] in OURS
        for name in node.names
        if name.name not in names_of(node.module)
    ]


@cache
def names_of(module: str) -> frozenset[str]:
    """Return what may be imported from a module: its own names, and the modules of a package."""
    folder = ROOT.joinpath(*module.split("."))
    if not folder.is_dir():
        return frozenset(_defined(ast.parse(folder.with_suffix(".py").read_text())))
    start = folder / "__init__.py"
    own = _defined(ast.parse(start.read_text())) if start.exists() else ()
    return frozenset([*own, *(path.stem for path in folder.glob("*.py")), *(path.name for path in folder.iterdir())])


def _defined(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                yield node.name
            case ast.Name(ctx=ast.Store()):
                yield node.id
            case ast.Import() | ast.ImportFrom():
                yield from ((name.asname or name.name).split(".")[0] for name in node.names)


@pytest.mark.parametrize("folder", ["benchmarks", "scripts"])
def test_what_is_imported_is_there(folder: str) -> None:
    paths = sorted((ROOT / folder).glob("*.py"))
    assert paths
    assert not {path.name: found for path in paths if (found := missing(path.read_text()))}


def test_a_name_that_has_moved_is_seen() -> None:
    told = "from workers.models.repeating import company_flags, constant_flags\nfrom workers import models, nothing"
    assert missing(told) == ["workers.models.repeating.constant_flags", "workers.nothing"]
