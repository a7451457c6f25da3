"""``seatrial gate`` against a service with a real worker: its verdicts, statuses and files, in the test's process."""

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from xml.etree import ElementTree

import pytest
from click.testing import CliRunner, Result

from app.cli import main
from seatrial.attestation.key_folder import KeyFolder
from seatrial.client import Client
from seatrial.contracts.signing_keys import PublishedKeys
from tests import assets
from tests.client.conftest import Server, served
from tests.servers import local_worker, stop_together

pytestmark = pytest.mark.slow

Run = Callable[..., Result]


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A service over HTTP with a worker of its own."""
    folder = tmp_path_factory.mktemp("service")
    environment = {"SEATRIAL_HOME": str(folder / "home"), "SEATRIAL_TORCH_THREADS": "1", "SEATRIAL_POLL_S": "0.05"}
    with served(folder / "home") as running:
        worker = local_worker(environment, folder / "worker.log")
        yield running
        stop_together([worker])


@pytest.fixture
def gate(service: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Gate a model folder, data and a policy file on it."""
    monkeypatch.chdir(tmp_path)
    model = tmp_path / "model"
    model.mkdir()
    (model / "manifest.json").write_text(json.dumps(assets.model_manifest()))
    (model / "weights.safetensors").write_bytes(assets.weights())
    (tmp_path / "digits.npz").write_bytes(assets.npz(100))

    def run(*options: str, accuracy: float = 0.5) -> Result:
        policy = {
            "name": "release",
            "rules": [{"metric": "uncertainty_span.clean_accuracy", "min": accuracy}],
            "checks": [{"kind": "uncertainty_span", "epsilon": 0.02, "steps": 2, "effort": "quick"}],
            "samples": 60,
            "seed": 1,
        }
        (tmp_path / "policy.yaml").write_text(json.dumps(policy, indent=1).replace('{\n   "metric', '{"metric'))
        words = ["gate", "--model", "model", "--data", "digits.npz", "--policy", "policy.yaml"]
        return CliRunner().invoke(main, [*words, *options, "--server", service.url], catch_exceptions=False)

    return run


def test_a_model_that_breaks_a_rule_fails_and_the_files_say_so(gate: Run, service: Server, tmp_path: Path) -> None:
    ended = gate("--junit", "junit.xml", accuracy=0.999)
    assert ended.exit_code == 1, ended.output
    assert "failed" in ended.stdout
    *_, before, headline = ended.stdout.rstrip().split("\n")
    assert headline.startswith("Do not ship: ")
    # On this machine's own address too: the service stays.
    page = before.removeprefix("In the console: ")
    assert page.startswith(f"{service.url}/audits/aud_")
    failure = ElementTree.parse(tmp_path / "junit.xml").find(".//failure")
    assert failure is not None
    assert "0.999" in ElementTree.tostring(failure, encoding="unicode")
    assert f'name="url" value="{page}"' in (tmp_path / "junit.xml").read_text()


def test_an_interval_that_holds_the_bound_is_inconclusive_and_says_how_many_more(gate: Run) -> None:
    ended = gate(accuracy=0.93)
    assert ended.exit_code == 3, ended.output
    (row,) = (line for line in ended.stdout.splitlines() if line.startswith("Accuracy without an attack  "))
    assert "inconclusive" in row
    further = re.search(r"([0-9,]+) \(the dataset has 40 more\)$", row)
    assert further is not None, row
    assert int(further[1].replace(",", "")) > 60
    assert ended.stdout.rstrip().rpartition("\n")[2].startswith("Not decided: ")


def test_an_exported_program_is_audited_as_the_weights_it_was_exported_from(gate: Run, tmp_path: Path) -> None:
    expected = gate("--json", "weights.json")
    assert expected.exit_code == 0, expected.output
    (tmp_path / "model" / "weights.safetensors").unlink()
    (tmp_path / "model" / "digits.pt2").write_bytes(assets.exported())
    manifest = {name: told for name, told in assets.model_manifest("exported").items() if name != "architecture"}
    (tmp_path / "model" / "manifest.json").write_text(json.dumps(manifest))
    ended = gate("--json", "exported.json")
    assert ended.exit_code == 0, ended.output
    of_weights, of_program = (
        json.loads((tmp_path / name).read_text())["checks"][0]["estimates"]
        for name in ("weights.json", "exported.json")
    )
    assert of_program == of_weights


