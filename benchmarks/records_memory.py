"""Eight downloads of a million records at once, and what they leave of an API process's memory.

    python -m benchmarks.records_memory [--rows 1000000] [--format parquet]

Linux only: sizes are the kernel's own (VmRSS, VmHWM).
"""

import argparse
import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import httpx
import numpy as np
import pyarrow as pa

from seatrial.store.artifacts import open_store
from seatrial.store.database import connect
from seatrial.store.migrations import upgrade
from seatrial.store.records import to_parquet
from seatrial.store.settings import Settings
from seatrial.store.tables import AuditRow, CheckRow, DatasetRow, ModelRow, ProjectRow, ShardRow, StageRow

PORT = 8794
AT_ONCE = 8
SHARD_ROWS = 10_000
SERVE = f"""
import uvicorn
from app.main import create_app
uvicorn.run(create_app(), host="127.0.0.1", port={PORT}, log_level="error", access_log=False)
"""


def table(start: int, stop: int) -> pa.Table:
    """Return records as wide as those of an attack: ids, labels, twelve numbers that do not compress."""
    rng = np.random.default_rng(start)
    numbers = {f"value_{n}": pa.array(rng.normal(size=stop - start)) for n in range(12)}
    ids = pa.array(range(start, stop), pa.int64())
    return pa.table({"example_id": ids, "label": pa.array(rng.integers(0, 10, stop - start)), **numbers})


def fill(home: Path, rows: int) -> None:
    """Store an audit with a stage of so many records."""
    settings = Settings(home=home)
    database, store = connect(settings), open_store(settings)
    upgrade(database)
    named = {"name": "n", "version": "1", "task": "image-classification", "manifest": {}, "size_bytes": 1}
    digest = "sha256:" + "0" * 64
    edges = range(0, rows, SHARD_ROWS)
    with database.write() as session:
        project = "prj_1"
        session.add(ProjectRow(id=project, name="default"))
        session.flush()
        of = {"project_id": project, "digest": digest}
        session.add(ModelRow(id="mdl_1", **of, **named, format="safetensors", state="ready"))
        session.add(DatasetRow(id="dat_1", **of, **named, format="npz", split="test", facts={"examples": rows}))
        session.flush()
        spec = {"id": "aud_1", "project_id": project, "model_id": "mdl_1", "dataset_id": "dat_1", "seed": 0}
        session.add(AuditRow(**spec, samples=rows, spec={}, spec_digest=digest, state="succeeded"))
        session.flush()
        session.add(CheckRow(id="chk_1", audit_id="aud_1", ordinal=0, kind="toy", params={}, state="succeeded"))
        session.flush()
        stage = {"check_id": "chk_1", "name": "attack", "ordinal": 0, "source": "sample"}
        session.add(StageRow(**stage, examples=rows, shards=len(edges)))
        for ordinal, start in enumerate(edges):
            stop = min(rows, start + SHARD_ROWS)
            piece = {"id": f"shd_{ordinal:05}", "check_id": "chk_1", "stage": "attack", "ordinal": ordinal}
            records = store.put_bytes(to_parquet(table(start, stop)))
            session.add(ShardRow(**piece, start=start, stop=stop, state="succeeded", records_digest=records))
    database.dispose()


def size_mb(pid: int, what: str) -> float:
    """Return VmRSS or VmHWM of a process."""
    found = re.search(rf"{what}:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text())
    if found is None:
        raise RuntimeError(f"no {what} of process {pid}")
    return int(found[1]) / 1024


def main() -> int:
    """Run it and print the sizes."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--format", default="parquet", choices=("parquet", "jsonl", "csv"))
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        fill(Path(folder), given.rows)
        env = {**os.environ, "SEATRIAL_HOME": folder, "SEATRIAL_REQUIRE_KEYS": "false", "SEATRIAL_LOG_LEVEL": "warning"}
        server = subprocess.Popen([sys.executable, "-c", SERVE], env=env)
        address = f"http://127.0.0.1:{PORT}/v1/audits/aud_1/records/0?format={given.format}"
        received: list[int] = []

        def download() -> None:
            with httpx.stream("GET", address, timeout=600) as answer:
                answer.raise_for_status()
                received.append(sum(len(chunk) for chunk in answer.iter_bytes()))

        try:
            while True:
                try:
                    httpx.get(f"http://127.0.0.1:{PORT}/readyz").raise_for_status()
                    break
                except httpx.TransportError:
                    time.sleep(0.05)
            idle = size_mb(server.pid, "VmRSS")
            began = time.perf_counter()
            threads = [threading.Thread(target=download) for _ in range(AT_ONCE)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            seconds = time.perf_counter() - began
            time.sleep(2)
            peak, after = size_mb(server.pid, "VmHWM"), size_mb(server.pid, "VmRSS")
        finally:
            server.send_signal(signal.SIGTERM)
            server.wait()
    print(
        f"{given.rows:,} rows as {given.format}, {AT_ONCE} downloads of {max(received) / 1e6:.0f} MB at once: idle "
        f"{idle:.0f} MB, peak {peak:.0f} MB, afterwards {after:.0f} MB; {seconds:.1f} s"
    )
    return 0 if len(set(received)) == 1 and len(received) == AT_ONCE else 1


if __name__ == "__main__":
    sys.exit(main())
