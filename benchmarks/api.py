"""Reading audits: at least 200 reads a second with p95 under 100 ms, and pages that cost the same however deep.

    python -m benchmarks.api

One uvicorn worker on SQLite, one busy core beside it (an audit's worker), a client on the same machine: on two cores
all three compete. Reads go over 16 connections at 200 a second and then as fast as they are answered. Ends with status
1 when a target is missed.
"""

import asyncio
import multiprocessing
import os
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx
from sqlalchemy import insert

from app.access.service import ensure_project
from seatrial.store.database import Database, connect
from seatrial.store.ids import new_id
from seatrial.store.migrations import upgrade
from seatrial.store.settings import Settings
from seatrial.store.tables import AuditRow, CheckRow, DatasetRow, ModelRow, ShardRow, StageRow

PORT = 8792
AUDITS = 100_000
SHARDS = 40
READS_PER_S = 200
P95_MS = 100.0
SECONDS = 10
CONNECTIONS = 16
DIGEST = "sha256:" + "0" * 64
SERVE = f"""
import uvicorn
from app.main import create_app
uvicorn.run(create_app(), host="127.0.0.1", port={PORT}, log_level="error", access_log=False)
"""


def result() -> dict[str, Any]:
    """Return a result as large as a real one: estimates with intervals, diagrams, histograms."""
    estimate = {"value": 0.41, "low": 0.38, "high": 0.44, "n": 500, "method": "bootstrap"}
    curve = [n / 50 for n in range(50)]
    return {
        "estimates": {f"ece[arm=clean{n}]": estimate for n in range(40)},
        "series": {f"diagram_{n}": {"x": curve, "y": curve} for n in range(8)},
        "flags": [{"code": "zero_gradients", "severity": "warning", "message": "Gradients vanish." * 5}],
        "counts": {"n": 500, "errored": 0},
    }


def fill(database: Database) -> str:
    """Insert the audits, one of them running with two checks, and return its id."""
    project = ensure_project(database, "default")
    model, dataset = new_id("mdl"), new_id("dat")
    common = {"project_id": project, "name": "m", "version": "1", "task": "image-classification", "manifest": {}}
    spec = {"checks": [{"kind": "uncertainty_span", "epsilon": 0.1}], "seed": 0, "samples": 500}
    now = datetime.now(UTC)
    with database.write() as session:
        session.add(ModelRow(id=model, digest=DIGEST, size_bytes=1, format="safetensors", **common))
        facts = {"examples": 1000, "classes": 10}
        session.add(
            DatasetRow(id=dataset, digest=DIGEST, size_bytes=1, format="npz", split="test", facts=facts, **common)
        )
        session.flush()
        audit = {
            "project_id": project,
            "model_id": model,
            "dataset_id": dataset,
            "seed": 0,
            "samples": 500,
            "spec": spec,
            "spec_digest": DIGEST,
            "created_at": now,
        }
        rows = [{**audit, "id": new_id("aud"), "state": "succeeded"} for _ in range(AUDITS)]
        for start in range(0, AUDITS, 5000):
            session.execute(insert(AuditRow), rows[start : start + 5000])
        running = new_id("aud")
        session.execute(insert(AuditRow), [{**audit, "id": running, "state": "running"}])
        for ordinal, state in enumerate(("succeeded", "running")):
            check = new_id("chk")
            told = result() if state == "succeeded" else None
            session.add(
                CheckRow(
                    id=check,
                    audit_id=running,
                    ordinal=ordinal,
                    kind="uncertainty_span",
                    params=spec["checks"][0],
                    state=state,
                    stage="attack",
                    result=told,
                    estimated_s=300.0,
                )
            )
            session.flush()
            session.add(
                StageRow(check_id=check, name="attack", ordinal=0, source="sample", examples=500, shards=SHARDS)
            )
            session.add_all(
                ShardRow(
                    id=new_id("shd"),
                    check_id=check,
                    stage="attack",
                    ordinal=n,
                    start=n * 10,
                    stop=n * 10 + 10,
                    state="succeeded"
                    if ordinal == 0 or n < SHARDS // 2
                    else "running"
                    if n == SHARDS // 2
                    else "queued",
                    done=10 if ordinal == 0 or n < SHARDS // 2 else 0,
                    seconds=1.0,
                    started_at=now,
                )
                for n in range(SHARDS)
            )
    return running


def hog() -> None:
    """Keep one core busy, as a worker does."""
    while True:
        sum(range(100_000))


