"""Turns of projects, and readers of several API processes, on the real store.

    python -m benchmarks.operation turns      # 1,000 queued audits of 10 projects: when is each project's first done?
    python -m benchmarks.operation shares     # the same with real workers on Postgres, of small audits
    python -m benchmarks.operation readers    # 200 readers of 3 API processes on Postgres: is any answer a 503?
    python -m benchmarks.operation claims     # claims beside 100,000 ended audits on Postgres: under 5 ms?

``turns`` claims, ends and charges over the real store (SQLite) as workers do, on a clock of its own: a shard takes two
of its seconds, advancing a tenth. ``readers`` starts real processes. Each ends with status 1 when a target is missed.
"""

import argparse
import asyncio
import heapq
import itertools
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any

import httpx
import psycopg
from sqlalchemy import func, select

from app.access.service import create_key, ensure_project
from seatrial.client import Client
from seatrial.contracts.states import RunState
from seatrial.store.claiming import charge, claim_work
from seatrial.store.database import Database, connect
from seatrial.store.lifecycle import close_check, close_shard, open_stage
from seatrial.store.settings import Settings
from seatrial.store.tables import AuditRow, CheckRow, ShardRow
from tests import assets
from tests.databases import migrated, new_migrated_database
from tests.rows import add_audit, add_project
from tests.servers import free_port, postgres_server
from tests.store.ended import HOT, ended
from workers.runtime.stages import cut, make_shards

PROJECTS, AUDITS, WORKERS = 10, 1000, 4
SHARD_S, ADVANCE_S, SHARDS = 2.0, 0.1, 2
AUDIT_S = SHARDS * SHARD_S + 2 * ADVANCE_S
REAL_WORKERS, TIMED = 2, 100
"""Workers of ``shares``, and ended audits from which on it is known what one takes."""
WITHIN = 2.0
"""Largest multiple of its fair share after which a project's first audit is done."""

READERS, APIS, SECONDS = 200, 3, 30.0

ENDED, QUEUED, ROUNDS = 100_000, 1000, 50
CLAIM_S = 5e-3
"""Most seconds that the median of a claim may take, with its transaction."""


def end(database: Database, table: Any, row_id: str, token: str) -> float:
    """Do what was claimed, and return the seconds it took by the benchmark's clock."""
    with database.write() as session:
        if table is ShardRow:
            close_shard(session, row_id, token, RunState.SUCCEEDED, done=50, seconds=SHARD_S)
            return SHARD_S
        begun = session.scalar(select(func.count()).select_from(ShardRow).where(ShardRow.check_id == row_id))
        if begun:
            close_check(session, row_id, token, RunState.SUCCEEDED)
        else:
            rows = make_shards(row_id, "attack", cut(100, 10, SHARDS))
            open_stage(session, row_id, token, name="attack", source="sample", examples=100, shards=rows)
        return ADVANCE_S


def turns(audits_of: list[int]) -> list[float]:
    """Return when each project's first audit was done, in seconds after all were queued, one project's after the other.

    Args:
        audits_of: Audits of each project.
    """
    with tempfile.TemporaryDirectory() as folder:
        database = migrated(Settings(home=Path(folder)))
        projects = [add_project(database) for _ in audits_of]
        for project, count in zip(projects, audits_of, strict=True):
            for _ in range(count):
                add_audit(database, project_id=project)
        firsts: dict[str, float] = {}
        # A worker's end, its number, and what it does until then.
        busy: list[tuple[float, int, tuple[Any, str, str] | None]] = [(0.0, number, None) for number in range(WORKERS)]
        while len(firsts) < len(projects):
            now, number, held = heapq.heappop(busy)
            if held is not None:
                seconds = end(database, *held)
                with database.write() as session:
                    charge(session, held[0], held[1], seconds)
                    if held[0] is CheckRow:
                        query = select(AuditRow.project_id, AuditRow.state).join(CheckRow)
                        project, state = session.execute(query.where(CheckRow.id == held[1])).one()
                        if state == RunState.SUCCEEDED:
                            firsts.setdefault(project, now)
            with database.write() as session:
                claimed = claim_work(session, lease_s=86_400, worker=str(number))
            takes = 0.01 if claimed is None else SHARD_S if claimed[0] is ShardRow else ADVANCE_S
            heapq.heappush(busy, (now + takes, number, claimed))
        database.dispose()
        return [firsts[project] for project in projects]


