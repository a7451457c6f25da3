"""What the service creates is closed to other users of the machine, whatever the umask it was started with."""

import os
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import pytest
from click.testing import CliRunner
from sqlalchemy import text

from app.cli import main
from app.cli.doctor import privacy
from seatrial.store.artifacts import open_store
from seatrial.store.database import connect
from seatrial.store.private_files import OTHERS, created_privately
from seatrial.store.settings import Settings


@pytest.fixture(autouse=True)
def _lenient_umask() -> Iterator[None]:
    before = os.umask(0)
    yield
    os.umask(before)


@pytest.fixture
def reachable() -> Iterator[Path]:
    """A folder that others may pass through; pytest's own are closed."""
    with tempfile.TemporaryDirectory() as name:
        Path(name).chmod(0o755)
        yield Path(name)


def open_below(folder: Path) -> dict[str, str]:
    """Return everything below a folder, and itself, that others may reach, with its mode."""
    return {
        str(path): oct(mode)
        for path in (folder, *folder.rglob("*"))
        if (mode := stat.S_IMODE(path.stat().st_mode)) & OTHERS
    }


def test_a_database_is_closed_and_so_are_the_files_beside_it(tmp_path: Path) -> None:
    database = connect(Settings(home=tmp_path / "above" / "home"))
    with database.write() as session:
        session.execute(text("CREATE TABLE t (x)"))
    names = {path.name for path in (tmp_path / "above" / "home").iterdir()}
    assert names == {"seatrial.db", "seatrial.db-wal", "seatrial.db-shm"}
    assert open_below(tmp_path / "above") == {}
    database.dispose()


def test_stored_files_are_closed(tmp_path: Path) -> None:
    store = open_store(Settings(home=tmp_path / "home"))
    store.local_path(store.put_bytes(b"a model"))
    store.staging()
    assert open_below(tmp_path / "home") == {}


def test_keys_and_migrate_leave_nothing_open(tmp_path: Path) -> None:
    for command in (["migrate"], ["keys", "create", "ci"]):
        home = tmp_path / command[0]
        done = CliRunner().invoke(main, [command[0], "--home", str(home), *command[1:]], env={"SEATRIAL_HOME": ""})
        assert done.exit_code == 0, done.output
        assert open_below(home) == {}
    assert os.umask(0) == 0, "the umask outlives the command"


@pytest.mark.slow
@pytest.mark.parametrize(
    "program",
    [
        "from unittest.mock import patch\nimport workers.local\n"
        "with patch('workers.local.kept_imports', side_effect=KeyboardInterrupt): workers.local.main()",
        "import workers.celery_app\nfrom celery.signals import celeryd_init\nceleryd_init.send(sender='x')\n"
        "raise KeyboardInterrupt",
    ],
    ids=["workers.local", "celery worker"],
)
def test_workers_create_privately(program: str, tmp_path: Path) -> None:
    indented = program.replace("\n", "\n ")
    code = f"import os\ntry:\n {indented}\nexcept KeyboardInterrupt: print(oct(os.umask(0)))"
    home = tmp_path / "home"
    environment = {**os.environ, "SEATRIAL_HOME": str(home), "SEATRIAL_BROKER_URL": "redis://127.0.0.1:1/0"}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment)
    assert done.stdout.strip() == "0o77", done.stderr
    if "celery" in program:
        # A scheduler that starts before all others has somewhere to keep its schedule.
        assert home.stat().st_mode & 0o777 == 0o700


def test_a_scheduler_without_a_broker_says_which_variable_names_it(monkeypatch: pytest.MonkeyPatch) -> None:
    started = import_module("workers.celery_app")
    monkeypatch.setattr(started, "get_settings", lambda: Settings(broker_url=""))
    with pytest.raises(SystemExit, match="SEATRIAL_BROKER_URL is not set"):
        started._create_privately()


def test_serve_and_worker_start_what_they_start_privately(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    seen = []

    def look(*_: object) -> None:
        seen.append(os.umask(0o077))

    monkeypatch.setattr(import_module("app.cli.serve"), "_run", look)
    monkeypatch.setattr(os, "execv", look)
    for command in (["serve", "--port", "0", "--workers", "0"], ["worker"]):
        monkeypatch.setenv("SEATRIAL_HOME", str(tmp_path))
        monkeypatch.delenv("SEATRIAL_BROKER_URL", raising=False)
        monkeypatch.setenv("SEATRIAL_REQUIRE_KEYS", "false")
        assert CliRunner().invoke(main, command).exit_code == 0
    assert seen == [0o077, 0o077]


def test_the_doctor_warns_of_an_open_home_and_says_the_command(reachable: Path) -> None:
    home = reachable / "home dir"
    settings = Settings(home=home)
    with created_privately():
        connect(settings).dispose()
    assert privacy(settings).verdict == "ok"
    home.chmod(0o755)
    found = privacy(settings)
    assert (found.verdict, found.fix) == ("warning", f"chmod go= '{home}'")
    assert subprocess.run(found.fix, shell=True).returncode == 0
    assert privacy(settings).verdict == "ok"


def test_the_doctor_looks_at_a_database_that_is_elsewhere(reachable: Path) -> None:
    path = reachable / "other.db"
    path.touch(mode=0o644)
    settings = Settings(home=reachable / "none", database_url=f"sqlite:///{path}")
    assert privacy(settings).fix == f"chmod go= {path}"
    path.chmod(0o600)
    assert privacy(settings).verdict == "ok"


def test_threads_neither_open_what_another_writes_nor_leave_it_closed() -> None:
    first, second = created_privately(), created_privately()
    before = os.umask(0o022)
    try:
        first.__enter__()
        second.__enter__()
        first.__exit__(None, None, None)
        assert os.umask(0o077) == 0o077, "still inside the second block"
        second.__exit__(None, None, None)
        assert os.umask(0o022) == 0o022
    finally:
        os.umask(before)
