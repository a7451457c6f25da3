"""Mutation testing: the tests of three rooms notice small changes of what their code computes.

    python -m benchmarks.mutants                  # 120 mutants
    python -m benchmarks.mutants --room gates --per-room 10 --seed 16

A mutant is one change of the code: a comparison, an operator, a number, a condition or a returned value. ``--per-room``
are drawn from each room, the five kinds in turn, and each is run with the tests of its room (drills too, nothing that
needs a server) and the doctests of its file until the first failure, in a child forked for it on a copy of the tracked
files. The unchanged room goes first: it must pass, and three times its processor time is what a mutant may take.
A mutant is killed when a test fails or its file cannot be imported, and when it runs out of time, which is said apart.
One that survives is a gap in the tests, or computes the same as the original: reading tells.

Ends with status 1 when an unchanged room does not pass. A quarter of an hour on one core.
"""

import argparse
import contextlib
import importlib
import importlib.util
import os
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

from benchmarks.mutations import KINDS, Mutant, mutants_of, sample

ROOT = Path(__file__).parent.parent
ROOMS = {
    "statistics": ("seatrial/statistics", "tests/statistics"),
    "gates": ("seatrial/judging", "tests/gates"),
    "certification": ("workers/certification", "tests/certification"),
}
"""Each room's code and tests."""
OUTCOMES = ("killed", "not importable", "out of time", "survived")
# Imported once, before the children are forked: they take longer to import than most mutants to be killed.
SLOW_IMPORTS = (
    *("numpy", "scipy.stats", "scipy.optimize", "scipy.special", "sklearn.metrics", "torch", "torchmetrics"),
    *("hypothesis", "sqlalchemy", "alembic.command", "pyarrow.parquet", "fastapi", "starlette.testclient", "httpx"),
)
OURS = {"seatrial", "app", "workers", "tests"}
LIMIT_FACTOR, LEAST_CPU_S, WALL_FACTOR = 3, 30, 20
MOST_BYTES = 12 * 2**30
NOT_RUN = 99
"""Status of a child whose tests did not run for a reason of ours."""


def copy_tracked(folder: Path) -> None:
    """Copy the tracked files of the working tree to a folder."""
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    for name in filter(None, listed.split("\0")):
        if (ROOT / name).is_file():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, folder / name)


class Unshrunk:
    """A pytest plugin: Hypothesis stops at the first failure, as making it small would cost minutes."""

    def pytest_sessionstart(self) -> None:
        """Change the profile that tests/conftest.py has loaded."""
        import hypothesis

        phases = [one for one in hypothesis.Phase if one.name not in ("shrink", "explain")]
        hypothesis.settings.register_profile("unshrunk", parent=hypothesis.settings(), phases=phases)
        hypothesis.settings.load_profile("unshrunk")


def _tests(room: str, file: str | None) -> list[str]:
    """Return the test files of a room, those likely to fail and the fast ones first, and what has doctests."""
    code, tests = ROOMS[room]
    stem = Path(file).stem if file else ""

    def turn(path: Path) -> tuple[bool, bool, str]:
        return stem not in path.stem, any(word in path.stem for word in ("http", "simulated")), path.name

    return [
        *(str(path.relative_to(ROOT)) for path in sorted((ROOT / tests).rglob("test_*.py"), key=turn)),
        file or code,
    ]


