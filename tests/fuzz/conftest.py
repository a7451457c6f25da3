"""One fuzzer per format: a right file, changed where its format has a length, a count, a name, a type or a nesting.

Every case follows from the seed and its number. A fuzzer runs its cases in one forked child that may map 512 MiB more
than the tests and must end in time; a case that fails is told with the command that runs it alone::

    pytest tests/fuzz/test_formats.py -k npz --fuzz-seed 0 --fuzz-case 137

``--fuzz-cases N`` runs N cases of each (100 in ``make test``, 2,000 in ``make test-all``); another ``--fuzz-seed`` runs
others.
"""

import tempfile
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest

from tests.bounded import MIB, OutOfBoundsError, Steps, bounded

Case = Callable[[Random, Path], bool]
"""Makes a file in a folder and has it read; tells whether it was accepted, and leaves nothing in the folder."""

EXTRA_BYTES = 512 * MIB


@pytest.fixture
def fuzz(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[Case], None]:
    """Run the cases of a fuzzer."""
    cases, seed, one = (request.config.getoption(name) for name in ("fuzz_cases", "fuzz_seed", "fuzz_case"))
    numbers = range(cases) if one is None else [one]

    def run(case: Case) -> None:
        steps = Steps()

        def work() -> Counter[bool]:
            outcomes: Counter[bool] = Counter()
            temporary = tmp_path / "temporary"
            temporary.mkdir()
            tempfile.tempdir = str(temporary)
            for number in numbers:
                steps.note(number)
                folder = tmp_path / "case"
                folder.mkdir()
                outcomes[case(Random(f"{seed} {number}"), folder)] += 1
                assert not list(temporary.iterdir()), "something is left in the temporary folder"
                for left in folder.iterdir():
                    assert left.name == "upload", f"{left.name} is left beside the upload"
                    left.unlink()
                folder.rmdir()
            return outcomes

        try:
            outcomes = bounded(work, extra_bytes=EXTRA_BYTES, deadline_s=60 + 0.5 * len(numbers), steps=steps)
        except OutOfBoundsError as error:
            pytest.fail(
                f"case {steps.last} of seed {seed}: {error}\n\n"
                f"run it alone: pytest '{request.node.nodeid}' --fuzz-seed {seed} --fuzz-case {steps.last}"
            )
        # A fuzzer whose every file is refused at its first byte, or none, tests nothing.
        assert one is not None or cases < 100 or min(outcomes[True], outcomes[False]) >= cases // 50, outcomes

    return run
