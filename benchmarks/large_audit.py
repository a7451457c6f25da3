"""One audit of 100,000 images beside a hundred of 1,000, on Postgres with two workers: seconds, and memory.

    python -m benchmarks.large_audit
    python -m benchmarks.large_audit --examples 10000 --parts 10
    python -m benchmarks.large_audit --family certified_calibration --parts 0

Handwritten digits, each with noise of its own, and the small CNN of the tests; `uncertainty_span`, effort quick, a few
steps, or `certified_calibration` with 20 draws. One API process and two workers as an operator starts them, no broker.
First the whole, then the parts, all queued at once; the parts leave the large audit's processes running. Ends with
status 1 when a process needed more than 700 MB, or the whole took more than 1.1 times as long as the parts.
"""

import argparse
import os
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.operation import api, worker
from seatrial.client import Client
from tests import assets
from tests.databases import new_migrated_database
from tests.servers import free_port, postgres_server

EXAMPLES, PARTS, WORKERS = 100_000, 100, 2
MOST_MB, WITHIN = 700.0, 1.1
CHECKS: dict[str, dict[str, Any]] = {
    "uncertainty_span": {"epsilon": 0.1, "steps": 10, "effort": "quick"},
    "certified_calibration": {"n0": 5, "n": 20},
}


def images(path: Path, examples: int) -> None:
    """Write so many digits as an .npz, no two alike."""
    known, labels = assets.digits()
    generator = np.random.default_rng(0)
    chosen = generator.integers(0, len(known), examples)
    noise = generator.integers(-8, 9, (examples, *known.shape[1:]))
    noisy = np.clip(known[chosen].astype(np.int64) + noise, 0, 255).astype(np.uint8)
    np.savez(path, images=noisy, labels=labels[chosen])


class Memory(threading.Thread):
    """The most each process below this one has held, by what it is; looked at four times a second."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.most: dict[str, float] = {}
        self.ended = threading.Event()

    def run(self) -> None:
        """Look until told to end."""
        while not self.ended.wait(0.25):
            for pid, command in descendants(os.getpid()):
                if (name := called(command)) is not None:
                    self.most[name] = max(self.most.get(name, 0.0), peak_mb(pid))

    def since(self) -> dict[str, float]:
        """Return what was most, and begin anew; what the kernel counts of a process goes on from its start."""
        found, self.most = self.most, {}
        return dict(sorted(found.items()))


def descendants(pid: int) -> Iterator[tuple[int, str]]:
    """Yield the processes that a process started, and theirs, with their command lines."""
    try:
        for task in Path(f"/proc/{pid}/task").iterdir():
            for child in (task / "children").read_text().split():
                yield int(child), Path(f"/proc/{child}/cmdline").read_bytes().replace(b"\0", b" ").decode()
                yield from descendants(int(child))
    except (OSError, ProcessLookupError):
        # It has ended meanwhile.
        return


def called(command: str) -> str | None:
    """Return what a process is, by its command line; None of what is the benchmark's own."""
    names = {" serve ": "API", "workers.local": "worker", "sandbox.zygote": "a worker's children", "postgres": ""}
    return next((name or None for word, name in names.items() if word in command), None)


def peak_mb(pid: int) -> float:
    """Return the most memory a process has had at a time, pages it shares with others included; 0 once it has ended."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except (OSError, ProcessLookupError):
        return 0.0
    return next((int(line.split()[1]) / 1000 for line in lines if line.startswith("VmHWM")), 0.0)


def ran(client: Client, check: dict[str, Any], model: str, data: str, audits: int, samples: int) -> float:
    """Return the seconds until so many audits, submitted at once, have all succeeded."""
    began = time.monotonic()
    # Other seeds: other examples, and nothing to take over.
    asked = [
        client.submit(model, data, [check], seed=1 + number, samples=samples, batch_size=250)
        for number in range(audits)
    ]
    for one in asked:
        ended = client.wait(one.id)
        if ended.state != "succeeded":
            raise SystemExit(f"an audit {ended.state}: {ended.checks}")
    return time.monotonic() - began


def told(held: dict[str, float]) -> str:
    """Return what each kind of process held, in words."""
    return ", ".join(f"{name} {most:.0f}" for name, most in held.items())


def main() -> None:
    """Measure both."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--examples", type=int, default=EXAMPLES)
    parser.add_argument("--parts", type=int, default=PARTS, help="0: the whole alone")
    parser.add_argument("--family", choices=CHECKS, default="uncertainty_span")
    asked = parser.parse_args()
    check = {"kind": asked.family, **CHECKS[asked.family]}
    with ExitStack() as stack:
        server = stack.enter_context(postgres_server())
        if server is None:
            raise SystemExit("no Postgres on this machine")
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        environment = {
            **os.environ,
            "SEATRIAL_DATABASE_URL": stack.enter_context(new_migrated_database(server)),
            "SEATRIAL_HOME": str(folder / "home"),
            "SEATRIAL_REQUIRE_KEYS": "false",
            "SEATRIAL_TORCH_THREADS": "1",
            "SEATRIAL_POLL_S": "0.1",
            "OMP_NUM_THREADS": "1",
        }
        images(folder / "digits.npz", asked.examples)
        (folder / "m.safetensors").write_bytes(assets.weights())
        url = stack.enter_context(api(environment, free_port()))
        for number in range(WORKERS):
            stack.enter_context(worker(environment, folder / f"worker-{number}.log"))
        memory = Memory()
        memory.start()
        client = stack.enter_context(Client(url))
        model = client.add_model(folder / "m.safetensors", assets.model_manifest()).id
        data = client.add_dataset(folder / "digits.npz", assets.dataset_manifest()).id
        ran(client, check, model, data, 1, 500)
        memory.since()
        whole = ran(client, check, model, data, 1, asked.examples)
        held = memory.since()
        print(f"one audit of {asked.examples:,}: {whole:.0f} s; at most, in MB: {told(held)}", flush=True)
        ratio = 0.0
        if asked.parts:
            each = asked.examples // asked.parts
            parts = ran(client, check, model, data, asked.parts, each)
            ratio = whole / parts
            print(f"{asked.parts} of {each:,}: {parts:.0f} s, so the whole took {ratio:.2f}x; {told(memory.since())}")
        memory.ended.set()
    sys.exit(0 if ratio <= WITHIN and max(held.values()) <= MOST_MB else 1)


if __name__ == "__main__":
    main()
