"""What stays true over years: damage, idle and lost processes, deletion, quotas, a database that is away.

    python -m benchmarks.endurance          # everything
    python -m benchmarks.endurance disk     # a full disk alone

One API process and two polling workers as real processes on Postgres, with the settings that are shipped. Prints a line
for each figure; ends with status 1 where one is not as it should be. The full disk is a file system in memory that is
filled to its last byte: mounting it takes root, and is said where it cannot be.
"""

import argparse
import errno
import os
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg
from sqlalchemy import func, select

from seatrial.store.database import Database, connect
from seatrial.store.settings import Settings
from seatrial.store.tables import AuditRow, CheckRow, ShardRow, TombstoneRow
from tests import assets
from tests.databases import new_database
from tests.e2e.versions import Version
from tests.servers import eventually, postgres_server

ROOT = Path(__file__).resolve().parents[1]
FLIPS = 40
IDLE_S = 80.0
"""Longer than workers once were idle before they counted as dead."""
FULL_S = 60.0
"""Longer than a full disk once took to burn all attempts."""
DISK_MB = 64

failed: list[str] = []


def tell(line: str, what: str, value: str, is_right: bool) -> None:
    """Print a figure of a line of the list this began with."""
    print(f"{line:>3}  {'ok  ' if is_right else 'FAIL'}  {what}: {value}", flush=True)
    if not is_right:
        failed.append(what)


def submit(service: Version, pair: tuple[str, str], **more: Any) -> Any:
    """Submit an audit and return the answer."""
    check = {"kind": "uncertainty_span", "epsilon": 0.1, "steps": more.pop("steps", 10), "effort": "quick"}
    body = {"model": pair[0], "dataset": pair[1], "samples": 100, "checks": [check], **more}
    return service.client.post("/v1/audits", json=body)


def ended(service: Version, audit: str) -> str:
    """Wait for the end of an audit and return its state."""
    over = ("succeeded", "failed", "cancelled")
    eventually(lambda: service.client.get(f"/v1/audits/{audit}").json()["state"] in over, timeout_s=600)
    return str(service.client.get(f"/v1/audits/{audit}").json()["state"])


def flips(service: Version, database: Database, audit: str) -> None:
    """Flip single bits in the audit's records, each time in another place, and read them."""
    with database.read() as session:
        query = select(ShardRow.records_digest).join(CheckRow).where(CheckRow.audit_id == audit)
        digests = session.scalars(query.where(ShardRow.stage == "attack").order_by(ShardRow.ordinal)).all()
    path = service.home / "artifacts" / digests[0][7:9] / digests[0][7:]
    where, asked = f"/v1/audits/{audit}/records/0", {"stage": "attack", "format": "jsonl"}
    whole, draw = path.read_bytes(), random.Random(0)
    true = service.client.get(where, params=asked).content
    told: Counter[str] = Counter()
    for _ in range(FLIPS):
        damaged = bytearray(whole)
        at = draw.randrange(len(damaged))
        damaged[at] ^= 1 << draw.randrange(8)
        path.write_bytes(damaged)
        answer = service.client.get(where, params=asked)
        known = answer.headers["content-type"].startswith("application/problem")
        told["true numbers" if answer.content == true else answer.json()["code"] if known else "other numbers"] += 1
    path.write_bytes(whole)
    is_right = told == {"artifact-damaged": FLIPS} and service.client.get(where, params=asked).content == true
    tell("1", f"{FLIPS} single flips in a records file", str(dict(told)), is_right)


def metric(service: Version, name: str) -> float:
    """Return a gauge."""
    lines = service.client.get("/metrics").text.splitlines()
    return float(next(line for line in lines if line.startswith(f"{name} ")).rpartition(" ")[2])


def lost_worker(service: Version, database: Database, pair: tuple[str, str]) -> None:
    """Kill the worker that holds a shard; there is no scheduler, and the other one is idle."""
    audit = submit(service, pair, steps=4000, shards=1, samples=290).json()["id"]

    def held() -> str | None:
        with database.read() as session:
            query = select(ShardRow.worker).join(CheckRow).where(CheckRow.audit_id == audit)
            return session.scalar(query.where(ShardRow.state == "running", ShardRow.stage == "attack"))

    first = str(eventually(held, timeout_s=120))
    # host:pid:...
    pid = next(process.pid for process in service.processes if f":{process.pid}" in first)
    os.kill(pid, signal.SIGKILL)
    began = time.monotonic()
    eventually(lambda: (held() or first) != first, timeout_s=300, what="another worker")
    taken = time.monotonic() - began
    tell("7", "a killed worker's shard is taken over without a scheduler after", f"{taken:.0f} s", taken < 125)
    open_stream(service, audit)


