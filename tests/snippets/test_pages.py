"""The walk-throughs of the README and of docs/rest.md run as they stand, against a service of their own.

What they name and is not there is put in its place: the service's address, the files `make demo` leaves, and a model
that answers at https://models.example.com. The README's audit takes fewer steps.
"""

import json
import os
import re
import subprocess
import sys
import sysconfig
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import httpx
import pytest
import torch
from safetensors.torch import save
from torch import nn

from tests import assets
from tests.nursery import forking
from tests.packaging.pages import blocks
from tests.scripted import Asked, Scripted, serving
from tests.servers import Process, die_with_parent, eventually, free_port
from tests.snippets.conftest import QUICK, is_ready

ROOT = Path(__file__).parents[2]

pytestmark = pytest.mark.slow


def demo_weights() -> bytes:
    """Return weights of the network that `make demo` trains, trained for less long."""
    images, labels = assets.digits()
    inputs, targets = torch.tensor(images[:1000]).float() / 255, torch.tensor(labels[:1000])
    with torch.random.fork_rng():
        torch.manual_seed(0)
        convolutions = [nn.Conv2d(1, 32, 3, 1, 1), nn.ReLU(), nn.Conv2d(32, 64, 3, 2, 1), nn.ReLU(), nn.Flatten()]
        network = nn.Sequential(*convolutions, nn.Linear(1024, 64), nn.ReLU(), nn.Linear(64, 10))
        optimizer = torch.optim.Adam(network.parameters(), lr=3e-3)
        for batch in torch.randperm(20_000).split(100):
            optimizer.zero_grad()
            nn.functional.cross_entropy(network(inputs[batch % 1000]), targets[batch % 1000]).backward()
            optimizer.step()
    return save(network.state_dict())


@dataclass
class Desk:
    """A folder as `make demo` leaves it, beside a service that runs."""

    folder: Path
    url: str
    endpoint: Scripted

    def run(self, script: str) -> subprocess.CompletedProcess[str]:
        """Run a page's blocks in one shell that stops at the first failure."""
        script = script.replace("http://127.0.0.1:8000", self.url)
        script = script.replace("https://models.example.com/classify", self.endpoint.url)
        return subprocess.run(
            ["bash", "-e", "-c", script],
            cwd=self.folder,
            env={"PATH": os.environ["PATH"], "HOME": str(self.folder)},
            capture_output=True,
            text=True,
            timeout=200,
            preexec_fn=die_with_parent,
        )


def answers(handler: BaseHTTPRequestHandler, asked: Asked) -> None:
    """Answer as docs/rest.md has it: a list of scores for each text, under `predictions`; long ones are bad."""
    shares = [len(text) % 90 / 100 for text in asked.json["inputs"]]
    body = json.dumps({"predictions": [[share, 1 - share] for share in shares]}).encode()
    handler.send_response(200)
    handler.send_header("content-type", "application/json")
    handler.send_header("content-length", str(len(body)))
    handler.end_headers()
    handler.wfile.write(body)


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Desk]:
    """Lay one out."""
    folder = tmp_path_factory.mktemp("desk")
    (folder / ".demo").mkdir()
    (folder / ".demo" / "ordinary.safetensors").write_bytes(demo_weights())
    (folder / ".demo" / "digits.npz").write_bytes(assets.npz(597))
    with serving(answers) as endpoint, _service(folder / "home", endpoint) as url:
        yield Desk(folder, url, endpoint)


@contextmanager
def _service(home: Path, endpoint: Scripted) -> Iterator[str]:
    port = free_port()
    secret = {"scheme": "http", "host": "127.0.0.1", "port": endpoint.port, "value": "sk-test"}
    settings = {
        "SEATRIAL_REQUIRE_KEYS": "false",
        "SEATRIAL_ENDPOINT_ALLOWED_NETWORKS": '["127.0.0.0/8"]',
        "SEATRIAL_ENDPOINT_SECRETS": json.dumps({"MODELS": secret}),
        **QUICK,
        **forking(),
    }
    running = Process(
        ["-m", "seatrial", "serve", "--port", str(port), "--home", str(home)], settings, home.parent / "log"
    )
    url = f"http://127.0.0.1:{port}"
    try:
        eventually(lambda: is_ready(url), timeout_s=90, every_s=0.1, what=f"the service: {running.log}")
        yield url
    finally:
        running.stop()


def bare(text: str) -> str:
    """Return a text without white space, its numbers and the hexadecimal ends of its ids as `#`."""
    without = re.sub(r"\d(?:\.\d+)?e-\d+", "0", re.sub(r"\s", "", text))
    return re.sub(r"(?<![a-z])[0-9a-f]*[0-9][0-9a-f.]*", "#", without)


def kept(desk: Desk, name: str) -> Any:
    """Return a JSON file a walk-through has left."""
    return json.loads((desk.folder / name).read_text())


