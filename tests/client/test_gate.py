"""``seatrial gate`` as a pipeline runs it: a process of its own, with a service of its own, and nothing left behind.

Verdicts, a refusal and a time-out are asked of a shared service in test_gate_verdicts.py and test_commands.py; as
processes they are drills.
"""

import json
import os
import re
import signal
import subprocess
import sys
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from xml.etree import ElementTree

import psutil
import pytest
from click.testing import CliRunner

from app.cli import main
from seatrial.attestation.key_folder import KeyFolder
from seatrial.contracts.signing_keys import PublishedKeys
from tests import assets
from tests.nursery import forking
from tests.servers import die_with_parent, eventually

pytestmark = pytest.mark.slow

SHORT = {"kind": "uncertainty_span", "epsilon": 0.02, "steps": 2, "effort": "quick"}
# Some minutes: it is never waited for.
LONG = {"kind": "uncertainty_span", "epsilon": 0.1, "steps": 3000}
MARK = "SEATRIAL_TEST_MARK"


class Gate:
    """A running ``seatrial gate``."""

    def __init__(self, folder: Path, *options: str, **environment: str) -> None:
        self.temporary = folder / "tmp"
        self.temporary.mkdir(exist_ok=True)
        self._mark = uuid.uuid4().hex
        self._printed = (folder / "stdout").open("w+")
        self._errors = (folder / "stderr").open("w+")
        arguments = ["--model", "model", "--data", "digits.npz", "--policy", "policy.yaml", *options]
        self.process = subprocess.Popen(
            [sys.executable, "-P", "-m", "seatrial", "gate", *arguments],
            cwd=folder,
            env={
                **{name: value for name, value in os.environ.items() if not name.startswith("SEATRIAL_")},
                **{"TMPDIR": str(self.temporary), MARK: self._mark, "OMP_NUM_THREADS": "1"},
                **{"SEATRIAL_TORCH_THREADS": "1", "SEATRIAL_POLL_S": "0.05", **forking(), **environment},
            },
            stdout=self._printed,
            stderr=self._errors,
            preexec_fn=die_with_parent,
        )

    def errors(self) -> str:
        """Return what it has said so far on standard error."""
        self._errors.seek(0)
        return self._errors.read()

    def until_said(self, text: str) -> None:
        """Wait until it says something on standard error."""
        eventually(lambda: text in self.errors() or self.process.poll() is not None, timeout_s=90, what=text)
        assert text in self.errors(), self.errors()

    def worker(self) -> psutil.Process:
        """Return the worker of its service."""
        children = psutil.Process(self.process.pid).children(recursive=True)
        (worker,) = (child for child in children if "workers.local" in child.cmdline())
        return worker

    def ended(self, timeout_s: float = 150) -> tuple[int, str]:
        """Wait for its end; return the exit status and what it printed, after looking that nothing is left of it."""
        status = self.process.wait(timeout_s)
        assert self._survivors() == []
        assert list(self.temporary.iterdir()) == []
        self._printed.seek(0)
        return status, self._printed.read()

    def _survivors(self) -> list[str]:
        found = []
        for process in psutil.process_iter():
            try:
                if process.environ().get(MARK) == self._mark and process.status() != psutil.STATUS_ZOMBIE:
                    found.append(" ".join(process.cmdline()))
            except psutil.Error:
                continue
        return found

    def close(self) -> None:
        """End it, if the test did not."""
        if self.process.poll() is None:
            print(self.errors())
            self.process.terminate()
            self.process.wait(60)
        self._printed.close()
        self._errors.close()


Started = Callable[..., Gate]


