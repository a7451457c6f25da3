"""Plans whose API process is really killed, on both databases."""

import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.plans.conftest import HARDENED, World
from tests.plans.killed_process import LEASE_S
from tests.plans.test_plans import ONE_EACH

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.drill
@pytest.mark.parametrize("kind", HARDENED)
def test_a_killed_process_leaves_a_step_to_the_next_one(world: World, kind: str) -> None:
    makes = "_wait_for" if kind in ("harden", "audit", "notify") else "_succeed"
    for plans, point in enumerate(("_begin", makes, kind), 1):
        plan_id = world.submit(*HARDENED)
        while _is_before(world, plan_id, kind):
            world.advance_one()
            world.end_jobs()
        settings = world.services.settings
        asked = [str(settings.home), settings.database_url or "", kind, point]
        words = [sys.executable, "-W", "ignore", "-m", "tests.plans.killed_process", *asked]
        done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True)
        assert done.returncode == -signal.SIGKILL, done.stdout + done.stderr
        time.sleep(LEASE_S + 0.1)
        told = world.run(plan_id)
        assert told["state"] == "succeeded", (point, told)
        assert world.jobs() == dict.fromkeys(ONE_EACH, plans), point


def _is_before(world: World, plan_id: str, kind: str) -> bool:
    """Return whether a step before this one is still to be done."""
    steps = world.plan(plan_id)["steps"]
    return any(step["state"] != "succeeded" for step in steps[: HARDENED.index(kind)])
