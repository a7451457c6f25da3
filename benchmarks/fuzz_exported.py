"""Exported programs changed at random: none crashes or hangs what runs it, fills memory, or executes anything.

    python -m benchmarks.fuzz_exported                # 10,000 archives
    python -m benchmarks.fuzz_exported --first 4711 --cases 1

Archives of four networks (tests/models/exportable.py and one written by hand) are changed in their operators,
arguments, shapes, payloads and containers (tests/fuzz/exported_mutations.py), inspected as an upload is, and where that
accepts them loaded, traced and run forward and backward. Children run them, 1,000 each; an audit hook ends one that
executes code, opens a connection, starts a process or unpickles. Ends with status 1 when any did, or was over 10 s or
2 GB.
"""

import argparse
import io
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
import zipfile
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from random import Random
from typing import Any, NoReturn

from seatrial.contracts.models import ModelManifest
from seatrial.store.settings import Settings

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


def archives(folder: Path) -> list[tuple[dict[str, bytes], ModelManifest]]:
    """Write the archives to start from, once; return their files and manifests."""
    from tests.ingest.exported_programs import exported_manifest, files
    from tests.models import exportable
    from tests.models.builders import manifest

    found = [(files(), exported_manifest())]
    spec = {"shape": list(exportable.SHAPE), "mean": [0.0], "std": [1.0]}
    for kind in exportable.KINDS:
        path = folder / f"{kind}.pt2"
        if not path.exists():
            exportable.export(exportable.made(kind), path)
        with zipfile.ZipFile(path) as archive:
            of_kind = {name: archive.read(name) for name in archive.namelist()}
        found.append((of_kind, manifest({"kind": "exported"}, input=spec, labels=list("abcd"))))
    return found


def run_case(number: int, seed: int, given: list[tuple[dict[str, bytes], ModelManifest]], path: Path) -> str:
    """Return what became of one archive: ``refused``, ``not loaded``, ``not run`` or ``ran``."""
    import torch

    from app.models.inspection import inspect_model
    from seatrial.ingest.inspection.errors import InspectionError
    from tests.fuzz.exported_mutations import mutated
    from workers.errors import TargetError
    from workers.models.exported_module import ProgramError
    from workers.models.torch_exported import load_exported_image

    random = Random(f"{seed} {number}")
    files, manifest = random.choice(given)
    path.write_bytes(mutated(random, files) if number else _packed(files))
    try:
        inspect_model(path, "model.pt2", manifest, LIMITS)
    except InspectionError:
        return "refused"
    try:
        classifier = load_exported_image(manifest, path, torch.device("cpu"), limits=LIMITS)
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


def _packed(files: Mapping[str, bytes]) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name, data in files.items():
            archive.writestr(name, data)
    return buffer.getvalue()


def child(first: int, cases: int, seed: int, folder: Path) -> NoReturn:
    """Run some cases; a line of JSON for each goes to standard output."""
    given = archives(folder)
    path = folder / f"case-{os.getpid()}.pt2"
    # The unchanged archives first: what torch compiles and imports lazily is not an upload's doing.
    for number in range(4):
        Path(path).write_bytes(_packed(given[number][0]))
        run_case(0, number, [given[number]], path)
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
        started = time.monotonic()
        is_running = True
        outcome = run_case(number, seed, given, path)
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
        archives(Path(folder))
        first, end = options.first, options.first + options.cases
        while first < end:
            count = min(PER_CHILD, end - first)
            lines, fault = _run_child(first, count, options.seed, folder)
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
    print(f"{sum(outcomes.values()):,} archives: " + ", ".join(f"{n:,} {what}" for what, n in outcomes.most_common()))
    print(f"slowest {slowest:.2f} s, most memory of a process {largest / 2**20:,.0f} MiB")
    print("\n".join(faults) or "no crash, no hang, nothing executed")
    sys.exit(1 if faults or largest > MOST_BYTES else 0)


def _run_child(first: int, cases: int, seed: int, folder: str) -> tuple[list[dict[str, Any]], str]:
    command = [sys.executable, "-m", "benchmarks.fuzz_exported", "--child", folder]
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


if __name__ == "__main__":
    main()