def open_stream(service: Version, audit: str) -> None:
    """Ask an API process to end while somebody follows an audit that goes on."""
    opened = threading.Event()

    def follow() -> None:
        with service.client.stream("GET", f"/v1/audits/{audit}/events") as answer:
            for _ in answer.iter_lines():
                opened.set()

    thread = threading.Thread(target=follow, daemon=True)
    thread.start()
    assert opened.wait(30)
    api = service.processes[0]
    began = time.monotonic()
    api.terminate()
    api.wait(timeout=120)
    tell("9", "SIGTERM with an event stream open ends after", f"{time.monotonic() - began:.1f} s", True)
    service.processes.remove(api)
    service.start("serve", "--host", "127.0.0.1", "--port", str(service.port), "--workers", "0")
    eventually(service.is_ready, timeout_s=120)
    service.client.post(f"/v1/audits/{audit}/cancel")
    ended(service, audit)


def quotas(service: Version, pair: tuple[str, str]) -> None:
    """Submit many at once where one may be unfinished."""
    service.client.patch("/v1/projects/default", json={"quotas": {"unfinished_audits": 1}})
    with ThreadPoolExecutor(20) as pool:
        answers = list(pool.map(lambda seed: submit(service, pair, seed=seed, steps=400), range(20)))
    told = Counter(answer.status_code for answer in answers)
    tell("11", "20 audits at once where 1 may be unfinished", str(dict(told)), told == {202: 1, 429: 19})
    service.client.patch("/v1/projects/default", json={"quotas": {"unfinished_audits": None}})
    (audit,) = (answer.json()["id"] for answer in answers if answer.status_code == 202)
    ended(service, audit)


def deletion(service: Version, database: Database, pair: tuple[str, str]) -> None:
    """Delete a model with its audits."""
    refused = service.client.delete(f"/v1/models/{pair[0]}")
    began = time.monotonic()
    gone = service.client.delete(f"/v1/models/{pair[0]}", params={"cascade": True})
    took = time.monotonic() - began
    with database.read() as session:
        left = session.scalar(select(func.count()).select_from(AuditRow)) or 0
        stones = session.scalar(select(func.count()).select_from(TombstoneRow)) or 0
    is_right = (refused.status_code, gone.status_code, left, stones) == (409, 200, 0, 1 + len(gone.json()["along"]))
    told = f"{refused.status_code}, then with cascade {gone.status_code} in {1000 * took:.0f} ms, {stones} tombstones"
    tell("10", "a model that audits use is deleted", told, is_right)


def database_away(service: Version, url: str) -> None:
    """Ask for metrics while nobody may connect to the database."""
    name = url.partition("?")[0].rpartition("/")[2]
    with psycopg.connect(url.replace(f"/{name}", "/postgres", 1).replace("+psycopg", ""), autocommit=True) as server:
        server.execute(f"ALTER DATABASE {name} ALLOW_CONNECTIONS false")
        server.execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s", [name])
        time.sleep(6)
        began = time.monotonic()
        answer = service.client.get("/metrics")
        took = time.monotonic() - began
        server.execute(f"ALTER DATABASE {name} ALLOW_CONNECTIONS true")
    is_right = answer.status_code == 200 and "seatrial_database_up 0.0" in answer.text
    tell("12", "/metrics with the database away", f"{answer.status_code} after {took:.1f} s", is_right)


@contextmanager
def disk(megabytes: int) -> Iterator[Path | None]:
    """Yield a folder on a disk of its own, of so many megabytes; None where this process may mount none."""
    with tempfile.TemporaryDirectory() as folder:
        mount = ["mount", "-t", "tmpfs", "-o", f"size={megabytes}m,mode=0755", "tmpfs", folder]
        if subprocess.run(mount, capture_output=True).returncode:
            yield None
            return
        try:
            yield Path(folder)
        finally:
            subprocess.run(["umount", "--lazy", folder], check=True)


def fill(path: Path) -> None:
    """Write until there is no room for another byte."""
    with path.open("wb", buffering=0) as file:
        for size in (2**20, 4096, 1):
            try:
                while True:
                    file.write(bytes(size))
            except OSError as error:
                if error.errno != errno.ENOSPC:
                    raise


