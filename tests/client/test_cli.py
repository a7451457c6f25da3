"""The ``seatrial`` command against a real server, and the commands that tend an installation."""

import json
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner, Result

from app.cli import main
from app.cli.audits import _table
from app.cli.worker import worker_command
from seatrial.contracts.estimates import Estimate
from seatrial.store.settings import Settings
from tests import assets
from tests.client.conftest import Server
from tests.client.test_client import ENDPOINT


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> object:
    """Return a function that runs the command and gives its result."""
    # The commands write SEATRIAL_HOME for what they start; setting it here has it restored afterwards.
    monkeypatch.setenv("SEATRIAL_HOME", str(tmp_path / "home"))

    def called(*arguments: object) -> Result:
        return CliRunner().invoke(main, [str(one) for one in arguments], catch_exceptions=False)

    return called


def test_help_names_every_command(run) -> None:
    listed = run("--help").output
    for name in ("serve", "worker", "migrate", "health", "keys", "models", "datasets", "audit"):
        assert f"\n  {name} " in listed


def test_a_key_is_made_listed_and_revoked(run) -> None:
    made = run("keys", "create", "ci", "--scope", "read", "--project", "vision")
    assert made.exit_code == 0
    secret, note = made.stdout.strip(), made.stderr.strip()
    assert secret.startswith("sea_")
    key_id = note.partition(":")[0]
    listed = run("keys", "list").output
    assert key_id in listed
    assert secret not in listed
    assert "valid" in listed
    assert run("keys", "revoke", key_id).exit_code == 0
    assert "revoked" in run("keys", "list").output
    assert run("keys", "revoke", "key_nothing").exit_code == 1
    assert "not a project name" in run("keys", "create", "ci", "--project", "No Name!").output


def test_migrate_twice_and_health(run) -> None:
    assert "seatrial migrate" in run("health", "--services").output
    assert run("migrate").exit_code == 0
    assert run("migrate").exit_code == 0
    assert run("health", "--services").output == "ok\n"
    nobody = run("health")
    assert (nobody.exit_code, "no worker lives here" in nobody.output) == (1, True)


@pytest.mark.slow
def test_upload_submit_status_cancel_report(run, server: Server, tmp_path: Path) -> None:
    there = ("--url", server.url)
    files = {
        "model.safetensors": assets.weights(),
        "model.json": json.dumps(assets.model_manifest()).encode(),
        "data.npz": assets.npz(60),
        "data.json": json.dumps(assets.dataset_manifest()).encode(),
        "floats.npz": assets.npz(60, scale=np.float32(0.0039)),
        "floats.json": json.dumps(assets.dataset_manifest("floats")).encode(),
    }
    for name, content in files.items():
        (tmp_path / name).write_bytes(content)
    added = run(
        "models", "add", tmp_path / "model.safetensors", "--manifest", tmp_path / "model.json", "--wait", 0, *there
    )
    assert added.exit_code == 0, added.output
    model = added.stdout.strip()
    floats = run("datasets", "add", tmp_path / "floats.npz", "--manifest", tmp_path / "floats.json", *there)
    assert "certificates are of images rounded to 1/16,320" in floats.stderr
    data = run("datasets", "add", tmp_path / "data.npz", "--manifest", tmp_path / "data.json", *there).stdout.strip()
    assert model in run("models", "list", *there).output
    assert data in run("datasets", "list", *there).output
    spec = {
        "model": model,
        "dataset": data,
        "samples": 50,
        "checks": [{"kind": "uncertainty_span", "steps": 3, "effort": "quick"}],
    }
    (tmp_path / "audit.json").write_text(json.dumps(spec))
    audit_id = run("audit", "submit", tmp_path / "audit.json", *there).stdout.strip()
    assert f"{audit_id}: queued" in run("audit", "status", audit_id, *there).output
    waited = run("audit", "run", tmp_path / "audit.json", "--timeout", 0.5, *there)
    assert waited.exit_code == 5, waited.output
    assert "uncertainty_span: queued" in waited.stderr
    assert run("audit", "cancel", audit_id, *there).output == "cancelled\n"
    assert run("audit", "report", audit_id, "-o", tmp_path / "report.html", *there).exit_code == 0
    assert "was cancelled" in (tmp_path / "report.html").read_text()


def test_an_endpoint_is_added_by_its_manifest_alone(run, server: Server, tmp_path: Path) -> None:
    there = ("--url", server.url)
    (tmp_path / "endpoint.json").write_text(json.dumps(ENDPOINT))
    added = run("models", "add", "--endpoint", tmp_path / "endpoint.json", "--wait", 0, *there)
    assert added.exit_code == 0, added.output
    assert added.stdout.strip() in run("models", "list", *there).output
    same = run("models", "add", tmp_path / "endpoint.json", "--wait", 0, *there)
    assert same.stdout == added.stdout, same.output
    endpoint = ("--endpoint", tmp_path / "endpoint.json")
    for arguments in (
        (),
        (*endpoint, tmp_path / "endpoint.json"),
        (*endpoint, "--manifest", tmp_path / "endpoint.json"),
    ):
        refused = run("models", "add", *arguments, *there)
        assert (refused.exit_code, "--endpoint alone" in refused.output) == (2, True)


