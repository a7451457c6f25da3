"""ONNX files changed at random: none crashes or hangs what runs it, fills memory, or executes anything.

    python -m benchmarks.fuzz_onnx                # 10,000 files
    python -m benchmarks.fuzz_onnx --first 4711 --cases 1

The five graphs of tests/models/onnx_graphs.npz and one written by hand are changed (tests/fuzz/onnx_mutations.py),
inspected as an upload is, and where that accepts them loaded, traced and run forward and backward, in children of
1,000 files each under the audit hook of :mod:`benchmarks.fuzz_exported`. Ends with status 1 when a child crashed, a
case took over 10 s or 2 GB, or anything was executed.
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
from pathlib import Path
from random import Random
from typing import Any, NoReturn

import numpy as np

from benchmarks.fuzz_exported import CASE_S, EXECUTED, FORBIDDEN, LIMITS, MOST_BYTES, PER_CHILD, _is_harmless
from seatrial.contracts.models import ModelManifest

GRAPHS = Path(__file__).parent.parent / "tests" / "models" / "onnx_graphs.npz"


def files() -> list[tuple[bytes, ModelManifest]]:
    """Return the files to start from and their manifests."""
    from tests.ingest.onnx_files import body, linear

    found = [(linear(), ModelManifest.model_validate(body()))]
    stored = dict(np.load(GRAPHS))
    for kind in sorted(name.removesuffix("_onnx") for name in stored if name.endswith("_onnx")):
        shape = list(stored[f"{kind}_x"].shape[1:])
        changes: dict[str, Any] = {"input": {"shape": shape, "mean": [0.0], "std": [1.0]}}
        if len(shape) == 1:
            features = {"columns": [f"c{at}" for at in range(shape[0])]}
            changes = {"task": "tabular-classification", "features": features, "input": None}
        found.append((stored[f"{kind}_onnx"].tobytes(), ModelManifest.model_validate(body(**changes))))
    return found


def run_case(number: int, seed: int, given: list[tuple[bytes, ModelManifest]], path: Path) -> str:
    """Return what became of one file: ``refused``, ``not loaded``, ``not run`` or ``ran``."""
    import torch

    from app.models.inspection import inspect_model
    from seatrial.ingest.inspection.errors import InspectionError
    from tests.fuzz.onnx_mutations import mutated
    from workers.errors import TargetError
    from workers.models.exported_module import ProgramError
    from workers.models.torch_onnx import load_onnx

    random = Random(f"{seed} {number}")
    data, manifest = random.choice(given)
    path.write_bytes(mutated(random, data) if number else data)
    try:
        inspect_model(path, "model.onnx", manifest, LIMITS)
    except InspectionError:
        return "refused"
    try:
        classifier = load_onnx(manifest, path, torch.device("cpu"), limits=LIMITS)
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


def child(first: int, cases: int, seed: int, folder: Path) -> NoReturn:
    """Run some cases; a line of JSON for each goes to standard output."""
    given, path = files(), folder / f"case-{os.getpid()}.onnx"
    # The unchanged files first: what torch compiles and imports lazily is not an upload's doing.
    for one in given:
        run_case(0, 0, [one], path)
    is_running = False

    def watch(event: str, arguments: tuple[Any, ...]) -> None:
        if is_running and event in FORBIDDEN:
            if event in ("exec", "compile", "marshal.loads") and _is_harmless():
                return
            os.write(2, f"{event} {arguments!r:.500}\n".encode())
            os._exit(EXECUTED)

    sys.addaudithook(watch)
    for number in range(first, first + cases):
        print(json.dumps({"began": number}), flush=True)
        started, is_running = time.monotonic(), True
        outcome = run_case(number, seed, given, path)
        is_running = False
        used = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
        told = {"number": number, "outcome": outcome, "seconds": time.monotonic() - started, "bytes": used}
        print(json.dumps(told), flush=True)
    sys.exit(0)


def main() -> None:
    """Run all cases and print what became of them."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", type=int, default=10_000)
    parser.add_argument("--first", type=int, default=1)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--child", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child is not None:
        child(options.first, options.cases, options.seed, options.child)
    outcomes: Counter[str] = Counter()
    faults: list[str] = []
    slowest, largest = 0.0, 0
    with tempfile.TemporaryDirectory() as folder:
        first, end = options.first, options.first + options.cases
        while first < end:
            count = min(PER_CHILD, end - first)
            lines, fault = _run_child(first, count, options.seed, folder)
            done = [one for one in lines if "outcome" in one]
            outcomes.update(one["outcome"] for one in done)
            slowest = max([slowest, *(one["seconds"] for one in done)])
            largest = max([largest, *(one["bytes"] for one in done)])
            faults += [f"case {one['number']}: {one['seconds']:.1f} s" for one in done if one["seconds"] > CASE_S]
            last = lines[-1].get("began") if fault and lines else None
            if fault:
                faults.append(f"case {last}: {fault}")
            first = end if fault and last is None else first + count if not fault else int(last) + 1
    print(f"{sum(outcomes.values()):,} files: " + ", ".join(f"{n:,} {what}" for what, n in outcomes.most_common()))
    print(f"slowest {slowest:.2f} s, most memory of a process {largest / 2**20:,.0f} MiB")
    print("\n".join(faults) or "no crash, no hang, nothing executed")
    sys.exit(1 if faults or largest > MOST_BYTES else 0)


def _run_child(first: int, cases: int, seed: int, folder: str) -> tuple[list[dict[str, Any]], str]:
    command = [sys.executable, "-m", "benchmarks.fuzz_onnx", "--child", folder]
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
    told = ended.stderr.strip()[-300:]
    if ended.returncode == 0:
        return lines, ""
    return lines, f"{'executed' if ended.returncode == EXECUTED else f'status {ended.returncode}'}: {told}"


if __name__ == "__main__":
    main()