def full_disk(service: Version, database: Database, home: Path) -> None:
    """Audit while the disk has no room, upload to it, and make room."""
    pair = uploaded(service)
    fill(filler := home / "filler")
    audit = submit(service, pair, steps=20).json()["id"]
    refused = service.client.post("/v1/models", **model_files("other")).status_code
    time.sleep(FULL_S)
    with database.read() as session:
        held = select(ShardRow).join(CheckRow).where(CheckRow.audit_id == audit)
        shards = session.scalars(held).all()
        attempts, deferrals = (max(getattr(one, name) for one in shards) for name in ("attempts", "deferrals"))
    state = service.client.get(f"/v1/audits/{audit}").json()["state"]
    told = f"audit {state}, {deferrals} times put off, {attempts} attempts counted; an upload: {refused}"
    is_right = (state, refused) == ("running", 507) and deferrals > 0 and attempts <= 1
    tell("8", f"a disk that is full for {FULL_S:.0f} s", told, is_right)
    filler.unlink()
    began, state = time.monotonic(), ended(service, audit)
    tell("8", "the audit, once there is room", f"{state} after {time.monotonic() - began:.0f} s", state == "succeeded")
    uploaded_after = service.client.post("/v1/models", **model_files("other")).status_code
    tell("8", "the upload, once there is room", str(uploaded_after), uploaded_after == 201)


def model_files(name: str) -> dict[str, Any]:
    """Return an upload of a model."""
    return assets.multipart(assets.model_manifest(name=name), "m.safetensors", assets.weights())


def uploaded(service: Version) -> tuple[str, str]:
    """Upload a model and a dataset, and return them once they can be audited."""
    model = service.client.post("/v1/models", **model_files("m")).json()["id"]
    data = assets.multipart(assets.dataset_manifest(), "d.npz", assets.npz())
    pair = (model, service.client.post("/v1/datasets", **data).json()["id"])
    eventually(lambda: service.client.get(f"/v1/models/{model}").json()["state"] == "ready", timeout_s=120)
    return pair


def health(service: Version) -> None:
    """Ask whether the workers here live, as a container's health check does."""
    began = time.monotonic()
    command = [sys.executable, "-P", "-m", "seatrial", "health"]
    done = subprocess.run(command, capture_output=True, env=service.environment)
    took = time.monotonic() - began
    tell("14", "seatrial health, its process included", f"{took:.2f} s", done.returncode == 0)


def main() -> None:
    """Measure, and end with status 1 where something is not as it should be."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", nargs="?", choices=("all", "disk"), default="all")
    asked = parser.parse_args().what
    with postgres_server() as server, tempfile.TemporaryDirectory() as folder:
        if server is None:
            sys.exit("no Postgres on this machine")
        if asked == "all":
            with new_database(server) as url:
                measure(Version(ROOT, Path(folder), url, "service"), url)
        with new_database(server) as url, disk(DISK_MB) as home:
            if home is None:
                print("  8  not measured: this process may not mount a disk")
            else:
                on_disk(Version(ROOT, Path(folder), url, "disk"), url, home)
    sys.exit(1 if failed else 0)


def on_disk(service: Version, url: str, home: Path) -> None:
    """Measure with a service whose files, but for its log, lie on a disk of their own."""
    service.environment |= {"SEATRIAL_HOME": str(home), "SEATRIAL_POLL_S": "0.1"}
    database = connect(Settings(home=home, database_url=url))
    service.run("migrate")
    try:
        service.start_both()
        full_disk(service, database, home)
    finally:
        database.dispose()
        service.stop()


def measure(service: Version, url: str) -> None:
    """Measure everything, in an order that wastes no waiting."""
    for name in ("LEASE_S", "HEARTBEAT_S", "POLL_S"):
        del service.environment[f"SEATRIAL_{name}"]
    database = connect(Settings(home=service.home, database_url=url))
    service.run("migrate")
    try:
        service.start_both()
        service.start("worker")
        pair = uploaded(service)
        audit = submit(service, pair, shards=2).json()["id"]
        assert ended(service, audit) == "succeeded"
        idle_since = time.monotonic()
        flips(service, database, audit)
        health(service)
        time.sleep(max(0.0, idle_since + IDLE_S - time.monotonic()))
        alive = metric(service, "seatrial_workers_alive")
        tell("6", f"workers alive of two, idle for {IDLE_S:.0f} s", f"{alive:.0f}", alive == 2)
        quotas(service, pair)
        lost_worker(service, database, pair)
        deletion(service, database, pair)
        database_away(service, url)
    finally:
        database.dispose()
        service.stop()


if __name__ == "__main__":
    main()
