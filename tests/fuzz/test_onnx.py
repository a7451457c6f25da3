"""A few of the ONNX files that ``benchmarks.fuzz_onnx`` runs by the thousand: every one is refused or runs."""

from pathlib import Path
from random import Random

from benchmarks.fuzz_onnx import fuzzer
from benchmarks.fuzzing import run_case


def test_changed_files_are_refused_or_run(tmp_path: Path) -> None:
    changing = fuzzer()
    given = changing.originals(tmp_path)
    outcomes = {
        run_case(changing, Random(number), given[number % len(given)], tmp_path / "case.onnx") for number in range(60)
    }
    assert {"refused", "ran"} <= outcomes <= {"refused", "not loaded", "not run", "ran"}
