"""The notebook runs from its first cell to its last, in a process and a folder of its own.

A process that runs the cells in order shows what a kernel would, without the thirty packages a kernel brings along.
"""

import ast
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.servers import ROOT, die_with_parent

NOTEBOOK = ROOT / "examples" / "audit.ipynb"
RUN = """
import ast, json, sys
names = {"__name__": "__main__"}
for number, source in enumerate(json.load(open(sys.argv[1]))):
    tree = ast.parse(source)
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    exec(compile(tree, f"cell {number}", "exec"), names)
    if last is not None:
        shown = eval(compile(ast.Expression(last.value), f"cell {number}", "eval"), names)
        # What a notebook shows under the cell.
        print(f"[{number}]", repr(shown), len(getattr(shown, "_repr_html_", str)()))
"""


def document() -> dict[str, Any]:
    """Return the notebook."""
    return dict(json.loads(NOTEBOOK.read_text(encoding="utf-8")))


def sources() -> list[str]:
    """Return the code of its cells."""
    return ["".join(cell["source"]) for cell in document()["cells"] if cell["cell_type"] == "code"]


def test_it_is_a_notebook_of_version_4_5() -> None:
    notebook = document()
    assert (notebook["nbformat"], notebook["nbformat_minor"]) == (4, 5)
    assert set(notebook) == {"cells", "metadata", "nbformat", "nbformat_minor"}
    ids = [cell["id"] for cell in notebook["cells"]]
    assert len(set(ids)) == len(ids)
    for cell in notebook["cells"]:
        code = {"execution_count", "outputs"} if cell["cell_type"] == "code" else set()
        assert set(cell) == {"cell_type", "id", "metadata", "source"} | code
        assert all(line.endswith("\n") for line in cell["source"][:-1])


def test_it_was_executed_in_order_and_nothing_of_the_machine_is_kept() -> None:
    cells = [cell for cell in document()["cells"] if cell["cell_type"] == "code"]
    assert [cell["execution_count"] for cell in cells] == list(range(1, len(cells) + 1))
    outputs = [output for cell in cells for output in cell["outputs"]]
    assert {output["output_type"] for output in outputs} == {"execute_result", "display_data", "stream"}
    told = json.dumps(outputs)
    for shown in ("Do not ship: ", "data:image/svg+xml;base64,", "<progress", "entropy_clean", "<Model mdl_"):
        assert shown in told, shown
    assert not re.search(r"/(tmp|home|root|work|Users)/", told)


def test_only_public_names_are_imported() -> None:
    imported = {
        node.module or ""
        for source in sources()
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.ImportFrom)
    }
    assert "seatrial" in imported
    assert not any(name.split(".")[0] in ("app", "workers", "tests") for name in imported)


@pytest.mark.drill
def test_it_runs(tmp_path: Path) -> None:
    cells = tmp_path / "cells.json"
    cells.write_text(json.dumps(sources()))
    done = subprocess.run(
        [sys.executable, "-c", RUN, str(cells)],
        cwd=tmp_path,
        env={**os.environ, "TMPDIR": str(tmp_path), "SEATRIAL_POLL_S": "0.05", "SEATRIAL_TORCH_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=150,
        preexec_fn=die_with_parent,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "digits 1, image-classification, ready>" in done.stdout
    assert "<AuditJudgement failed: Do not ship: " in done.stdout
    assert "<Figure entropy of uncertainty_span>" in done.stdout
    (report,) = tmp_path.glob("seatrial-*/report.html")
    assert "uncertainty_span" in report.read_text()