def _child(folder: Path, room: str, file: str | None, cpu_s: int) -> NoReturn:
    """Run the tests in this process, which was forked for them; its status is pytest's."""
    status = NOT_RUN
    try:
        os.setsid()
        log = os.open(folder.with_suffix(".log"), os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
        os.dup2(log, 1)
        os.dup2(log, 2)
        if cpu_s:
            resource.setrlimit(resource.RLIMIT_CPU, (cpu_s, resource.RLIM_INFINITY))
        resource.setrlimit(resource.RLIMIT_AS, (MOST_BYTES, resource.RLIM_INFINITY))
        os.chdir(folder)
        sys.path[0] = str(folder)
        sys.modules.pop("benchmarks", None)
        found = importlib.util.find_spec("seatrial")
        if found is None or not str(found.origin).startswith(str(folder)):
            raise ImportError(f"the tests would be of another copy: {found}")
        import pytest

        options = ["-x", "-q", "-n", "0", "--tb=line", "-m", "not served", f"--basetemp={folder.with_suffix('.tmp')}"]
        options += ["-p", "no:cacheprovider", "-W", "ignore::pytest.PytestAssertRewriteWarning"]
        status = int(pytest.main([*options, *_tests(room, file)], plugins=[Unshrunk()]))
        sys.stdout.flush()
    except BaseException:
        traceback.print_exc()
        sys.stderr.flush()
    finally:
        os._exit(status)


@dataclass(frozen=True)
class Run:
    """A child that runs tests.

    Attributes:
        pid: Its process and group.
        folder: The copy it runs in.
        ends_at: When it is killed, by the monotonic clock.
        mutant: What the copy has changed; None for the unchanged room.
        source: The changed file as it was.
    """

    pid: int
    folder: Path
    ends_at: float
    mutant: Mutant | None
    source: bytes

    @classmethod
    def start(cls, folder: Path, room: str, mutant: Mutant | None, cpu_s: int) -> "Run":
        """Change the copy and fork; without a mutant nothing is changed, without ``cpu_s`` nothing limited."""
        source = b""
        if mutant is not None:
            source = (folder / mutant.file).read_bytes()
            (folder / mutant.file).write_bytes(mutant.apply(source))
        if not (pid := os.fork()):
            _child(folder, room, mutant.file if mutant else None, cpu_s)
        return cls(pid, folder, time.monotonic() + (WALL_FACTOR * cpu_s or float("inf")), mutant, source)

    def poll(self) -> tuple[int, float] | None:
        """Return status and processor seconds of a child that has ended, its copy as it was; None before."""
        if time.monotonic() > self.ends_at:
            self.kill()
        ended, status, used = os.wait4(self.pid, os.WNOHANG)
        if not ended:
            return None
        # What the tests started and a mutant left behind.
        self.kill()
        if self.mutant is not None:
            (self.folder / self.mutant.file).write_bytes(self.source)
        return os.waitstatus_to_exitcode(status), used.ru_utime + used.ru_stime

    def kill(self) -> None:
        """End the child and what it started."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)

    def outcome(self, status: int) -> str:
        """Return what became of the mutant, by the status of its child: one of ``OUTCOMES``.

        Raises:
            RuntimeError: Its tests did not run.
        """
        if status in (5, NOT_RUN):
            raise RuntimeError(f"{self.mutant}: no test ran\n{self.tail()}")
        # 4: conftest.py could not be imported. A test, or a crash, kills with any other status.
        if status in (-signal.SIGXCPU, -signal.SIGKILL):
            return "out of time"
        return {0: "survived", 4: "not importable"}.get(status, "killed")

    def tail(self) -> str:
        """Return the end of what pytest said."""
        return self.folder.with_suffix(".log").read_text(errors="replace")[-2000:]


def run_all(
    room: str, mutants: Sequence[Mutant | None], folders: list[Path], cpu_s: int
) -> Iterator[tuple[Run, int, float]]:
    """Yield run, status and processor seconds of each mutant as it ends; one runs in each copy at a time."""
    waiting, idle, running = list(reversed(mutants)), list(folders), list[Run]()
    try:
        while waiting or running:
            while waiting and idle:
                running.append(Run.start(idle.pop(), room, waiting.pop(), cpu_s))
            time.sleep(0.05)
            for run in list(running):
                if (ended := run.poll()) is not None:
                    running.remove(run)
                    idle.append(run.folder)
                    yield run, *ended
    finally:
        for run in running:
            run.kill()


def run_room(room: str, options: argparse.Namespace, folders: list[Path]) -> list[tuple[Mutant, str]]:
    """Return the mutants that are drawn of a room with their outcomes; exit where it does not pass unchanged."""
    every = mutants_of(ROOT / ROOMS[room][0], ROOT)
    chosen = sample(every, options.per_room, ROOT, f"{options.seed} {room}")
    unchanged, status, cpu_s = next(run_all(room, [None], folders, 0))
    if status:
        sys.exit(f"the tests of {room} do not pass without a mutant (status {status}):\n{unchanged.tail()}")
    print(f"{room}: {len(chosen)} of {len(every):,} mutants, seed {options.seed}; ", end="")
    print(f"unchanged it passes in {cpu_s:.0f} s of processor", flush=True)
    limit_s = max(LEAST_CPU_S, round(LIMIT_FACTOR * cpu_s))
    outcomes = {run.mutant: run.outcome(status) for run, status, _ in run_all(room, chosen, folders, limit_s)}
    return [(one, outcomes[one]) for one in chosen]


def print_table(ended: list[tuple[Mutant, str]]) -> None:
    """Print the outcomes of a room by kind, and what survived."""
    print(f"  {'':12}{'mutants':>9}" + "".join(f"{name:>16}" for name in OUTCOMES))
    for kind in (*KINDS, "all"):
        counts = Counter(outcome for mutant, outcome in ended if kind in ("all", mutant.kind))
        print(f"  {kind:12}{counts.total():9}" + "".join(f"{counts[name]:16}" for name in OUTCOMES))
    for mutant, outcome in ended:
        if outcome == "survived":
            print(f"  survived: {mutant}")
    print(flush=True)


def main() -> None:
    """Run the mutants of each room and print what became of them."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=15)
    parser.add_argument("--per-room", type=int, default=40)
    parser.add_argument("--room", choices=ROOMS, action="append", help="may be given again; all three by default")
    parser.add_argument("--jobs", type=int, default=1, help="mutants that run at a time")
    options = parser.parse_args()
    # A module compiled before a change of the same length within the same second would be taken for the changed one.
    sys.dont_write_bytecode = True
    os.environ.update(dict.fromkeys(("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE", "PYTHONDONTWRITEBYTECODE"), "1"))
    os.environ.update(OMP_NUM_THREADS="1", MKL_NUM_THREADS="1", SEATRIAL_HYPOTHESIS="repeatable")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name in SLOW_IMPORTS:
            importlib.import_module(name)
    if ours := OURS.intersection(sys.modules):
        raise RuntimeError(f"children would not import their copy of {ours}")
    outcomes: Counter[str] = Counter()
    with tempfile.TemporaryDirectory() as root:
        folders = [Path(root).resolve() / f"copy{number}" for number in range(max(1, options.jobs))]
        for folder in folders:
            copy_tracked(folder)
        for room in options.room or ROOMS:
            ended = run_room(room, options, folders)
            print_table(ended)
            outcomes.update(outcome for _, outcome in ended)
    print(f"{outcomes.total() - outcomes['survived']} of {outcomes.total()} killed: ", end="")
    print(", ".join(f"{outcomes[name]} {name}" for name in OUTCOMES))


if __name__ == "__main__":
    main()
