"""Bytes and rows together: no lock is held while bytes travel, and a refusal leaves neither."""

import os
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import fsspec
import httpx
import pytest
from sqlalchemy.exc import OperationalError
from sqlalchemy.orm import Session

from app.access.authenticator import Authenticator
from app.main import create_app
from app.web.services import Services
from seatrial.store.artifacts import RemoteStore
from seatrial.store.ids import new_id
from seatrial.store.settings import Settings
from seatrial.store.tables import ModelRow
from tests.conftest import BASE_URL, TestClient
from tests.uploads import assert_nothing_stored, dataset_manifest, model_manifest, npz, upload, weights
from tests.web.test_problems import assert_problem

BUCKET = "seatrial-storing"


@pytest.fixture
def remote(settings: Settings) -> Iterator[TestClient]:
    """A client of an API that keeps its files in a bucket."""
    in_bucket = settings.model_copy(update={"artifacts_url": f"memory://{BUCKET}"})
    with TestClient(create_app(in_bucket), base_url=BASE_URL, raise_server_exceptions=False) as opened:
        yield opened
    memory = fsspec.filesystem("memory")
    if memory.exists(f"/{BUCKET}"):
        memory.rm(f"/{BUCKET}", recursive=True)


def objects() -> list[str]:
    return list(fsspec.filesystem("memory").find(f"/{BUCKET}"))


def assert_unlocked(settings: Settings) -> None:
    """Fail when somebody holds SQLite's write lock, and keeps it: what the service does by the clock is short."""
    with closing(sqlite3.connect(settings.home / "seatrial.db", timeout=2)) as connection:
        connection.execute("BEGIN IMMEDIATE")
        connection.rollback()


def test_nobody_waits_for_a_disk(client: httpx.Client, settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    synced = []

    def fsync(handle: int) -> None:
        assert_unlocked(settings)
        synced.append(handle)

    monkeypatch.setattr(os, "fsync", fsync)
    assert upload(client, "models", model_manifest(), weights()).status_code == 201
    assert upload(client, "datasets", dataset_manifest(), npz()).status_code == 201
    assert len(synced) == 2


def test_nobody_waits_for_a_bucket(remote: TestClient, settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    store = remote.app.state.services.store  # type: ignore[attr-defined]
    assert isinstance(store, RemoteStore)
    put = store._fs.put_file

    def slowly(*arguments: Any) -> None:
        assert_unlocked(settings)
        put(*arguments)

    monkeypatch.setattr(store._fs, "put_file", slowly)
    assert upload(remote, "models", model_manifest(), weights()).status_code == 201
    assert upload(remote, "datasets", dataset_manifest(), npz()).status_code == 201
    assert len(objects()) == 2


def taken_meanwhile(services: Services, monkeypatch: pytest.MonkeyPatch, digest: str) -> None:
    """Let another upload of the same name, with bytes of ``digest``, be stored while the next one is prepared."""
    prepare = services.store.prepare

    def overtaken(path: Path, own: str) -> bool:
        is_new = prepare(path, own)
        with services.database.write() as session:
            project = services.of(Authenticator).identify(None)
            assert project is not None
            row = ModelRow(
                id=new_id("mdl"),
                project_id=project.project_id,
                name="parity",
                version="1",
                task="image-classification",
                manifest={},
                digest=digest or own,
                size_bytes=1,
                format="safetensors",
            )
            session.add(row)
        return is_new

    monkeypatch.setattr(services.store, "prepare", overtaken)


@pytest.mark.parametrize("is_shared", [False, True])
def test_who_loses_a_race_leaves_an_object_only_where_a_row_names_it(
    remote: TestClient, monkeypatch: pytest.MonkeyPatch, is_shared: bool
) -> None:
    services: Services = remote.app.state.services  # type: ignore[attr-defined]
    remote.get("/v1/models")
    taken_meanwhile(services, monkeypatch, "" if is_shared else "sha256:" + "0" * 64)
    problem = assert_problem(upload(remote, "models", model_manifest(), weights()), 409)
    assert problem.errors
    assert problem.errors[0].pointer == "/manifest/version"
    assert len(objects()) == (1 if is_shared else 0)


def test_a_commit_that_fails_leaves_nothing(
    client: httpx.Client, services: Services, monkeypatch: pytest.MonkeyPatch
) -> None:
    commit = Session.commit

    def fail_for_models(session: Session) -> None:
        if not any(isinstance(row, ModelRow) for row in (*session.new, *session.identity_map.values())):
            # The service looks after itself in the background.
            commit(session)
            return
        # The first commit is that of the row; the next one is that of the cleaning up.
        monkeypatch.setattr(Session, "commit", commit)
        raise OperationalError("COMMIT", {}, Exception("gone"))

    client.get("/v1/models")
    monkeypatch.setattr(Session, "commit", fail_for_models)
    assert_problem(upload(client, "models", model_manifest(), weights()), 503)
    assert_nothing_stored(services)
