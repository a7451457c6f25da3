"""An upgrade rolls: processes of the version before and of this one, side by side over a schema that has grown.

The version before is the code as it stood when the newest migration was not there yet, from this repository's history.
"""

import io
import subprocess
import tarfile
import threading
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import select, text

from seatrial.store.database import Database, connect
from seatrial.store.migrations import current_revision
from seatrial.store.settings import Settings
from seatrial.store.tables import AuditRow, CheckRow, ShardRow
from tests import assets
from tests.databases import new_database
from tests.e2e.versions import Version
from tests.packaging.pages import ROOT
from tests.servers import eventually

pytestmark = pytest.mark.drill

CHECK = {"kind": "uncertainty_span", "epsilon": 0.1, "steps": 12, "effort": "quick", "random_start": True}
EACH = 3
"""Audits submitted to either version while both run."""


def git(*arguments: str) -> bytes:
    """Return what git says of this repository; the test is skipped where there is none, or no such history."""
    try:
        return subprocess.run(["git", "-C", ROOT, *arguments], check=True, capture_output=True).stdout
    except (FileNotFoundError, subprocess.CalledProcessError) as error:
        pytest.skip(f"no history of this repository: {error}")


@pytest.fixture(scope="module")
def before(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The code before the newest migration came."""
    added = git("log", "--diff-filter=A", "--format=%H", "-1", "--", "alembic/versions").decode().strip()
    if not added:
        pytest.skip("no commit adds a migration")
    tree = tmp_path_factory.mktemp("before")
    # The first commit of a history that was cut off has no parent to be read.
    with tarfile.open(fileobj=io.BytesIO(git("archive", "--format=tar", f"{added}^"))) as archive:
        archive.extractall(tree, filter="data")
    return tree


class Readers(threading.Thread):
    """Somebody who reads from both versions the whole time; what they were answered is counted."""

    def __init__(self, versions: list[Version]) -> None:
        super().__init__()
        self.versions, self.done = versions, threading.Event()
        self.answers: Counter[int] = Counter()

    def run(self) -> None:
        while not self.done.is_set():
            for version in list(self.versions):
                for path in ("/v1/audits", "/v1/models", "/v1/projects/default", "/v1/hardenings", "/v1/plans", "/"):
                    self.answers[version.client.get(path).status_code] += 1
            time.sleep(0.05)


@pytest.fixture
def versions(before: Path, postgres_url: str, tmp_path: Path) -> Iterator[tuple[Version, Version, Database]]:
    """Both, on an empty database of the schema before."""
    home = tmp_path / "home"
    home.mkdir()
    with new_database(postgres_url) as url:
        old, new = Version(before, home, url, "before"), Version(Path(ROOT), home, url, "now")
        opened = connect(Settings(home=home, database_url=url))
        try:
            yield old, new, opened
        finally:
            opened.dispose()
            for version in (old, new):
                version.stop()


def submit(version: Version, pair: tuple[str, str], seed: int) -> str:
    body = {
        **{"model": pair[0], "dataset": pair[1], "seed": seed, "samples": 50, "batch_size": 10, "shards": 5},
        "checks": [CHECK],
    }
    answer = version.client.post("/v1/audits", json=body)
    assert answer.status_code == 202, answer.text
    return str(answer.json()["id"])


def ended(version: Version, audits: list[str]) -> list[dict[str, Any]]:
    def are_over() -> list[dict[str, Any]] | None:
        told = [version.client.get(f"/v1/audits/{one}").json() for one in audits]
        return told if all(one["state"] in ("succeeded", "failed", "cancelled") for one in told) else None

    found = eventually(are_over, timeout_s=400, every_s=0.5, what="the end of all audits")
    assert isinstance(found, list)
    return found


def test_old_and_new_work_side_by_side_and_nothing_is_lost(versions: tuple[Version, Version, Database]) -> None:
    old, new, database = versions
    old.run("migrate")
    before = current_revision(database)
    old.start_both()
    model = old.client.post(
        "/v1/models", **assets.multipart(assets.model_manifest(), "m.safetensors", assets.weights())
    ).json()["id"]
    dataset = old.client.post("/v1/datasets", **assets.multipart(assets.dataset_manifest(), "d.npz", assets.npz()))
    pair = (model, dataset.json()["id"])
    eventually(lambda: old.client.get(f"/v1/models/{model}").json()["state"] == "ready", timeout_s=120)
    # One is under way when the schema grows.
    audits = [submit(old, pair, 0)]
    readers = Readers([old])
    readers.start()
    try:
        new.run("migrate")
        assert current_revision(database) != before
        new.start_both()
        assert old.is_ready()
        readers.versions.append(new)
        for seed in range(EACH):
            audits += [submit(old, pair, seed), submit(new, pair, seed)]
        told = ended(new, audits)
    finally:
        readers.done.set()
        readers.join()
    assert [one["state"] for one in told] == ["succeeded"] * len(audits), told
    assert set(readers.answers) == {200}, readers.answers
    # Whichever version measured it, whichever tells it, the records are those of its seed.
    records: dict[int, set[bytes]] = {}
    for one in told:
        for version in (old, new):
            asked = {"stage": "attack", "format": "parquet"}
            answer = version.client.get(f"/v1/audits/{one['id']}/records/0", params=asked)
            assert answer.status_code == 200, answer.text
            records.setdefault(one["seed"], set()).add(answer.content)
        assert old.client.get(f"/v1/audits/{one['id']}").json()["checks"][0]["result"]["counts"]["n"] == 50
    assert {seed: len(found) for seed, found in records.items()} == dict.fromkeys(range(EACH), 1)
    with database.read() as session:
        codes = session.execute(
            select(CheckRow.audit_id, ShardRow.code).join(ShardRow, ShardRow.check_id == CheckRow.id).distinct()
        ).all()
        shards = session.execute(select(ShardRow.stage, ShardRow.start, CheckRow.audit_id).join(CheckRow)).all()
        assert session.scalars(select(AuditRow.id)).all()
    # One version measured each audit, and no shard is there twice.
    assert len(codes) == len(audits)
    assert len(shards) == len(set(shards))
    assert not [code for _, code in codes if code is None]
    contract(old, new, database, pair)


def contract(old: Version, new: Version, database: Database, pair: tuple[str, str]) -> None:
    """What only the new version needs goes from the schema: the old one says that it is too old, and leaves."""
    with database.write() as session:
        # As a migration writes it that takes something away.
        session.execute(text('UPDATE "schema" SET needs = :revision'), {"revision": current_revision(database)})
    eventually(lambda: not old.is_ready(), timeout_s=60, what="the old version saying that it is too old")
    assert new.is_ready()
    old.stop()
    (last,) = ended(new, [submit(new, pair, EACH)])
    assert last["state"] == "succeeded"