@pytest.fixture
def started(tmp_path: Path) -> Iterator[Started]:
    """Start a gate in a repository with a model folder, data and a policy file."""
    running: list[Gate] = []
    model = tmp_path / "model"
    model.mkdir()
    (model / "manifest.json").write_text(json.dumps(assets.model_manifest()))
    (model / "weights.safetensors").write_bytes(assets.weights())
    (tmp_path / "digits.npz").write_bytes(assets.npz(100))
    # A repository may well have packages called as ours are.
    for name in ("app", "workers"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text("raise ImportError('not ours')\n")

    def start(*options: str, accuracy: float = 0.5, check: object = SHORT, **environment: str) -> Gate:
        policy = {
            "name": "release",
            "rules": [{"metric": "uncertainty_span.clean_accuracy", "min": accuracy}],
            "checks": [check],
            "samples": 60,
            "seed": 1,
        }
        # JSON is YAML.
        (tmp_path / "policy.yaml").write_text(json.dumps(policy))
        running.append(Gate(tmp_path, *options, **environment))
        return running[-1]

    yield start
    for gate in running:
        gate.close()


def test_a_model_that_holds_its_policy_passes_and_every_file_is_written(
    started: Started, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = [
        "junit",
        "sarif",
        "markdown",
        "html",
        "json",
        "cyclonedx",
        "model-index",
        "annex-iv",
        "annex-iv-markdown",
        "bundle",
        "attestation",
    ]
    published = KeyFolder(tmp_path / "signing").create()
    (tmp_path / "keys.json").write_text(PublishedKeys(keys=[published]).model_dump_json())
    # Of a service of its own, which is gone when the files are read, there is no address.
    signing = {"SEATRIAL_SIGNING_KEYS": str(tmp_path / "signing"), "SEATRIAL_PUBLIC_URL": "https://elsewhere.example"}
    gate = started(*(word for name in files for word in (f"--{name}", f"out/{name}")), **signing)
    status, printed = gate.ended()
    assert status == 0, gate.errors()
    assert "at least 0.5" in printed
    assert printed.rstrip().rpartition("\n")[2].startswith("May ship: ")
    assert "At most: 60 examples" in gate.errors()
    assert "uncertainty_span: succeeded" in gate.errors()
    assert [path.name for path in sorted((tmp_path / "out").iterdir())] == sorted(files)
    assert ElementTree.parse(tmp_path / "out" / "junit").find(".//failure") is None
    assert json.loads((tmp_path / "out" / "sarif").read_text())["version"] == "2.1.0"
    report = json.loads((tmp_path / "out" / "json").read_text())
    assert report["audit"].startswith("aud_")
    assert report["url"] is None
    assert (tmp_path / "out" / "bundle").read_bytes().startswith(b"PK")
    assert report["signature"]["preregistered_at"] is not None
    words = ["verify", "out/attestation", "--model", "model", "--public-key", "keys.json", "--data", "digits.npz"]
    monkeypatch.chdir(tmp_path)
    verified = CliRunner().invoke(main, [*words, "--policy", "policy.yaml"])
    assert verified.exit_code == 0, verified.output
    assert "signed at submission; no other seed was tried before" in verified.output


@pytest.mark.drill
def test_a_model_that_breaks_a_rule_fails_and_the_files_say_so(started: Started, tmp_path: Path) -> None:
    gate = started("--junit", "junit.xml", accuracy=0.999)
    status, printed = gate.ended()
    assert status == 1, gate.errors()
    assert "failed" in printed
    assert printed.rstrip().rpartition("\n")[2].startswith("Do not ship: ")
    failure = ElementTree.parse(tmp_path / "junit.xml").find(".//failure")
    assert failure is not None
    assert "0.999" in ElementTree.tostring(failure, encoding="unicode")


@pytest.mark.drill
def test_an_interval_that_holds_the_bound_is_inconclusive_and_says_how_many_more(started: Started) -> None:
    gate = started(accuracy=0.93)
    status, printed = gate.ended()
    assert status == 3, gate.errors()
    (row,) = (line for line in printed.splitlines() if line.startswith("Accuracy without an attack "))
    assert "inconclusive" in row
    further = re.search(r"([0-9,]+) \(the dataset has 40 more\)$", row)
    assert further is not None, row
    assert int(further[1].replace(",", "")) > 60
    assert printed.rstrip().rpartition("\n")[2].startswith("Not decided: ")


@pytest.mark.drill
def test_a_broken_model_folder_is_a_bad_request_and_the_reason_is_told(started: Started, tmp_path: Path) -> None:
    weights = tmp_path / "model" / "weights.safetensors"
    weights.write_bytes(weights.read_bytes()[:1000])
    gate = started()
    status, printed = gate.ended()
    assert (status, printed) == (2, "")
    assert "weights.safetensors" in gate.errors()
    assert "Traceback" not in gate.errors()


@pytest.mark.drill
def test_a_killed_worker_is_told_and_without_attempts_left_nobody_passes(started: Started, tmp_path: Path) -> None:
    leases = {"SEATRIAL_LEASE_S": "6", "SEATRIAL_HEARTBEAT_S": "0.5", "SEATRIAL_REAP_S": "0.5"}
    gate = started("--junit", "junit.xml", check=LONG, SEATRIAL_MAX_ATTEMPTS="1", **leases)
    gate.until_said("running attack")
    gate.worker().kill()
    status, printed = gate.ended()
    assert status == 4, gate.errors()
    assert "was killed by signal 9; starting it again" in gate.errors()
    assert "errored" in printed
    assert ElementTree.parse(tmp_path / "junit.xml").find(".//error") is not None


@pytest.mark.drill
def test_a_timeout_cancels_the_audit_and_is_never_green(started: Started, tmp_path: Path) -> None:
    gate = started("--timeout", "12", "--junit", "junit.xml", check=LONG)
    status, printed = gate.ended()
    assert status == 5, gate.errors()
    assert "is cancelled." in gate.errors()
    assert "passed" not in printed.lower()
    assert ElementTree.parse(tmp_path / "junit.xml").find(".//error") is not None


def test_a_cancelled_job_leaves_nothing_and_is_no_verdict(started: Started) -> None:
    gate = started()
    gate.until_said("Sending model")
    gate.process.send_signal(signal.SIGTERM)
    status, printed = gate.ended()
    assert (status, printed) == (130, "")
    assert "Interrupted." in gate.errors()
    assert "Traceback" not in gate.errors()