def test_wrong_endpoints_and_language_models_are_told_what_would_be_right(run, server: Server, tmp_path: Path) -> None:
    images = ENDPOINT | {"task": "image-classification", "input": {"shape": [1, 8, 8]}}
    model = {"kind": "chat", "url": "https://llm.example.com/v1/chat/completions", "model": "m"}
    words = {"negative": [" negative"], "positive": [" positive"]}
    chat = {**ENDPOINT, "architecture": {**model, "template": "{{texts}}", "labels": words}}
    for manifest, told, untold in (
        (images, "may hold {{images}}, {{image}}", "{{text"),
        (chat, "holds {{text}} and no other placeholder", "{{image"),
    ):
        (tmp_path / "model.json").write_text(json.dumps(manifest))
        refused = run("models", "add", "--endpoint", tmp_path / "model.json", "--url", server.url)
        assert refused.exit_code == 2
        assert "/manifest/architecture" in refused.output
        assert told in refused.output
        assert untold not in refused.output


def test_a_wrong_specification_ends_with_2_and_names_the_field(run, server: Server, tmp_path: Path) -> None:
    (tmp_path / "audit.json").write_text(json.dumps({"checks": [{"kind": "uncertainty_span", "epsilon": -1}]}))
    refused = run("audit", "submit", tmp_path / "audit.json", "--url", server.url)
    assert refused.exit_code == 2
    assert "epsilon" in refused.output
    (tmp_path / "audit.json").write_text("[]")
    assert "one JSON object" in run("audit", "submit", tmp_path / "audit.json", "--url", server.url).output


@pytest.mark.parametrize(
    ("checks", "told"),
    [
        (3, "/checks: must be a list, even of one"),
        ({"kind": "x"}, "/checks: must be a list, even of one"),
        (["x"], '/checks/0: must be an object, {"kind": ...}'),
    ],
    ids=["number", "one", "name"],
)
def test_checks_of_another_shape_are_refused_by_the_service(
    run, server: Server, tmp_path: Path, checks: object, told: str
) -> None:
    (tmp_path / "audit.json").write_text(json.dumps({"checks": checks}))
    for command in ("submit", "run"):
        refused = run("audit", command, tmp_path / "audit.json", "--url", server.url)
        assert refused.exit_code == 2, refused.output
        assert refused.output.count(told) == 1


def test_numbers_stand_in_columns_and_are_written_as_in_the_report() -> None:
    long = "adversarial_accuracy[arm=calibrated_paper,recipe=input_reduction]"
    estimates = {
        "temperature[arm=calibrated]": Estimate(value=1.4e-6, low=None, high=None, n=0, method="none"),
        long: Estimate(value=0.5, low=0.4, high=0.6, n=50, method="clopper-pearson"),
        "mcnemar_p": Estimate(value=1e-25, low=None, high=None, n=50, method="exact"),
        "ece": Estimate(value=None, low=None, high=None, n=0, method="none"),
    }
    temperature, accuracy, p, ece = _table(estimates)
    assert temperature.split() == ["temperature[arm=calibrated]", "1.4e-06", "as", "given"]
    assert accuracy == f"{long}     0.5000  [0.4000, 0.6000]  n=50"
    assert p == f"{'mcnemar_p':<{len(long)}}    < 1e-12                    n=50"
    assert ece.split() == ["ece", "undefined", "n=0"]
    assert [*_table({})] == []


def test_nobody_there_ends_with_4(run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("seatrial.client.sync_session.time.sleep", lambda seconds: None)
    refused = run("models", "list", "--url", "http://127.0.0.1:9")
    assert refused.exit_code == 4
    assert "no service at http://127.0.0.1:9" in refused.output


def test_a_worker_polls_without_a_broker_and_listens_with_one(tmp_path: Path) -> None:
    alone = worker_command(Settings(home=tmp_path), ["gpu", "cpu"], beat=False, pid=7)
    assert alone[1:] == ["-P", "-m", "seatrial.floors", "workers.local"]
    settings = Settings(home=tmp_path, broker_url="redis://127.0.0.1:1/0")
    listening = " ".join(worker_command(settings, ["cpu"], beat=True, pid=7)[1:])
    assert listening.startswith("-P -m seatrial.floors celery -A workers.celery_app worker -P solo -Q cpu -n cpu-7@%h")
    assert listening.endswith("-B")
    # Jobs of batch systems poll in either set-up: a Celery worker ends for nobody.
    ending = worker_command(settings, ["gpu", "cpu"], beat=False, pid=7, until_idle_s=60)
    assert ending[1:] == ["-P", "-m", "seatrial.floors", "workers.local", "--until-idle", "60"]


@pytest.mark.parametrize(
    "options", [("--queues", "cpu"), ("--beat",), ("--queues", "tpu"), ("--beat", "--until-idle", "5")]
)
def test_a_worker_that_would_never_work_is_refused(run, options: tuple[str, ...]) -> None:
    assert run("worker", *options).exit_code == 1
