"""Files that a killed process left on their way in go; those of a live upload stay."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from sqlalchemy import select

from app.main import create_app
from app.web.housekeeping import Housekeeping
from app.web.services import Services
from seatrial.store.artifacts import ArtifactStore, RemoteStore, open_store
from seatrial.store.settings import Settings
from seatrial.store.staging import LOCKED_WITHIN_S, sweep_staging, temporary_file
from seatrial.store.tables import SessionRow
from seatrial.store.tables.base import utc_now
from tests.conftest import BASE_URL, TestClient

KEPT_S = 3600.0


@pytest.fixture(params=["local", "remote"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> ArtifactStore:
    if request.param == "local":
        return open_store(Settings(home=tmp_path / "home"))
    return RemoteStore(f"memory://{tmp_path.name}", tmp_path / "home" / "cache")


def age(path: Path, seconds: float) -> None:
    then = time.time() - seconds
    os.utime(path, (then, then))


def test_a_killed_upload_is_swept_once_it_is_old_enough(store: ArtifactStore) -> None:
    code = (
        "import os, signal, sys; from pathlib import Path; from seatrial.store.staging import temporary_file\n"
        "with temporary_file(Path(sys.argv[1])) as path: path.write_bytes(b'x' * 100); os.kill(os.getpid(), 9)"
    )
    done = subprocess.run([sys.executable, "-c", code, str(store.staging())])
    assert done.returncode == -signal.SIGKILL
    (left,) = store.staging_folder.iterdir()
    assert sweep_staging(store, KEPT_S) == 0
    # Nobody has it locked, so it is nobody's after a minute.
    age(left, 2 * LOCKED_WITHIN_S)
    assert sweep_staging(store, KEPT_S) == 1
    assert not left.exists()


def test_what_is_locked_stays_for_a_while_and_what_never_is_goes_by_age(store: ArtifactStore) -> None:
    with temporary_file(store.staging()) as path:
        age(path, KEPT_S / 2)
        assert sweep_staging(store, KEPT_S) == 0
        assert path.exists()
    other = store.staging() / "half-written"
    other.touch()
    age(other, KEPT_S / 2)
    assert sweep_staging(store, KEPT_S) == 0
    age(other, KEPT_S + 1)
    assert sweep_staging(store, KEPT_S) == 1


def test_an_upload_that_is_being_written_stays_however_long_ago_it_began(store: ArtifactStore) -> None:
    with temporary_file(store.staging()) as path, path.open("ab") as file:
        age(path, 10 * KEPT_S)
        file.write(b"more")
        file.flush()
        assert sweep_staging(store, KEPT_S) == 0
        assert path.exists()


def test_stored_files_folders_and_links_stay(store: ArtifactStore, tmp_path: Path) -> None:
    stored = store.local_path(store.put_bytes(b"kept"))
    other = tmp_path / "other"
    other.write_bytes(b"not ours")
    (store.staging() / "folder").mkdir()
    (store.staging() / "link").symlink_to(other)
    for path in (stored, other, store.staging() / "folder"):
        age(path, 10 * KEPT_S)
    assert sweep_staging(store, KEPT_S) == 0
    assert stored.read_bytes() == b"kept"
    assert other.exists()


def test_there_may_be_nothing_to_sweep(store: ArtifactStore) -> None:
    assert sweep_staging(store, KEPT_S) == 0


def test_the_api_sweeps_when_it_starts(settings: Settings) -> None:
    left = open_store(settings).staging() / "left"
    left.write_bytes(b"x")
    age(left, settings.staging_kept_s + 1)
    with TestClient(create_app(settings), base_url=BASE_URL) as client:
        deadline = time.monotonic() + 20
        while left.exists() and time.monotonic() < deadline:
            time.sleep(0.01)
        assert client.get("/healthz").status_code == 200
    assert not left.exists()


def test_the_api_tidies_up_now_and_then(settings: Settings) -> None:
    # Of an API that is not running: its own round at the start would tidy up between the two looks.
    services: Services = create_app(settings).state.services
    now_and_then, once = Housekeeping(services, every_s=0.0), Housekeeping(services)
    once()
    for tidy, remains in ((once, 1), (now_and_then, 0)):
        with services.database.write() as session:
            session.merge(SessionRow(digest="d", key_digest="k", expires_at=utc_now().replace(year=2000)))
        tidy()
        with services.database.read() as session:
            assert len(session.scalars(select(SessionRow)).all()) == remains