def report_turns() -> bool:
    """Print when each project's first audit is done, and return whether all are within reach of their fair share."""
    # Each project has so many workers of its own at most, and an audit of two shards needs no more than two.
    fair_s = AUDIT_S * PROJECTS / WORKERS
    is_fair = True
    for name, audits_of in (
        ("100 audits each", [AUDITS // PROJECTS] * PROJECTS),
        ("910 audits of the first, 10 of each other", [AUDITS - 10 * (PROJECTS - 1), *[10] * (PROJECTS - 1)]),
    ):
        firsts = turns(audits_of)
        told = " ".join(f"{seconds:.1f}" for seconds in firsts)
        print(f"{name}: first done after {told} s; fair share {fair_s:.1f} s; worst {max(firsts) / fair_s:.2f}x")
        is_fair &= max(firsts) <= WITHIN * fair_s
    return is_fair


def queue_all(url: str, database: Database, folder: Path) -> dict[str, list[str]]:
    """Upload to each project a model and data, queue its audits behind those of the project before, and return them."""
    queued: dict[str, list[str]] = {}
    check = {"kind": "uncertainty_span", "epsilon": 0.1, "steps": 5, "effort": "quick"}
    for number in range(PROJECTS):
        secret, _ = create_key(database, f"project-{number}", "benchmark", "run")
        with Client(url, secret) as client:
            model = client.add_model(folder / "m.safetensors", assets.model_manifest(), wait_s=0).id
            data = client.add_dataset(folder / "d.npz", assets.dataset_manifest()).id
            audits = (client.submit(model, data, [check], seed=seed, samples=50) for seed in range(AUDITS // PROJECTS))
            queued[f"project-{number}"] = [one.id for one in audits]
    return queued


def ends(database: Database) -> tuple[datetime, dict[str, datetime]]:
    """Return when the first audit was begun, and when each of those that succeeded ended."""
    with database.read() as session:
        began = session.scalar(select(func.min(AuditRow.started_at)))
        rows = session.execute(select(AuditRow.id, AuditRow.finished_at).where(AuditRow.state == RunState.SUCCEEDED))
        return began or datetime.max, {audit: ended for audit, ended in rows if ended is not None}


def are_enough(queued: Mapping[str, Sequence[str]], ended: Mapping[str, datetime]) -> bool:
    """Return whether every project has an ended audit, and there are enough to tell what one takes."""
    return len(ended) >= TIMED and all(any(one in ended for one in audits) for audits in queued.values())


def report_shares() -> bool:
    """Print when each project's first audit is done by two real workers, and return whether that is a fair share."""
    with postgres_server() as server, tempfile.TemporaryDirectory() as name, ExitStack() as stack:
        if server is None:
            raise SystemExit("no Postgres on this machine")
        folder, port = Path(name), free_port()
        url = stack.enter_context(new_migrated_database(server))
        database = connect(Settings(home=folder, database_url=url))
        stack.callback(database.dispose)
        environment = {**os.environ, "SEATRIAL_DATABASE_URL": url, "SEATRIAL_HOME": name, "SEATRIAL_TORCH_THREADS": "1"}
        (folder / "m.safetensors").write_bytes(assets.weights())
        (folder / "d.npz").write_bytes(assets.npz())
        queued = queue_all(stack.enter_context(api(environment, port)), database, folder)
        for number in range(REAL_WORKERS):
            stack.enter_context(worker(environment, folder / f"worker-{number}.log"))
        while not are_enough(queued, (told := ends(database))[1]):
            time.sleep(1)
    began, ended = told
    # An audit takes so long of all workers, and a project has a tenth of them.
    fair_s = (max(ended.values()) - began).total_seconds() / len(ended) * PROJECTS
    firsts = [min((ended[one] - began).total_seconds() for one in audits if one in ended) for audits in queued.values()]
    print(f"{AUDITS:,} audits of {PROJECTS} projects, {REAL_WORKERS} workers; looked at {len(ended)} that ended")
    print(f"first done after {' '.join(f'{one:.1f}' for one in firsts)} s; fair share {fair_s:.1f} s")
    print(f"worst {max(firsts) / fair_s:.2f}x")
    return max(firsts) <= WITHIN * fair_s


@contextmanager
def api(environment: dict[str, str], port: int) -> Iterator[str]:
    """Run one API process and yield its URL."""
    command = [sys.executable, "-m", "seatrial", "serve", "--port", str(port), "--workers", "0"]
    with subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        url = f"http://127.0.0.1:{port}"
        try:
            for _ in range(300):
                try:
                    if httpx.get(f"{url}/readyz", timeout=5).status_code == 200:
                        break
                except httpx.HTTPError:
                    time.sleep(0.3)
            else:
                raise SystemExit("an API process does not get ready")
            yield url
        finally:
            process.terminate()


@contextmanager
def worker(environment: dict[str, str], log: Path) -> Iterator[None]:
    """Run one worker."""
    with (
        log.open("wb") as output,
        subprocess.Popen([sys.executable, "-m", "seatrial", "worker"], env=environment, stderr=output) as process,
    ):
        try:
            yield
        finally:
            process.terminate()


async def read(urls: list[str], paths: list[str], server: str) -> tuple[Counter[str], list[float], int]:
    """Read by all at once; return statuses, seconds of each answer, and most connections to Postgres."""
    statuses: Counter[str] = Counter()
    times: list[float] = []
    most = 0
    # One client an API process: each makes its own TLS context, which takes longer than a hundred answers.
    limits = httpx.Limits(max_connections=READERS)
    clients = [httpx.AsyncClient(base_url=url, timeout=60, limits=limits, verify=False) for url in urls]
    connection = await psycopg.AsyncConnection.connect(server, autocommit=True)
    until = time.monotonic() + SECONDS

    async def reader(number: int) -> None:
        for turn in itertools.count(number):
            if time.monotonic() >= until:
                return
            began = time.perf_counter()
            try:
                answer = await clients[number % len(clients)].get(paths[turn % len(paths)])
                statuses[str(answer.status_code)] += 1
            except httpx.HTTPError as error:
                statuses[type(error).__name__] += 1
            times.append(time.perf_counter() - began)

    async def watch() -> None:
        nonlocal most
        while time.monotonic() < until:
            asked = await connection.execute("SELECT count(*) FROM pg_stat_activity WHERE datname IS NOT NULL")
            row = await asked.fetchone()
            most = max(most, int(row[0]) if row else 0)
            await asyncio.sleep(0.5)

    await asyncio.gather(watch(), *(reader(number) for number in range(READERS)))
    await connection.close()
    for client in clients:
        await client.aclose()
    return statuses, times, most


def report_readers() -> bool:
    """Print what readers were answered, and return whether none was refused."""
    with postgres_server() as server, tempfile.TemporaryDirectory() as folder:
        if server is None:
            raise SystemExit("no Postgres on this machine")
        with new_migrated_database(server) as url:
            database = connect(Settings(home=Path(folder), database_url=url))
            project = ensure_project(database, "default")
            audits = [add_audit(database, project_id=project, checks=2) for _ in range(200)]
            database.dispose()
            environment = {
                **os.environ,
                **{"SEATRIAL_DATABASE_URL": url, "SEATRIAL_HOME": folder, "SEATRIAL_REQUIRE_KEYS": "false"},
            }
            paths = ["/v1/audits", "/v1/models", "/readyz", *(f"/v1/audits/{audit}" for audit in audits)]
            one, two, three = (free_port() for _ in range(APIS))
            with api(environment, one) as a, api(environment, two) as b, api(environment, three) as c:
                statuses, times, most = asyncio.run(read([a, b, c], paths, server))
    times.sort()
    print(f"{READERS} readers, {APIS} API processes, {SECONDS:g} s: {dict(statuses)}")
    print(f"{most} connections to Postgres at most")
    print(f"answers: median {times[len(times) // 2]:.2f} s, 99 in 100 within {times[len(times) * 99 // 100]:.2f} s")
    return set(statuses) == {"200"}


def claimed(database: Database) -> dict[str, float]:
    """Return the median seconds of each look for work, with its transaction; what is found is claimed."""
    taken: dict[str, list[float]] = {name: [] for name in HOT}
    for _ in range(ROUNDS):
        for name, ask in HOT.items():
            began = time.perf_counter()
            with database.write() as session:
                ask(session)
            taken[name].append(time.perf_counter() - began)
    return {name: statistics.median(seconds) for name, seconds in taken.items()}


def report_claims() -> bool:
    """Print what a look for work takes beside ended audits, with none and with many that wait."""
    with postgres_server() as server, tempfile.TemporaryDirectory() as folder:
        if server is None:
            raise SystemExit("no Postgres on this machine")
        with ended(server, Path(folder), ENDED) as database:
            idle = claimed(database)
            projects = [add_project(database) for _ in range(PROJECTS)]
            for number in range(QUEUED):
                add_audit(database, project_id=projects[number % PROJECTS])
            busy = claimed(database)
    print(
        f"{ENDED:,} audits ended; median of {ROUNDS} looks, ms: none queued, {QUEUED:,} of {PROJECTS} projects queued"
    )
    for name in HOT:
        print(f"{name:16} {idle[name] * 1e3:6.2f} {busy[name] * 1e3:6.2f}")
    return max(*idle.values(), *busy.values()) < CLAIM_S


REPORTS = {"turns": report_turns, "shares": report_shares, "readers": report_readers, "claims": report_claims}


def main() -> None:
    """Run one of them."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("which", choices=REPORTS)
    sys.exit(0 if REPORTS[parser.parse_args().which]() else 1)


if __name__ == "__main__":
    main()
