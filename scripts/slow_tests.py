"""Write tests/slow.txt: the tests that `make test-fast` leaves out, as one run on an idle machine measured them.

``scripts/test -m "not drill and not served" -n 2 --junitxml=FILE``, then ``python -m scripts.slow_tests FILE``.
"""

import sys
from pathlib import Path
from xml.etree import ElementTree

SLOW = Path(__file__).parents[1] / "tests" / "slow.txt"
LONGEST_S = 0.06
"""Seconds of the slowest case of a test that is fast: so much of each leaves a minute for all on two cores."""


def slow(report: Path) -> list[str]:
    """Return the tests of a JUnit file of which a case took too long, as ``tests/test_one.py::test_it``.

    Args:
        report: Written by pytest: seconds of setup, call and teardown together.

    Raises:
        OSError: It cannot be read.
    """
    # Our own pytest wrote it.
    cases = ElementTree.parse(report).iter("testcase")
    return sorted(
        {
            f"{case.attrib['classname'].replace('.', '/')}.py::{case.attrib['name'].partition('[')[0]}"
            for case in cases
            if float(case.attrib["time"]) > LONGEST_S
        }
    )


if __name__ == "__main__":
    SLOW.write_text("\n".join(slow(Path(sys.argv[1]))) + "\n")