async def read_at_rate(path: str, per_s: float | None) -> tuple[float, float, float]:
    """Read for ``SECONDS``, at a rate or as fast as answered; return reads a second, p50 and p95 in milliseconds."""
    taken: list[float] = []
    began = time.perf_counter()
    due = iter(range(int(per_s * SECONDS))) if per_s else None

    async def reader() -> None:
        # A socket and no more: an HTTP client library costs more processor than the service it would measure.
        stream, writer = await asyncio.open_connection("127.0.0.1", PORT)
        request = f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1:{PORT}\r\n\r\n".encode()
        while time.perf_counter() - began < SECONDS:
            asked = time.perf_counter()
            if due is not None and per_s:
                number = next(due, None)
                if number is None:
                    break
                # Latency counts from when a read was due, so that a stall is not left out.
                asked = began + number / per_s
                await asyncio.sleep(max(asked - time.perf_counter(), 0))
            writer.write(request)
            head = await stream.readuntil(b"\r\n\r\n")
            if not head.startswith(b"HTTP/1.1 200"):
                raise RuntimeError(head.decode())
            length = int(head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0])
            await stream.readexactly(length)
            taken.append(time.perf_counter() - asked)
        writer.close()

    await asyncio.gather(*(reader() for _ in range(CONNECTIONS)))
    seconds = time.perf_counter() - began
    cuts = statistics.quantiles(taken, n=20)
    return len(taken) / seconds, 1000 * cuts[9], 1000 * cuts[18]


def page_ms(base: str) -> tuple[float, float]:
    """Return the milliseconds of a first page and of a page behind 95,000 audits."""
    with httpx.Client(timeout=30) as client:
        cursor: str | None = None
        for _ in range(95_000 // 200):
            query = {"limit": 200, **({"cursor": cursor} if cursor else {})}
            cursor = client.get(f"{base}/v1/audits", params=query).json()["next"]

        def median(params: dict[str, Any]) -> float:
            taken = []
            for _ in range(40):
                began = time.perf_counter()
                client.get(f"{base}/v1/audits", params=params).raise_for_status()
                taken.append(time.perf_counter() - began)
            return 1000 * statistics.median(taken)

        return median({"limit": 50}), median({"limit": 50, "cursor": cursor})


def main() -> int:
    """Run it and tell whether the targets are met."""
    with tempfile.TemporaryDirectory() as folder:
        settings = Settings(home=Path(folder), require_keys=False)
        database = connect(settings)
        upgrade(database)
        running = fill(database)
        database.dispose()
        env = {**os.environ, "SEATRIAL_HOME": folder, "SEATRIAL_REQUIRE_KEYS": "false", "SEATRIAL_LOG_LEVEL": "warning"}
        server = subprocess.Popen([sys.executable, "-c", SERVE], env=env)
        busy = multiprocessing.Process(target=hog, daemon=True)
        base = f"http://127.0.0.1:{PORT}"
        try:
            for _ in range(200):
                try:
                    size = len(httpx.get(f"{base}/v1/audits/{running}").raise_for_status().content)
                    break
                except httpx.TransportError:
                    time.sleep(0.05)
            first, deep = page_ms(base)
            busy.start()
            rate, p50, p95 = asyncio.run(read_at_rate(f"/v1/audits/{running}", READS_PER_S))
            most, _, most_p95 = asyncio.run(read_at_rate(f"/v1/audits/{running}", None))
        finally:
            server.send_signal(signal.SIGTERM)
            server.wait()
            if busy.is_alive():
                busy.terminate()
    print(f"an audit of 2 checks, {2 * SHARDS} shards, {size / 1000:.1f} kB; {AUDITS:,} audits; one core busy")
    print(f"at {READS_PER_S} reads/s: {rate:.0f} answered/s, p50 {p50:.1f} ms, p95 {p95:.1f} ms (target {P95_MS:g})")
    print(f"at full speed: {most:.0f} reads/s, p95 {most_p95:.1f} ms, {most / READS_PER_S:.2f}x the target of 200")
    print(f"page 1: {first:.1f} ms; page behind 95,000 audits: {deep:.1f} ms; ratio {deep / first:.2f}")
    is_met = rate >= 0.98 * READS_PER_S and p95 < P95_MS and deep / first < 1.5
    print("targets met" if is_met else "TARGET MISSED")
    return 0 if is_met else 1


if __name__ == "__main__":
    sys.exit(main())
