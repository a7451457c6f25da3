"""A worker that serves several projects keeps the secrets of each to its models."""

from pathlib import Path
from typing import Any

import pytest
import torch
from pydantic import SecretStr

from seatrial.contracts.endpoints import EndpointSecret
from seatrial.store.artifacts import LocalStore
from seatrial.store.ids import new_id
from seatrial.store.tables import ModelRow, ProjectRow
from tests.databases import migrated
from tests.models.endpoint.asked import manifest, settings
from tests.rows import add_project
from tests.scripted import Scripted
from workers.errors import TargetError
from workers.models.endpoint import EndpointClassifier
from workers.runtime.resources import Resources


def test_the_same_manifest_has_a_secret_in_the_project_it_is_for_only(server: Scripted, tmp_path: Path) -> None:
    said = manifest(server.url, headers={"Authorization": "{{secret:MODELS}}"}).model_dump(mode="json")
    entry: dict[str, Any] = {"host": "127.0.0.1", "scheme": "http", "port": server.port, "value": SecretStr("hush")}
    database = migrated(settings(home=tmp_path))
    mine, other = (_add_model(database, add_project(database), said) for _ in range(2))
    assert mine.project_name != other.project_name
    known = {"MODELS": EndpointSecret(**entry, projects=[mine.project_name])}
    resources = Resources(
        LocalStore(tmp_path / "artifacts"), torch.device("cpu"), settings(home=tmp_path, endpoint_secrets=known)
    )
    endpoint = resources.scoring(mine).classifier
    assert isinstance(endpoint, EndpointClassifier)
    assert len(endpoint.check(["a"])) == 1
    assert [asked.headers["authorization"] for asked in server.asked] == ["hush"]
    # Kept from a moment ago, it would be asked with the secret of the first.
    with pytest.raises(TargetError, match=f"no secret MODELS for project {other.project_name}"):
        resources.scoring(other)
    endpoint.close()
    database.dispose()


def _add_model(database: Any, project_id: str, said: dict[str, Any]) -> ModelRow:
    row = ModelRow(
        **{"id": new_id("mdl"), "project_id": project_id, "name": "m", "version": "1", "task": said["task"]},
        **{"manifest": said, "digest": "sha256:" + "0" * 64, "size_bytes": 1, "format": "endpoint"},
    )
    with database.write() as session:
        session.add(row)
    with database.read() as session:
        stored = session.get_one(ModelRow, row.id)
        assert stored.project_name == session.get_one(ProjectRow, project_id).name
        return stored