def test_a_plan_runs_from_its_audit_to_an_attestation_that_verifies(
    gate: Run, service: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    published = KeyFolder(service.settings.home / "signing").create()
    (tmp_path / "keys.json").write_text(PublishedKeys(keys=[published]).model_dump_json())
    run = CliRunner().invoke
    with Client(service.url) as client:
        model = client.add_model(tmp_path / "model" / "weights.safetensors", assets.model_manifest("planned"))
        manifest = {"name": "planned", "version": "1", "task": "image-classification"}
        dataset = client.add_dataset(tmp_path / "digits.npz", manifest)
    check = {"kind": "uncertainty_span", "epsilon": 0.02, "steps": 2, "effort": "quick"}
    asked = {"model": model.id, "dataset": dataset.id, "checks": [check], "samples": 60, "seed": 1}
    rule = {"metric": "uncertainty_span.clean_accuracy", "min": 0.5}
    steps = [
        {"kind": "audit", "audit": asked},
        {"kind": "judge", "policy": {"name": "release", "rules": [rule]}},
        {"kind": "attest"},
    ]
    (tmp_path / "plan.json").write_text(json.dumps({"name": "release 7", "steps": steps}))
    done = run(main, ["plan", "submit", "plan.json", "--wait", "--timeout", "90", "--url", service.url])
    assert done.exit_code == 0, done.output
    plan_id = done.stdout.splitlines()[0]
    assert f"{plan_id}: succeeded, verdict passed" in done.stdout
    with Client(service.url) as client:
        plan = client.plan(plan_id)
        results = {step.kind: step.result or {} for step in plan.steps}
        signed = client.attestation(results["audit"]["audit"], judgement=results["judge"]["judgement"])
    (tmp_path / "verdict.jsonl").write_bytes(signed)
    words = ["verify", "verdict.jsonl", "--model", "model/weights.safetensors", "--public-key", "keys.json"]
    verified = run(main, words)
    assert verified.exit_code == 0, verified.output
    refused = run(main, ["plan", "retry", plan_id, "--url", service.url])
    assert (refused.exit_code, "no step of it has failed" in refused.stderr) == (2, True)


def test_a_broken_model_folder_is_a_bad_request_and_the_reason_is_told(gate: Run, tmp_path: Path) -> None:
    (tmp_path / "model" / "manifest.json").write_text(json.dumps(assets.model_manifest(version="2")))
    weights = tmp_path / "model" / "weights.safetensors"
    weights.write_bytes(weights.read_bytes()[:1000])
    ended = gate()
    assert (ended.exit_code, ended.stdout) == (2, "")
    assert "weights.safetensors" in ended.stderr
    assert "Traceback" not in ended.stderr


def test_the_first_audit_that_passes_becomes_the_baseline_and_no_later_one(gate: Run, service: Server) -> None:
    """Were every pass promoted, each could lose what one may lose, and nobody would have decided it."""
    with Client(service.url) as client:
        told = [gate("--promote-if-passed", accuracy=accuracy) for accuracy in (0.999, 0.5)]
        assert [one.exit_code for one in told] == [1, 0], told[1].output
        assert "is the baseline" not in told[0].output
        assert "is the baseline champion of" in told[1].output
        assert len(list(client.baselines())) == 1


def test_sarif_points_at_the_line_of_the_rule(gate: Run, tmp_path: Path) -> None:
    assert gate("--sarif", "gate.sarif", accuracy=0.999).exit_code == 1
    (found,) = json.loads((tmp_path / "gate.sarif").read_text())["runs"][0]["results"]
    (place,) = found["locations"]
    line = place["physicalLocation"]["region"]["startLine"]
    assert "clean_accuracy" in (tmp_path / "policy.yaml").read_text().splitlines()[line - 1]
