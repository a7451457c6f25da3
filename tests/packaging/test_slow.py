"""The lists of slow and of long tests name tests there are."""

from pathlib import Path

import pytest

from scripts.slow_tests import SLOW, slow

ROOT = SLOW.parents[1]


@pytest.mark.parametrize("listed", ["slow.txt", "long.txt", "drills.txt"])
def test_every_listed_test_is_there(listed: str) -> None:
    for line in SLOW.with_name(listed).read_text().split():
        path, _, name = line.partition("::")
        told = (ROOT / path).read_text()
        # A doctest is named by its module as well, and may be of the module.
        last = name.rpartition(".")[2]
        assert last == Path(path).stem or any(f"{kind} {last}" in told for kind in ("def", "class")), line


def test_a_test_is_slow_by_its_slowest_case(tmp_path: Path) -> None:
    cases = [("test_it[a]", 0.01), ("test_it[b]", 0.5), ("test_other", 0.01)]
    told = "".join(f'<testcase classname="tests.a.test_one" name="{name}" time="{time}" />' for name, time in cases)
    report = tmp_path / "report.xml"
    report.write_text(f"<testsuites><testsuite>{told}</testsuite></testsuites>")
    assert slow(report) == ["tests/a/test_one.py::test_it"]
