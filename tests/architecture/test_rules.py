"""Rules the linters do not know."""

import ast
import re
import subprocess
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]

SOURCES = [path for folder in ("seatrial", "app", "workers") for path in sorted((ROOT / folder).rglob("*.py"))]

Nodes = list[ast.AST]


def written_states(nodes: Nodes) -> list[int]:
    """Return the lines that assign to an attribute ``state`` or give values to a column of that name."""
    lines = []
    for node in nodes:
        assigns = isinstance(node, ast.Assign) and any(
            isinstance(target, ast.Attribute) and target.attr == "state" for target in node.targets
        )
        updates = (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Attribute)
            and node.func.attr == "values"
            and any(keyword.arg == "state" for keyword in node.keywords)
        )
        if assigns or updates:
            lines.append(node.lineno)
    return lines


def lost_strings(nodes: Nodes) -> list[int]:
    """Return the lines of strings that are statements of a function, and neither its docstring nor an attribute's."""
    lost = []
    for node in nodes:
        for body in (getattr(node, name, None) for name in ("body", "orelse", "finalbody")):
            if isinstance(node, ast.Module | ast.ClassDef) or not isinstance(body, list):
                continue
            for before, statement in zip([None, *body], body, strict=False):
                said = statement.value if isinstance(statement, ast.Expr) else None
                is_text = isinstance(said, ast.Constant) and isinstance(said.value, str)
                is_string = is_text or isinstance(said, ast.JoinedStr)
                is_said = before is None and isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
                if not is_string or is_said:
                    continue
                is_attribute = isinstance(before, ast.Assign | ast.AnnAssign) and "self." in ast.unparse(before)
                if not is_attribute:
                    lost.append(statement.lineno)
    return lost


def unfilled(nodes: Nodes) -> list[int]:
    """Return the lines of f-strings with a piece that was to be filled in and has no f of its own."""
    pieces = [
        (node.lineno, piece.value)
        for node in nodes
        if isinstance(node, ast.JoinedStr)
        for piece in node.values
        if isinstance(piece, ast.Constant)
    ]
    # A name in brackets after an equals sign is one of a metric's qualifiers, which is filled in later.
    return [line for line, text in pieces if re.search(r"(?<!=)\{[a-z_][\w.]*(:[^{}]*)?\}", text)]


def misdescribed(nodes: Nodes) -> list[int]:
    """Return the lines of functions and data classes whose docstrings list other names than they have."""
    lines = []
    for node in nodes:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            given = node.args
            every = [*given.posonlyargs, *given.args, given.vararg, *given.kwonlyargs, given.kwarg]
            names, section = {one.arg for one in every if one is not None} - {"self", "cls"}, "Args"
        elif isinstance(node, ast.ClassDef) and any("dataclass" in ast.unparse(one) for one in node.decorator_list):
            fields = [one.target for one in node.body if isinstance(one, ast.AnnAssign)]
            names, section = {one.id for one in fields if isinstance(one, ast.Name) and one.id[0] != "_"}, "Attributes"
        else:
            continue
        told = listed(ast.get_docstring(node) or "", section)
        if told is not None and told != names:
            lines.append(node.lineno)
    return lines


def listed(docstring: str, section: str) -> set[str] | None:
    """Return the names a section of a docstring describes; None where there is no such section."""
    _, heading, rest = docstring.partition(f"{section}:\n")
    if not heading:
        return None
    indented = re.match(r"(?:    .*\n?|\n)*", rest)
    entries = re.findall(r"^    (\*{0,2}\w+(?:, \w+)*)(?: \([^)]*\))?:", indented[0] if indented else "", re.MULTILINE)
    return {name.strip("* ") for entry in entries for name in entry.split(",")}


@cache
def found() -> dict[Callable[[Nodes], list[int]], list[str]]:
    """Return where each look finds something in the sources, which are parsed once for all: their trees are many."""
    looks = written_states, lost_strings, unfilled, misdescribed
    lines: dict[Callable[[Nodes], list[int]], list[str]] = {look: [] for look in looks}
    for path in SOURCES:
        nodes = parsed(path.read_text())
        for look, where in lines.items():
            where.extend(f"{path.relative_to(ROOT).as_posix()}:{line}" for line in look(nodes))
    return lines


def parsed(source: str) -> Nodes:
    return list(ast.walk(ast.parse(source)))


@pytest.mark.slow
def test_only_transitions_writes_a_state() -> None:
    assert {where.partition(":")[0] for where in found()[written_states]} <= {"seatrial/store/transitions.py"}


@pytest.mark.slow
def test_no_sentence_loses_its_end() -> None:
    """The second line of a string without brackets around both is a statement that does nothing."""
    assert lost_strings(parsed('def f():\n    told = "97% of it is "\n    "left"\n    return told')) == [3]
    assert found()[lost_strings] == []


@pytest.mark.slow
def test_no_number_of_a_sentence_is_left_out() -> None:
    """Of several pieces of one string each needs its own f."""
    assert unfilled(parsed('told = (f"{share:.0%} of it, "\n    "sigma {params.sigma:g}")')) == [1]
    assert unfilled(parsed('told = f"{share:.0%} of it [level={{level}}]"')) == []
    assert found()[unfilled] == []


@pytest.mark.slow
def test_docstrings_describe_what_is_there() -> None:
    """Whoever renames an argument leaves its description behind."""
    told = '"""Do.\n\n    Args:\n        one: First.\n            And: more.\n        two, three (m,): Others.\n    """'
    assert misdescribed(parsed(f"def f(one, two, three):\n    {told}")) == []
    assert misdescribed(parsed(f"def f(one, two):\n    {told}")) == [1]
    assert found()[misdescribed] == []


@pytest.mark.slow
def test_the_api_runs_without_torch() -> None:
    program = (
        "import sys\n"
        "absent = ('torch', 'transformers', 'textattack', 'workers', 'matplotlib', 'scipy')\n"
        "sys.modules.update(dict.fromkeys(absent))\n"
        "from app.main import create_app\n"
    )
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", program], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@pytest.mark.slow
def test_the_scheduler_runs_without_torch() -> None:
    program = (
        "import sys\n"
        "sys.modules.update(dict.fromkeys(('torch', 'transformers', 'matplotlib', 'scipy')))\n"
        "import workers.tasks\n"
    )
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", program], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@pytest.mark.slow
def test_a_worker_starts_without_what_only_some_audits_need() -> None:
    program = (
        "import sys\n"
        "from workers.runtime import worker\n"
        "some = ('scipy.stats', 'matplotlib', 'transformers', 'textattack', 'nltk', 'pandas', 'torch._dynamo')\n"
        "print([name for name in some if name in sys.modules])\n"
    )
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", program], cwd=ROOT, capture_output=True, text=True)
    assert done.stdout == "[]\n", done.stdout + done.stderr


def test_nothing_is_left_open() -> None:
    pattern = re.compile(r"\b(TODO|FIXME|XXX|raise NotImplementedError)\b")
    assert [path.name for path in SOURCES if pattern.search(path.read_text())] == []


def test_no_file_outgrows_a_reader() -> None:
    others = [
        path for folder in ("tests", "benchmarks", "scripts", "examples") for path in (ROOT / folder).rglob("*.py")
    ]
    lines = {path.relative_to(ROOT).as_posix(): len(path.read_text().splitlines()) for path in (*SOURCES, *others)}
    too_long = {path: count for path, count in lines.items() if count > 400}
    assert too_long == {}, "more than 400 lines: give a second subject a file of its own"
