"""Resident memory of a process, by the kernel, and cases that are each measured in one of their own. Linux only."""

import argparse
import ctypes
import gc
import multiprocessing
from collections.abc import Callable, Iterable
from pathlib import Path


def resident(name: str) -> int:
    """Return a line of /proc/self/status in bytes."""
    (line,) = [one for one in Path("/proc/self/status").read_text().splitlines() if one.startswith(name)]
    return int(line.split()[1]) * 1024


def growth(run: Callable[[], object]) -> int:
    """Return the bytes by which resident memory grows to its peak while something is run."""
    gc.collect()
    ctypes.CDLL("libc.so.6").malloc_trim(0)
    before = resident("VmRSS")
    Path("/proc/self/clear_refs").write_text("5")
    run()
    return resident("VmHWM") - before


def tell(case: str, told: float, measured: float) -> None:
    """Print the line of a case, from bytes."""
    print(f"| {case} | {told / 2**20:,.0f} | {measured / 2**20:,.0f} | {told / measured:.2f} |", flush=True)


def measure_each(cases: Iterable[str], measure: Callable[[str], None], *, what: str, description: str | None) -> None:
    """Print a line for each case, or for those named on the command line.

    Args:
        cases: Names of all.
        measure: Prints the line of one.
        what: Is measured; heads the first column.
        description: Of the command.
    """
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("cases", nargs="*", default=list(cases))
    print(f"| {what} | told, MiB | measured, MiB | told / measured |\n| --- | --- | --- | --- |", flush=True)
    for case in parser.parse_args().cases:
        # Forked: what takes long to import is imported once.
        process = multiprocessing.get_context("fork").Process(target=measure, args=(case,))
        process.start()
        process.join()
        if process.exitcode:
            raise SystemExit(f"{case} was not measured")
