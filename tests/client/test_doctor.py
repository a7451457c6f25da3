"""The doctor, from the command line."""

import importlib
import socket
from datetime import timedelta
from pathlib import Path

import pytest
from alembic.script import ScriptDirectory
from click.testing import CliRunner
from sqlalchemy import update

from app.cli import main
from seatrial import alive
from seatrial.attestation.key_folder import KeyFolder
from seatrial.store.artifacts import open_store
from seatrial.store.migrations import make_config
from seatrial.store.settings import Settings
from seatrial.store.tables import DatasetRow, ModelRow
from tests.client.conftest import Server
from tests.databases import migrated
from tests.rows import add_audit

# As an attribute of the package, the name is the command's.
doctor_module = importlib.import_module("app.cli.doctor")


@pytest.fixture
def quick_doctor(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A doctor that asks no other process, and a home that is not there yet."""
    monkeypatch.setattr(doctor_module, "_program", lambda *arguments: None)
    monkeypatch.setattr(doctor_module, "packages", lambda **options: iter(()))
    home = tmp_path / "unused"
    monkeypatch.setenv("SEATRIAL_HOME", str(home))
    return home


def doctored(*options: object) -> tuple[int, dict[str, str]]:
    """Return how the doctor ends, and what it said by what it looked at."""
    done = CliRunner().invoke(main, ["doctor", *(str(one) for one in options)], catch_exceptions=False)
    lines = done.stdout.splitlines()
    found: dict[str, str] = {}
    for line in lines:
        if line.startswith(" "):
            found[list(found)[-1]] += " | " + line.strip()
        else:
            verdict, _, rest = line.partition("  ")
            what, _, told = rest.strip().partition(": ")
            found[what] = f"{verdict.strip()}: {told}"
    return done.exit_code, found


def test_the_doctor_finds_a_taken_port_and_an_old_database(quick_doctor: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor_module, "ANSWER_S", 0.2)
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        quick_doctor.mkdir(exist_ok=True)
        (quick_doctor / "seatrial.db").write_bytes(b"")
        status, found = doctored("--home", quick_doctor, "--port", taken.getsockname()[1])
        # Who listens and says nothing is waited for once.
        taken.setblocking(False)
        taken.accept()[0].close()
        with pytest.raises(BlockingIOError):
            taken.accept()
    assert status == 1
    assert found["port"].startswith("missing: ")
    assert found["port"].endswith(f"fix: seatrial serve --home {quick_doctor} --port 0")
    assert found["database"] == "missing: its schema is not up to date (at nothing) | fix: seatrial migrate"
    assert found["home"].startswith("ok: ")


def test_the_doctor_tells_a_service_of_this_home_from_another(quick_doctor: Path, server: Server) -> None:
    ours, home = server.url.rpartition(":")[2], server.settings.home
    alive.mark_port(home, int(ours))
    assert doctored("--home", home, "--port", ours)[1]["port"] == f"ok: {ours}: Seatrial listens there"
    status, found = doctored("--home", quick_doctor, "--port", ours)
    other = f"{ours}: another Seatrial, of another home than {quick_doctor}, listens there"
    assert (status, found["port"]) == (1, f"missing: {other} | fix: seatrial serve --home {quick_doctor} --port 0")
    head = ScriptDirectory.from_config(make_config()).get_current_head()
    assert (
        doctored("--home", home, "--port", ours)[1]["database"] == f"ok: sqlite, its schema is up to date (at {head})"
    )
    # A home that is served needs no second port.
    alive.mark_port(quick_doctor, 1)
    assert doctored("--home", quick_doctor, "--port", ours)[1]["port"].startswith(
        f"optional: {other}; this home is served on 1 | "
    )
    alive.unmark_port(quick_doctor)
    # A service that was killed leaves its mark, and nobody behind it.
    (quick_doctor / alive.FOLDER / alive._name(2**22 + 1)).with_suffix(".port").write_text("7")
    assert alive.ports(quick_doctor) == set()


def test_the_doctor_reads_every_stored_file(quick_doctor: Path) -> None:
    settings = Settings(home=quick_doctor)
    assert "store" not in doctored("--verify")[1]
    assert not quick_doctor.exists()
    database, store = migrated(settings), open_store(settings)
    digest = store.put_bytes(b"weights")
    add_audit(database)
    with database.write() as session:
        session.execute(update(ModelRow).values(digest=digest))
        session.execute(update(DatasetRow).values(digest=digest))
    assert doctored("--verify")[1]["store"] == "ok: every file is what its digest says"
    store.local_path(digest).write_bytes(b"weightz")
    assert "store" not in doctored()[1]
    status, found = doctored("--verify")
    assert status == 1
    assert found["store"].startswith(f"missing: {digest} is damaged: model ")
    assert found["store"].endswith("fix: upload it again")
    store.delete(digest)
    assert f"{digest} is gone" in doctored("--verify")[1]["store"]
    database.dispose()


def test_the_doctor_names_a_wrong_setting(quick_doctor: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SEATRIAL_LEASE_S", "soon")
    status, found = doctored()
    assert status == 1
    assert "SEATRIAL_LEASE_S" in found["settings"]


def test_the_doctor_finds_a_home_that_cannot_be_written(quick_doctor: Path) -> None:
    quick_doctor.write_text("a file")
    assert doctor_module.folder(Settings(home=quick_doctor)).verdict == "missing"


def test_the_doctor_finds_a_broker_that_is_down(quick_doctor: Path) -> None:
    down = Settings(home=quick_doctor, broker_url="redis://127.0.0.1:1/0")
    assert doctor_module.broker(down).verdict == "missing"


def test_the_doctor_compares_packages_with_what_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = ["click>=8", "there-is-no-such>=1", 'torch>=999; extra == "worker"', 'seatrial[worker]; extra == "text"']
    monkeypatch.setattr("seatrial.installed.requires", lambda name: asked)
    found = {one.subject: one for one in doctor_module.packages(is_worker_needed=True)}
    assert found["seatrial"].found == "there-is-no-such is not installed"
    assert found["seatrial"].fix == "pip install 'seatrial'"
    assert found["seatrial[worker]"].found.startswith("torch is ")
    assert found["seatrial[worker]"].found.endswith("needs >=999")
    assert found["seatrial[text]"].found == found["seatrial[worker]"].found
    assert [found[name].verdict for name in ("seatrial", "seatrial[worker]", "seatrial[text]", "seatrial[demo]")] == [
        "missing",
        "missing",
        "optional",
        "ok",
    ]
    apart = {one.subject: one.verdict for one in doctor_module.packages(is_worker_needed=False)}
    assert apart["seatrial[worker]"] == "optional"


def test_the_doctor_tells_that_verdicts_are_not_signed_any_more(quick_doctor: Path) -> None:
    assert doctored()[1]["signing"] == "optional: no key signs verdicts | fix: seatrial keys signing create"
    keys = KeyFolder(quick_doctor / "signing")
    made = keys.create(lifetime=timedelta(days=1))
    assert made.exp is not None
    assert doctored()[1]["signing"] == f"ok: verdicts are signed by {made.kid}, until {made.exp:%Y-%m-%d}"
    keys.revoke(made.kid)
    told = "missing: no key signs verdicts any more: each has expired, is revoked, or is not here"
    assert doctored()[1]["signing"] == f"{told} | fix: seatrial keys signing create"
