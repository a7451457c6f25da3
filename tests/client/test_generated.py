"""A client that openapi-python-client makes of our document: every operation is there, and it runs an audit."""

import importlib
import io
import json
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

from app.cli.embedded import embedded
from app.main import create_app
from seatrial.store.settings import Settings
from tests import assets

CONFIG = Path(__file__).parents[2] / "examples" / "openapi-python-client.yaml"
PACKAGE = "generated_seatrial_client"


@pytest.fixture(scope="module")
def generated(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[ModuleType, dict[str, object], str]]:
    """The client's package, the document it was made of, and what the generator said."""
    folder = tmp_path_factory.mktemp("generated")
    document = create_app(Settings(home=folder / "home")).openapi()
    (folder / "openapi.json").write_text(json.dumps(document))
    # What it would run afterwards formats the code, which nobody reads here.
    (folder / "config.yaml").write_text(CONFIG.read_text() + "post_hooks: []\n")
    command = [sys.executable, "-m", "openapi_python_client", "generate", "--meta", "none"]
    command += ["--path", str(folder / "openapi.json"), "--config", str(folder / "config.yaml")]
    done = subprocess.run(
        [*command, "--output-path", str(folder / PACKAGE)], capture_output=True, text=True, timeout=120, check=False
    )
    sys.path.insert(0, str(folder))
    yield importlib.import_module(PACKAGE), document, done.stdout + done.stderr
    sys.path.remove(str(folder))
    for name in [name for name in sys.modules if name.partition(".")[0] == PACKAGE]:
        del sys.modules[name]


def test_every_operation_is_made_without_a_warning(generated: tuple[ModuleType, dict[str, object], str]) -> None:
    package, document, said = generated
    assert "WARNING" not in said, said[:2000]
    assert "ERROR" not in said, said[:2000]
    folder = Path(str(package.__file__)).parent / "api"
    made = {path.stem for path in folder.glob("*/*.py")} - {"__init__"}
    paths = document["paths"]
    assert isinstance(paths, dict)
    asked = [operation["operationId"] for methods in paths.values() for operation in methods.values()]
    assert made == set(asked)
    assert len(asked) == len(made)
    # Short, and of words that say what is done to what.
    assert {"submit_audit", "read_audit", "upload_model", "read_report", "read_bundle"} <= made
    assert max(map(len, made)) <= 24
    assert not [name for name in made if "v1" in name]


def test_it_runs_an_audit_and_reads_what_came_of_it(
    generated: tuple[ModuleType, dict[str, object], str], tmp_path: Path
) -> None:
    package = generated[0]

    def of(name: str) -> ModuleType:
        return importlib.import_module(f"{PACKAGE}.{name}")

    models, types = of("models"), of("types")
    with embedded(tmp_path / "home", say=print) as url, package.Client(base_url=url, timeout=60.0) as client:

        def upload(kind: str, content: bytes, file: str, manifest: dict[str, object]) -> str:
            given = types.File(payload=io.BytesIO(content), file_name=file)
            said = getattr(models, f"{kind}Manifest").from_dict(manifest)
            body = getattr(models, f"Upload{kind}FilesBody")(file=given, manifest=said)
            answer = of(f"api.{kind.lower()}s.upload_{kind.lower()}").sync_detailed(client=client, body=body)
            assert answer.status_code == 201, answer.content
            return str(answer.parsed.id)

        model = upload("Model", assets.weights(), "model.safetensors", assets.model_manifest())
        data = upload("Dataset", assets.npz(40), "digits.npz", assets.dataset_manifest())
        check = {"kind": "uncertainty_span", "steps": 2, "effort": "quick"}
        asked = models.AuditCreate.from_dict({"model": model, "dataset": data, "samples": 20, "checks": [check]})
        audit = of("api.audits.submit_audit").sync(client=client, body=asked)
        until = time.monotonic() + 120
        while audit.state in ("queued", "running") and time.monotonic() < until:
            time.sleep(0.2)
            audit = of("api.audits.read_audit").sync(audit.id, client=client)
        assert audit.state == "succeeded"
        assert audit.checks[0].result.estimates["clean_accuracy"].n == 20
        records = of("api.audits.read_audit_records").sync_detailed(
            audit.id, "0", client=client, stage="attack", format_="jsonl"
        )
        assert len(records.content.splitlines()) == 20
        report = of("api.reports.read_report").sync(audit.id, client=client, format_="json")
        assert isinstance(report, models.ReportRead)
        assert report.audit == audit.id
        assert of("api.reports.read_bundle").sync_detailed(audit.id, client=client).content.startswith(b"PK")
        refused = of("api.audits.read_audit").sync("aud_0", client=client)
        assert isinstance(refused, models.Problem)
        assert refused.status == 404
