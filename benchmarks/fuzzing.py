"""What the fuzzers of uploads share: children that run cases, an audit hook, limits of time and memory, the summary.

A fuzzer is a :class:`Fuzzer` handed to :func:`main`. Children run 1,000 cases each; an audit hook ends one that
executes code, opens a connection, starts a process or unpickles. The program ends with status 1 when any did, when one
crashed, or when a case took over 10 s or 2 GB.
"""

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any, NoReturn

from seatrial.contracts.models import ModelManifest
from seatrial.store.settings import Settings
from workers.models.image_classifier import ImageClassifier

PER_CHILD = 1000
CASE_S = 10.0
MOST_BYTES = 2 * 2**30
LIMITS = Settings(max_activation_values=2**24)
FORBIDDEN = (
    "exec", "compile", "pickle.find_class", "os.system", "os.exec", "os.posix_spawn", "os.fork", "subprocess.Popen",
    "socket.connect", "socket.bind", "ctypes.dlopen", "marshal.loads", "shutil.rmtree", "os.remove", "os.rename",
)  # fmt: skip
EXECUTED = 77
_HARMLESS = ("/traceback.py", "/torch/fx/operator_schemas.py")


@dataclass(frozen=True)
class Fuzzer:
    """One kind of upload that is changed at random.

    Attributes:
        module: What is run as a child, ``benchmarks.fuzz_...``.
        noun: What a case is called, in the plural.
        filename: What an upload of it is called.
        originals: Returns what to start from, as bytes and their manifests, kept in a folder where they are made.
        mutated: Returns the bytes of one, changed.
        packed: Returns the bytes of one as it is.
        load: Loads an upload that the inspection accepted.
    """

    module: str
    noun: str
    filename: str
    originals: Callable[[Path], Sequence[tuple[Any, ModelManifest]]]
    mutated: Callable[[Random, Any], bytes]
    packed: Callable[[Any], bytes]
    load: Callable[[ModelManifest, Path], ImageClassifier]


def run_case(fuzzer: Fuzzer, random: Random | None, given: tuple[Any, ModelManifest], path: Path) -> str:
    """Return what became of one case, changed where ``random`` is given.

    It is ``refused``, ``not loaded``, ``not run`` or ``ran``.
    """
    import torch

    from app.models.inspection import inspect_model
    from seatrial.ingest.inspection.errors import InspectionError
    from workers.errors import TargetError
    from workers.models.exported_module import ProgramError

    data, manifest = given
    path.write_bytes(fuzzer.packed(data) if random is None else fuzzer.mutated(random, data))
    try:
        inspect_model(path, fuzzer.filename, manifest, LIMITS)
    except InspectionError:
        return "refused"
    try:
        classifier = fuzzer.load(manifest, path)
    except TargetError:
        return "not loaded"
    try:
        images = torch.rand(2, *classifier.input_shape, requires_grad=True)
        logits = classifier.logits(images)
        if logits.requires_grad:
            torch.autograd.grad(logits.sum(), images, allow_unused=True)
    except (ProgramError, RuntimeError, MemoryError):
        return "not run"
    return "ran"


def main(fuzzer: Fuzzer, description: str) -> NoReturn:
    """Run all cases and print what became of them."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", type=int, default=10_000)
    parser.add_argument("--first", type=int, default=1)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--child", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child is not None:
        _child(fuzzer, options.first, options.cases, options.seed, options.child)
    outcomes: Counter[str] = Counter()
    faults: list[str] = []
    slowest, largest = 0.0, 0
    with tempfile.TemporaryDirectory() as folder:
        fuzzer.originals(Path(folder))
        first, end = options.first, options.first + options.cases
        while first < end:
            count = min(PER_CHILD, end - first)
            lines, fault = _run_child(fuzzer, first, count, options.seed, folder)
            done = [one for one in lines if "outcome" in one]
            outcomes.update(one["outcome"] for one in done)
            slowest = max([slowest, *(one["seconds"] for one in done)])
            largest = max([largest, *(one["bytes"] for one in done)])
            faults += [f"case {one['number']}: {one['seconds']:.1f} s" for one in done if one["seconds"] > CASE_S]
            if fault:
                last = lines[-1].get("began", "?") if lines else "?"
                faults.append(f"case {last}: {fault}")
                first = last + 1 if isinstance(last, int) else end
            else:
                first += count
    told = ", ".join(f"{n:,} {what}" for what, n in outcomes.most_common())
    print(f"{sum(outcomes.values()):,} {fuzzer.noun}: {told}")
    print(f"slowest {slowest:.2f} s, most memory of a process {largest / 2**20:,.0f} MiB")
    print("\n".join(faults) or "no crash, no hang, nothing executed")
    sys.exit(1 if faults or largest > MOST_BYTES else 0)


def _child(fuzzer: Fuzzer, first: int, cases: int, seed: int, folder: Path) -> NoReturn:
    """Run some cases; a line of JSON for each goes to standard output."""
    given = fuzzer.originals(folder)
    path = folder / f"case-{os.getpid()}"
    # The unchanged ones first: what torch compiles and imports lazily is not an upload's doing.
    for one in given:
        run_case(fuzzer, None, one, path)
    is_running = False

    def watch(event: str, arguments: tuple[Any, ...]) -> None:
        if is_running and event in FORBIDDEN:
            # Modules are imported when they are first needed, a traceback parses the lines of code that it shows, and
            # torch evaluates the types its own operators declare.
            if event in ("exec", "compile", "marshal.loads") and _is_harmless():
                return
            os.write(2, f"{event} {arguments!r:.500}\n".encode())
            os._exit(EXECUTED)

    sys.addaudithook(watch)
    for number in range(first, first + cases):
        print(json.dumps({"began": number}), flush=True)
        random = Random(f"{seed} {number}")
        chosen = random.choice(given)
        started, is_running = time.monotonic(), True
        outcome = run_case(fuzzer, random, chosen, path)
        is_running = False
        used = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
        told = {"number": number, "outcome": outcome, "seconds": time.monotonic() - started, "bytes": used}
        print(json.dumps(told), flush=True)
    path.unlink()
    sys.exit(0)


def _is_harmless() -> bool:
    frame = sys._getframe(2)
    while frame is not None:
        if frame.f_code.co_filename.endswith(_HARMLESS) or "importlib" in frame.f_code.co_filename:
            return True
        frame = frame.f_back  # type: ignore[assignment]
    return False


def _run_child(fuzzer: Fuzzer, first: int, cases: int, seed: int, folder: str) -> tuple[list[dict[str, Any]], str]:
    command = [sys.executable, "-m", fuzzer.module, "--child", folder]
    command += ["--first", str(first), "--cases", str(cases), "--seed", str(seed)]

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_AS, (8 * MOST_BYTES, 8 * MOST_BYTES))

    try:
        ended = subprocess.run(
            command, capture_output=True, text=True, timeout=120 + cases, preexec_fn=limit, check=False
        )
    except subprocess.TimeoutExpired as error:
        said = error.stdout.decode() if isinstance(error.stdout, bytes) else error.stdout or ""
        return [json.loads(line) for line in said.splitlines() if line.endswith("}")], "it did not end"
    lines = [json.loads(line) for line in ended.stdout.splitlines()]
    if ended.returncode == 0:
        return lines, ""
    told = ended.stderr.strip()[-300:]
    return lines, f"{'executed' if ended.returncode == EXECUTED else f'status {ended.returncode}'}: {told}"
