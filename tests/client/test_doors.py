"""`models add`, `datasets add` and `audit run` take what people hold in their hands, as `gate` does."""

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from PIL import Image

from app.cli import main
from app.cli.exits import as_click
from seatrial.client import Client, ServiceUnreachableError
from tests import assets
from tests.client.conftest import Server


@pytest.fixture
def run(server: Server, monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    monkeypatch.chdir(tmp_path)

    def called(*arguments: object) -> Result:
        words = [*(str(one) for one in arguments), "--url", server.url]
        return CliRunner().invoke(main, words, catch_exceptions=False)

    return called


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A model's folder with its manifest."""
    made = tmp_path / "digits-cnn"
    made.mkdir()
    (made / "manifest.json").write_text(json.dumps(assets.model_manifest()))
    (made / "weights.safetensors").write_bytes(assets.weights())
    return made


def test_a_model_s_folder_its_file_and_an_archive_of_neither_are_told_apart(run, folder: Path, client: Client) -> None:
    added = run("models", "add", folder, "--wait", 0)
    assert added.exit_code == 0, added.output
    model = client.model(added.stdout.strip())
    assert (model.name, model.version) == (assets.model_manifest()["name"], assets.model_manifest()["version"])
    again = run("models", "add", folder / "weights.safetensors", "--wait", 0)
    assert again.stdout == added.stdout
    other = client.model(run("models", "add", folder, "--version", "two", "--wait", 0).stdout.strip())
    assert other.version == "two"


def test_a_manifest_elsewhere_is_taken_for_a_folder_too(run, folder: Path, client: Client) -> None:
    (folder / "manifest.json").rename(folder.parent / "said.json")
    refused = run("models", "add", folder)
    assert refused.exit_code == 2
    assert "it must hold manifest.json (missing)" in refused.output
    added = run("models", "add", folder, "--manifest", folder.parent / "said.json", "--wait", 0)
    assert added.exit_code == 0, added.output
    assert client.model(added.stdout.strip()).state == "checking"


@pytest.mark.parametrize(
    ("files", "told"),
    [
        ({"model.pt": b"x"}, "pickle is never loaded"),
        ({"readme.md": b"x"}, "and one .safetensors, .pt2 or .onnx file (there: none)"),
        ({"config.json": b'{"architectures": ["BertForSequenceClassification"]}'}, "safe_serialization=True"),
    ],
)
def test_a_folder_that_is_no_model_is_refused_with_what_would_be(run, tmp_path: Path, files, told: str) -> None:
    made = tmp_path / "something"
    made.mkdir()
    for name, content in files.items():
        (made / name).write_bytes(content)
    refused = run("models", "add", made)
    assert refused.exit_code == 2
    assert told in refused.output


def test_a_folder_of_class_folders_is_a_dataset_without_a_manifest(run, tmp_path: Path, client: Client) -> None:
    for label in ("cat", "dog"):
        (tmp_path / "pets" / label).mkdir(parents=True)
        for number in range(2):
            Image.new("RGB", (8, 8), (40 * number, 90, 10)).save(tmp_path / "pets" / label / f"{number}.png")
    added = run("datasets", "add", "pets")
    assert added.exit_code == 0, added.output
    found = client.dataset(added.stdout.strip())
    assert (found.name, found.task, found.facts.examples) == ("pets", "image-classification", 4)
    shown = json.loads(run("datasets", "show", found.id).stdout)
    assert shown == found.model_dump(mode="json")


def test_a_table_is_a_dataset_by_its_columns_and_others_are_told_what_to_write(run, tmp_path: Path) -> None:
    (tmp_path / "reviews.csv").write_text("text,label\nfine,good\npoor,bad\nnice,good\ndull,bad\n")
    assert "reviews" in run("datasets", "add", "reviews.csv").stderr
    (tmp_path / "odd.csv").write_text("review,stars\nfine,good\n")
    refused = run("datasets", "add", "odd.csv")
    assert refused.exit_code == 2
    assert "write odd.csv.manifest.json beside it" in refused.output
    (tmp_path / "odd.csv.manifest.json").write_text('{"task": "text-classification"}')
    refused = run("datasets", "add", "odd.csv")
    assert refused.exit_code == 2
    assert "Set it in odd.csv.manifest.json" in refused.output


def test_why_a_model_was_rejected_is_in_the_list_and_on_its_page(run, folder: Path, client: Client) -> None:
    id_ = run("models", "add", folder, "--wait", 0).stdout.strip()
    shown = json.loads(run("models", "show", id_).stdout)
    assert shown == client.model(id_).model_dump(mode="json")
    assert shown["manifest"]["name"] == assets.model_manifest()["name"]
    refused = run("models", "show", "mdl_0")
    assert refused.exit_code == 2
    assert "mdl_0" in refused.output


def test_an_audit_without_checks_runs_what_a_gate_would(run, folder: Path, tmp_path: Path, client: Client) -> None:
    (tmp_path / "digits.npz").write_bytes(assets.npz(60))
    (tmp_path / "digits.npz.manifest.json").write_text(json.dumps(assets.dataset_manifest()))
    model = run("models", "add", folder, "--wait", 0).stdout.strip()
    data = run("datasets", "add", "digits.npz").stdout.strip()
    submitted = run("audit", "submit", "--model", model, "--data", data, "--samples", 20)
    assert submitted.exit_code == 0, submitted.output
    assert "No checks are given: running uncertainty_span (within l_inf 0.0314 (8/255) of each input) with" in (
        submitted.stderr
    )
    assert "; --checks or `checks` of a policy file give others." in submitted.stderr
    audit = client.audit(submitted.stdout.strip())
    assert [check.kind for check in audit.checks] == ["uncertainty_span"]
    client.cancel(audit.id)


def test_ctrl_c_says_what_goes_on_and_how_to_end_it(
    server: Server, run, folder: Path, tmp_path: Path, client: Client
) -> None:
    (tmp_path / "digits.npz").write_bytes(assets.npz(60))
    (tmp_path / "digits.npz.manifest.json").write_text(json.dumps(assets.dataset_manifest()))
    model = run("models", "add", folder, "--wait", 0).stdout.strip()
    data = run("datasets", "add", "digits.npz").stdout.strip()
    command = [sys.executable, "-m", "seatrial", "audit", "run", "--model", model, "--data", data, "--url", server.url]
    with subprocess.Popen([*command, "--samples", "20"], stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        told = ""
        while "uncertainty_span: queued" not in told:
            told += process.stderr.readline()
        # What Ctrl-C is, where CI systems do it; a test that runs in the background may have SIGINT ignored.
        process.send_signal(signal.SIGTERM)
        told += process.communicate(timeout=60)[1]
        assert process.returncode == 130
    audit = next(iter(client.audits()))
    assert f"it keeps running: seatrial audit status {audit.id}, or seatrial audit cancel {audit.id}" in told
    assert audit.state == "queued"
    client.cancel(audit.id)


def test_where_nobody_listens_the_command_that_starts_a_service_is_told() -> None:
    refused = as_click(ServiceUnreachableError("GET /v1/models: [Errno 111] Connection refused"))
    assert refused.exit_code == 4
    assert "start one with `seatrial serve`" in refused.message
    assert "seatrial serve" not in as_click(ServiceUnreachableError("GET /v1/models: timed out")).message