def state_of(desk: Desk, audit_id: str) -> dict[str, Any]:
    """Return an audit."""
    return dict(httpx.get(f"{desk.url}/v1/audits/{audit_id}").raise_for_status().json())


def test_the_audit_of_the_readme_runs(desk: Desk) -> None:
    (walk,) = (block for block in blocks("README.md", "sh") if "/v1/audits" in block)
    # As it stands but for most of its steps, which are nothing but more of the same: 40 took half a minute.
    assert '"steps": 100}' in walk
    done = desk.run(walk.replace('"steps": 100}', '"steps": 2}') + '\necho "$A" > audit')
    assert done.returncode == 0, done.stdout + done.stderr
    audit = state_of(desk, (desk.folder / "audit").read_text().strip())
    assert audit["state"] == "succeeded"
    assert audit["checks"][0]["result"]["counts"]["n"] == 200
    assert "event: " in done.stdout
    assert "uncertainty_span" in (desk.folder / "report.html").read_text()


def test_the_page_about_python_runs(desk: Desk) -> None:
    (desk.folder / "page.py").write_text("\n".join(blocks("docs/python.md", "python")))
    done = desk.run(f"SEATRIAL_URL={desk.url} PYTHONPATH={ROOT} {sys.executable} page.py")
    assert done.returncode == 0, done.stdout + done.stderr
    for said in ("<Model mdl_", "<Cost of 50 examples", "<Comparison digits 1 and again 1: uncertainty_span.mus_worst"):
        assert said in done.stdout
    assert list(desk.folder.glob("*.svg"))


@pytest.mark.drill
def test_the_walk_through_over_rest_runs(desk: Desk) -> None:
    done = desk.run("\n".join(blocks("docs/rest.md", "sh")) + '\necho "$A" > audit')
    assert done.returncode == 0, done.stdout + done.stderr
    # What the comments show of the answers is in them, in this order, up to the numbers and ids of another day.
    said, at = bare(done.stdout), 0
    comments = re.findall(r"^# ([{H].+)$", "\n".join(blocks("docs/rest.md", "sh")), re.MULTILINE)
    assert len(comments) == 9
    for comment in comments:
        for part in re.split(r"\.\.\.|    ", comment.replace("(at most)", "")):
            found = said.find(bare(part).strip(","), at)
            assert found >= 0, (part, said[at : at + 1500])
            at = found
    for exact in (
        '"parameters":85066,',
        '"examples":597,',
        '"forward_passes":301886,"backward_passes":311848,"queries":0,',
    ):
        assert exact in "\n".join(comments)
        assert exact in done.stdout
    audit = state_of(desk, (desk.folder / "audit").read_text().strip())
    assert audit["state"] == "succeeded"
    # The last thing said is that the endpoint's audit is taken; its key came along.
    assert "Traceback" not in done.stderr
    assert json.loads(done.stdout[done.stdout.rindex('{"id":"aud_') :])["kinds"] == ["temperature_attack"]
    assert kept(desk, "model.json")["state"] == "ready"
    assert desk.endpoint.asked[0].headers["authorization"] == "Bearer sk-test"
    assert set(desk.endpoint.asked[0].json) == {"inputs"}


@pytest.mark.drill
def test_the_gate_of_the_readme_runs(desk: Desk) -> None:
    (policy,) = blocks("README.md", "yaml")
    (shown,) = (block for block in blocks("README.md") if block.startswith("$ seatrial gate"))
    (desk.folder / "model").mkdir()
    (desk.folder / "model" / "weights.safetensors").write_bytes(demo_weights())
    (walk,) = (block for block in blocks("README.md", "sh") if "/v1/audits" in block)
    manifest = re.search(r"manifest=(\{.*?\})'", walk, re.DOTALL)
    assert manifest is not None
    (desk.folder / "model" / "manifest.json").write_text(manifest[1])
    (desk.folder / "digits.npz").write_bytes(assets.npz(597))
    (desk.folder / "seatrial.yaml").write_text(policy)
    scripts = sysconfig.get_path("scripts")
    done = desk.run(
        f"export PATH={scripts}:$PATH {' '.join(f'{k}={v}' for k, v in QUICK.items())}\n{shown.splitlines()[0][2:]}"
    )
    # The table of the page: the same rules in the same order, and a model as ordinary as the one shown fails the same.
    assert done.returncode == 1, done.stdout + done.stderr
    columns = [re.split(r"  +", line) for line in shown.splitlines()[1:5]]
    printed = [re.split(r"  +", line) for line in done.stdout.splitlines()[:4]]
    assert printed[0] == columns[0]
    assert [(row[0], row[2]) for row in printed[1:]] == [(row[0], row[2]) for row in columns[1:]]
    assert printed[2][3] == columns[2][3] == "failed"
    assert done.stdout.splitlines()[-1].startswith("Do not ship: attackers can swing its uncertainty over ")
    assert {"junit.xml", "gate.sarif", "comment.md"} <= {path.name for path in desk.folder.iterdir()}
