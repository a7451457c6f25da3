"""An API process and workers of some tree of code, as real processes on a database that others may use too."""

import subprocess
import sys
from pathlib import Path

import httpx

from tests.nursery import die_with_parent
from tests.servers import eventually, free_port

COMMAND = "import sys; from seatrial.floors import pin; pin(); from app.cli import main; main()"


class Version:
    """Processes of one tree of code."""

    def __init__(self, tree: Path, home: Path, database_url: str, name: str) -> None:
        self.tree, self.home, self.name = tree, home, name
        self.port = free_port()
        self.processes: list[subprocess.Popen[bytes]] = []
        self.environment = {
            "PATH": "/usr/bin:/bin",
            "PYTHONPATH": str(tree),
            "SEATRIAL_HOME": str(home),
            "SEATRIAL_DATABASE_URL": database_url,
            "SEATRIAL_REQUIRE_KEYS": "false",
            "SEATRIAL_TORCH_THREADS": "1",
            "SEATRIAL_POLL_S": "0.1",
            "SEATRIAL_LEASE_S": "20",
            "SEATRIAL_HEARTBEAT_S": "2",
            "SEATRIAL_DEVICE": "cpu",
            "OMP_NUM_THREADS": "1",
        }
        self.client = httpx.Client(base_url=f"http://127.0.0.1:{self.port}", timeout=60)

    def run(self, *arguments: str) -> None:
        """Run a command of ours to its end."""
        command = [sys.executable, "-P", "-c", COMMAND, *arguments]
        done = subprocess.run(command, capture_output=True, cwd=self.tree, env=self.environment)
        assert done.returncode == 0, done.stderr.decode()[-2000:]

    def start(self, *arguments: str) -> subprocess.Popen[bytes]:
        """Start a command of ours that stays."""
        with (self.home / f"{self.name}.log").open("ab") as log:
            self.processes.append(
                subprocess.Popen(
                    [sys.executable, "-P", "-c", COMMAND, *arguments],
                    cwd=self.tree,
                    env=self.environment,
                    stdout=log,
                    stderr=log,
                    preexec_fn=die_with_parent,
                )
            )
        return self.processes[-1]

    def start_both(self) -> None:
        """Start an API process and a worker, and wait for them."""
        self.start("serve", "--host", "127.0.0.1", "--port", str(self.port), "--workers", "0")
        self.start("worker")
        eventually(self.is_ready, timeout_s=180, what=f"{self.name}: {self.home}/{self.name}.log")

    def is_ready(self) -> bool:
        """Return whether the API says that it can work with the database."""
        try:
            return self.client.get("/readyz").status_code == 200
        except httpx.TransportError:
            return False

    def stop(self) -> None:
        """Ask all of them to end, as an orchestrator does."""
        for process in self.processes:
            process.terminate()
        for process in self.processes:
            # One that a test froze or killed ends here as well.
            process.wait(timeout=120)
        self.processes.clear()
        self.client.close()
