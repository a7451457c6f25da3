"""A repository as the page describes it, and a service that wants a key."""

import json
import os
import shutil
import subprocess
import sysconfig
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import httpx
import pytest
import yaml

from tests import assets
from tests.nursery import forking
from tests.servers import ROOT, Process, die_with_parent, eventually, free_port

CI = ROOT / "docs" / "ci"
KEY = "k" * 40
# What is quick to wait for and easy on the other tests' processors.
QUICK = {"OMP_NUM_THREADS": "1", "SEATRIAL_TORCH_THREADS": "1", "SEATRIAL_POLL_S": "0.05"}


@dataclass
class Repository:
    """A repository with a model, data and the files of ``docs/ci``, and a shell to run steps in.

    ``pip`` and ``kubectl`` do nothing there but write down what they were asked: nothing is installed, and no cluster
    is at hand. ``seatrial`` and ``python`` are those of the tests.
    """

    folder: Path
    environment: dict[str, str] = field(default_factory=dict)

    def run(self, *command: str, stdin: str | None = None, **environment: str) -> subprocess.CompletedProcess[str]:
        """Run a command to its end; a service is asked where ``environment`` names one."""
        return subprocess.run(
            command,
            cwd=self.folder,
            env=self.shell(environment),
            input=stdin,
            capture_output=True,
            text=True,
            timeout=150,
            preexec_fn=die_with_parent,
        )

    def shell(self, environment: dict[str, str]) -> dict[str, str]:
        """Return the whole environment of a command: none of what the tests themselves were started with."""
        path = os.pathsep.join([str(self.folder.parent / "bin"), sysconfig.get_path("scripts"), os.environ["PATH"]])
        return {"PATH": path, "HOME": str(self.folder.parent), **QUICK, **self.environment, **environment}

    def asked(self, program: str) -> list[str]:
        """Return what a stand-in was asked, a line each time."""
        path = self.folder.parent / f"{program}.asked"
        return path.read_text().splitlines() if path.exists() else []

    def stand_in(self, program: str, line: str) -> None:
        """Put a program of one line in the place of another."""
        path = self.folder.parent / "bin" / program
        path.write_text(f"#!/bin/sh\n{line}\n")
        path.chmod(0o755)

    def demand(self, **changes: Any) -> None:
        """Change the policy file: the least clean accuracy as ``accuracy``, or fields of the check."""
        path = self.folder / "ci" / "seatrial.yaml"
        policy = yaml.safe_load(path.read_text())
        policy["rules"][0]["min"] = changes.pop("accuracy", policy["rules"][0]["min"])
        policy["checks"][0] |= changes
        path.write_text(yaml.safe_dump(policy))

    def junit_verdict(self, path: str) -> str | None:
        """Return the verdict in a JUnit file."""
        found = ElementTree.parse(self.folder / path).find(".//property[@name='verdict']")
        return found.get("value") if found is not None else None


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    """Lay one out."""
    folder = tmp_path / "repository"
    for name in ("model", "data"):
        (folder / name).mkdir(parents=True)
    (folder / "model" / "manifest.json").write_text(json.dumps(assets.model_manifest()))
    (folder / "model" / "weights.safetensors").write_bytes(assets.weights())
    (folder / "data" / "test.npz").write_bytes(assets.npz(300))
    shutil.copytree(CI, folder / "ci")
    subprocess.run(["git", "init", "--quiet", str(folder)], check=True)
    (tmp_path / "bin").mkdir()
    made = Repository(folder)
    for program in ("pip", "kubectl"):
        made.stand_in(program, f'echo "$@" >> {tmp_path / program}.asked')
    return made


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Run ``seatrial serve`` with a worker and return its address; it refuses who has no key."""
    home = tmp_path_factory.mktemp("service")
    port = free_port()
    settings = {"SEATRIAL_REQUIRE_KEYS": "true", "SEATRIAL_BOOTSTRAP_KEY": KEY, **forking(), **QUICK}
    arguments = ["-m", "seatrial", "serve", "--port", str(port), "--home", str(home)]
    running = Process(arguments, settings, home / "service.log")
    url = f"http://127.0.0.1:{port}"
    try:
        eventually(lambda: is_ready(url), timeout_s=90, every_s=0.1, what=f"the service: {running.log}")
        yield url
    finally:
        running.stop()


@pytest.fixture
def on_service(repository: Repository, service: str) -> Callable[[], None]:
    """Return what sets a repository's shell up for the service, as the variables of a pipeline do."""

    def chosen() -> None:
        repository.environment |= {"SEATRIAL_URL": service, "SEATRIAL_KEY": KEY}

    return chosen


def is_ready(url: str) -> bool:
    """Tell whether a service answers."""
    try:
        return httpx.get(f"{url}/readyz").status_code == 200
    except httpx.TransportError:
        return False
