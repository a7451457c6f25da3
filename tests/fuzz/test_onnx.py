"""A few of the ONNX files that ``benchmarks.fuzz_onnx`` runs by the thousand: every one is refused or runs."""

from pathlib import Path

from benchmarks.fuzz_onnx import files, run_case


def test_changed_files_are_refused_or_run(tmp_path: Path) -> None:
    given = files()
    outcomes = {run_case(number, 1, given, tmp_path / "case.onnx") for number in range(1, 60)}
    assert {"refused", "ran"} <= outcomes <= {"refused", "not loaded", "not run", "ran"}
