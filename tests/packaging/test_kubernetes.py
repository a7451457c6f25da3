"""The manifests that the chart renders to start what there is, with variables that there are, on tables that there are.

Rendering and Kubernetes' schemas are for scripts/render_chart.py, by hand; here the chart must not have changed since.
"""

import hashlib
import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from click import Group
from sqlalchemy import text

from app.cli import main
from scripts.generate_docs import OTHER_VARIABLES
from seatrial.contracts.states import ModelState
from seatrial.store.database import Database
from seatrial.store.grants import WORKER
from seatrial.store.settings import Settings
from seatrial.store.waiting import count_work
from tests.packaging.pages import ROOT
from tests.rows import add_audit
from tests.store.test_lifecycle import start_stage, take_shard

CHART = ROOT / "deploy" / "helm" / "seatrial"
RENDERED = sorted((ROOT / "deploy" / "kubernetes").glob("*.yaml"))
VARIABLES = {f"SEATRIAL_{name.upper()}" for name in Settings.model_fields} | set(OTHER_VARIABLES)
# Uvicorn's own.
VARIABLES |= {"FORWARDED_ALLOW_IPS"}


def manifests(path: Path) -> list[dict[str, Any]]:
    return [one for one in yaml.safe_load_all(path.read_text()) if one]


def containers(path: Path) -> dict[str, dict[str, Any]]:
    """Return the containers of a rendered file by what starts them."""
    found = {}
    for manifest in manifests(path):
        spec = manifest.get("spec", {})
        template = spec.get("template") or spec.get("jobTargetRef", {}).get("template")
        if template:
            (found[f"{manifest['kind']} {manifest['metadata']['name']}"],) = template["spec"]["containers"]
    return found


EVERY = [
    pytest.param(container, id=f"{path.stem}: {name}")
    for path in RENDERED
    for name, container in containers(path).items()
]


@pytest.mark.parametrize("path", RENDERED, ids=lambda path: path.name)
def test_what_is_rendered_is_of_the_chart_as_it_is(path: Path) -> None:
    digest = hashlib.sha256()
    for one in sorted(one for one in CHART.rglob("*") if one.is_file()):
        digest.update(f"{one.relative_to(CHART).as_posix()}\n".encode() + one.read_bytes())
    assert digest.hexdigest() in path.read_text().partition("\n")[0], "run scripts/render_chart.py"


def test_workers_stay_or_come_with_the_queue() -> None:
    assert [path.name for path in RENDERED] == ["keda.yaml", "workers.yaml"]
    always = {"Deployment seatrial-api", "Deployment seatrial-scheduler", "Job seatrial-migrate"}
    keda, workers = map(containers, RENDERED)
    # Of unlike names: a Deployment and the jobs of a queue may be watched, or stand, beside each other.
    assert set(keda) == always | {"ScaledJob seatrial-worker-jobs"}
    assert set(workers) == always | {"Deployment seatrial-worker-cpu"}
    assert workers["Deployment seatrial-worker-cpu"]["command"][2:] == ["--queues", "gpu"]
    # Where nobody says otherwise, nothing waits for a GPU that is not there.
    for one in (keda["ScaledJob seatrial-worker-jobs"], workers["Deployment seatrial-worker-cpu"]):
        assert {"name": "SEATRIAL_DEVICE", "value": "cpu"} in one["env"]
        assert "nvidia.com/gpu" not in one["resources"]["limits"]
    (job,) = (one for one in manifests(RENDERED[0]) if one["kind"] == "ScaledJob")
    assert job["metadata"]["labels"]["kueue.x-k8s.io/queue-name"] == "seatrial"
    assert job["spec"]["triggers"][0]["metadata"]["query"] == keda_query()


@pytest.mark.parametrize("container", EVERY)
def test_commands_and_variables_are_ones_that_there_are(container: dict[str, Any]) -> None:
    program, command, *arguments = container["command"]
    assert program == "seatrial"
    assert isinstance(main, Group)
    main.commands[command].make_context(command, list(arguments), resilient_parsing=False).close()
    assert {variable["name"] for variable in container["env"]} <= VARIABLES
    assert container["securityContext"]["readOnlyRootFilesystem"]
    assert container["resources"]["limits"]["memory"]


def test_probes_ask_routes_that_there_are(tmp_path: Path) -> None:
    for path in RENDERED:
        api = containers(path)["Deployment seatrial-api"]
        asked = {api[probe]["httpGet"]["path"] for probe in ("startupProbe", "livenessProbe", "readinessProbe")}
        assert asked == {"/healthz", "/readyz"}


def test_the_secret_s_keys_are_those_the_values_name() -> None:
    named = set(re.findall(r"^#   ([a-z-]+-[a-z]+)\b", (CHART / "values.yaml").read_text(), re.MULTILINE))
    named |= {"worker-password"}
    asked = {
        variable["valueFrom"]["secretKeyRef"]["key"]
        for path in RENDERED
        for container in containers(path).values()
        for variable in container["env"]
        if "valueFrom" in variable
    }
    assert asked == named


def keda_query() -> str:
    return str(yaml.safe_load((CHART / "values.yaml").read_text())["keda"]["query"])


def test_keda_counts_what_waits(database: Database) -> None:
    def counted() -> int:
        with database.read() as session:
            found = session.execute(text(keda_query())).scalar_one()
            assert found == count_work(session)
        return int(found)

    assert counted() == 0
    start_stage(database, add_audit(database), shards=3)
    assert counted() == 3
    take_shard(database)
    assert counted() == 2
    add_audit(database)
    assert counted() == 3
    # The role in KEDA's URL may read all that is counted.
    assert all("SELECT" in WORKER[table] for table in re.findall(r"FROM (\w+)", keda_query()))
    with database.write() as session:
        session.execute(
            text(f"UPDATE models SET state = '{ModelState.CHECKING}' WHERE id = (SELECT max(id) FROM models)")
        )
    with database.read() as session:
        # A check whose model is not ready counts already: it is about to wait.
        assert session.execute(text(keda_query())).scalar_one() == count_work(session) + 1
