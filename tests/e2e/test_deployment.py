"""What the tests and benchmarks of whole deployments count."""

from pathlib import Path

from seatrial.store.retention import tell_scheduler_alive
from tests.e2e.deployment import Deployment


def test_the_scheduler_is_no_worker(tmp_path: Path) -> None:
    deployment = Deployment(tmp_path)
    try:
        tell_scheduler_alive(deployment.database)
        # Counted as one, it stood for the second worker whose shards were measured: none was ever started.
        assert deployment.workers_alive() == 0
    finally:
        deployment.database.dispose()
