"""What the engine of jobs adds to computing: seconds to the verdict of a tiny audit, and shards a second.

    python -m benchmarks.scheduling            # SQLite with polling workers, then Postgres with a broker
    python -m benchmarks.scheduling --only sqlite

An audit of 50 handwritten digits by one warm worker, from its submission to its verdict, beside the same stages called
one after the other in this process; leases, sweeps and looks of workers are those of a service by default. Then audits
whose shards hold next to nothing, by one, two and four workers. Ends with status 1 when a verdict takes more than 1.5
times the bare computation and a second.
"""

import argparse
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import torch
from sqlalchemy import func, select

from seatrial.families.uncertainty_span.params import UncertaintySpanParams
from seatrial.store.settings import Settings
from seatrial.store.tables import ShardRow
from tests import assets
from tests.databases import new_migrated_database
from tests.e2e.deployment import Deployment
from tests.families.in_memory import Model, run_check
from tests.servers import broker, postgres_server
from workers.runtime.families import find_family

TIMES, WITHIN, LATENCY_S = 7, 1.5, 1.0
SAMPLES = 50
CHECK: dict[str, Any] = {"kind": "uncertainty_span", "epsilon": 0.1, "steps": 20, "effort": "quick"}
POLICY = {"name": "tiny", "rules": [{"metric": "uncertainty_span.mus_worst", "max": 3.0}]}
AUDITS, SHARDS = 8, 25
DEFAULTS = {
    f"SEATRIAL_{name.upper()}": str(Settings.model_fields[name].default)
    for name in ("lease_s", "heartbeat_s", "reap_s", "poll_s")
}
"""Settings that tests of killed workers shorten, and that a service has by default."""

TINY: dict[str, Any] = {**CHECK, "steps": 1}


def bare() -> float:
    """Return the median seconds of the stages of the tiny audit's check, with nothing around them."""
    images, labels = (torch.from_numpy(array[1000 : 1000 + SAMPLES]) for array in assets.digits())
    network = assets.trained()
    model, params = Model(network, 10), UncertaintySpanParams(**CHECK)
    taken = []
    for _ in range(TIMES):
        began = time.perf_counter()
        run_check(find_family(params.kind), params, model, (images.float() / 255, labels), batch_size=SAMPLES)
        taken.append(time.perf_counter() - began)
    return statistics.median(taken)


def to_verdict(running: Deployment, model: str, data: str) -> float:
    """Return the median seconds from a submission to its verdict."""
    taken = []
    # The first warms the worker, and the process its models run in.
    for number in range(TIMES + 1):
        began = time.perf_counter()
        body = {"seed": number, "batch_size": SAMPLES, "shards": 1, "checks": [CHECK], "policy": POLICY}
        audit = running.submit(model, data, samples=SAMPLES, **body)
        while (found := running.audit(audit))["verdict"] is None:
            if found["state"] in ("failed", "cancelled"):
                raise SystemExit(f"the audit {found['state']}: {found['checks']}")
            # Asking costs the worker's processors; a client asks every half second.
            time.sleep(0.05)
        taken.append(time.perf_counter() - began)
    return statistics.median(taken[1:])


def rate(running: Deployment, model: str, data: str) -> float:
    """Return shards a second of audits whose shards are ten images of one step each."""

    def ended() -> int:
        with running.database.read() as session:
            return session.scalar(select(func.count()).select_from(ShardRow).where(ShardRow.state == "succeeded")) or 0

    before, began = ended(), time.perf_counter()
    body = {"samples": 10 * SHARDS, "batch_size": 10, "shards": SHARDS, "checks": [TINY]}
    for audit in [running.submit(model, data, **{**body, "seed": number}) for number in range(AUDITS)]:
        running.wait(audit, timeout_s=600)
    return (ended() - before) / (time.perf_counter() - began)


@contextmanager
def deployment(kind: str) -> Iterator[Deployment]:
    """Yield a deployment on SQLite, or on Postgres with a broker."""
    with ExitStack() as stack:
        urls = {}
        if kind == "postgres":
            server, messages = stack.enter_context(postgres_server()), stack.enter_context(broker())
            if server is None or messages is None:
                raise SystemExit("no Postgres or no broker on this machine")
            urls = {
                "database_url": stack.enter_context(new_migrated_database(server)),
                "broker_url": messages.url,
            }
        home = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        yield stack.enter_context(Deployment(home, **urls, environment=DEFAULTS))


def main() -> None:
    """Measure both set-ups, or one."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", choices=("sqlite", "postgres"))
    only = parser.parse_args().only
    torch.set_num_threads(1)
    computing = bare()
    print(f"bare computation of {SAMPLES} images: {computing:.2f} s")
    is_well = True
    for kind in [only] if only else ["sqlite", "postgres"]:
        with deployment(kind) as running:
            model, data = running.upload()
            running.add_worker()
            seconds = to_verdict(running, model, data)
            is_well &= seconds <= WITHIN * computing + LATENCY_S
            print(f"{kind}: {seconds:.2f} s to a verdict, {(seconds - LATENCY_S) / computing:.2f}x and a second")
            for workers in (1, 2, 4):
                while running.workers_alive() < workers:
                    running.add_worker()
                print(f"{kind}, {workers} workers: {rate(running, model, data):.1f} shards a second")
    sys.exit(0 if is_well else 1)


if __name__ == "__main__":
    main()
