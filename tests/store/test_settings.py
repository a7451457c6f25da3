"""Settings come from the environment and are checked at the start, without a word of what they hold."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from sqlalchemy import text

from seatrial.store.database import connect
from seatrial.store.settings import Settings
from seatrial.store.settings_errors import InvalidSettingsError
from tests.servers import ROOT


def test_a_heartbeat_must_fit_into_the_lease_twice() -> None:
    with pytest.raises(InvalidSettingsError, match="heartbeat_s"):
        Settings(lease_s=10, heartbeat_s=6)
    assert Settings(lease_s=10, heartbeat_s=5).heartbeat_s == 5


def test_sqlite_lives_under_home(tmp_path: Path) -> None:
    assert Settings(home=tmp_path).resolved_database_url == f"sqlite:///{tmp_path}/seatrial.db"


@pytest.mark.parametrize("url", ["postgres://u@h/d", "postgresql://u@h/d"])
def test_postgres_always_goes_through_psycopg_3(url: str) -> None:
    assert Settings(database_url=url).resolved_database_url == "postgresql+psycopg://u@h/d"


def test_the_environment_sets_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SEATRIAL_LEASE_S", "33")
    monkeypatch.setenv("SEATRIAL_ALLOWED_PATHS", '["/srv/models"]')
    settings = Settings()
    assert settings.lease_s == 33
    assert settings.allowed_paths == [Path("/srv/models")]


HIDDEN = "hunter2"
MALFORMED = {
    "no json": ("endpoint_secrets", '{"MODELS": {"host": "h", "value": "hunter2"},}', "must be JSON .*column"),
    "no entry": ("endpoint_secrets", '{"MODELS": "hunter2"}', "MODELS: .*dictionary"),
    "misspelt": ("endpoint_secrets", '{"MODELS": {"host": "h", "valeu": "hunter2"}}', "MODELS, value: Field required"),
    "swapped": ("endpoint_secrets", '{"MODELS": {"host": "h", "hunter2": "value"}}', "not known here"),
    "a url": ("endpoint_secrets", '{"M": {"host": "https://hunter2@h", "value": "hunter2"}}', "M, host: a host alone"),
    "database": ("database_url", "hunter2", "must be a URL like postgresql://"),
    "an @": ("database_url", "postgresql://u:p@hunter2@h/d", "must be a URL like postgresql://"),
    "port": ("database_url", "postgresql://u:p@h:hunter2/d", "must be a URL like postgresql://"),
    "dialect": ("database_url", "hunter2://u:p@h/d", "must be a URL like postgresql://"),
    "broker": ("broker_url", "redis://:hunter2/x@h:6379/0", "must be a URL like redis://"),
    "networks": ("endpoint_allowed_networks", "hunter2", r'must be JSON, such as \["127.0.0.1/32"\] \('),
    "network": ("endpoint_allowed_networks", '["10.0.0.300/8"]', r', such as \["127.0.0.1/32"\]'),
    "choice": ("autocast", "hunter2", "'off' or 'bfloat16'"),
    "level": ("log_level", "hunter2", "'debug', 'info', 'warning', 'error' or 'critical'"),
    "device": ("device", "hunter2", "auto, cpu, cuda or cuda:N"),
}


@pytest.mark.parametrize(("name", "value", "said"), MALFORMED.values(), ids=MALFORMED)
def test_what_does_not_fit_is_named_and_its_value_is_not(
    monkeypatch: pytest.MonkeyPatch, name: str, value: str, said: str
) -> None:
    monkeypatch.setenv(f"SEATRIAL_{name.upper()}", value)
    with pytest.raises(InvalidSettingsError, match=said) as caught:
        Settings()
    assert str(caught.value).startswith(f"SEATRIAL_{name.upper()}")
    # Nor by what went before it, which a traceback shows.
    assert HIDDEN not in repr([caught.value, caught.value.__cause__, caught.value.__context__])


@pytest.mark.slow
@pytest.mark.parametrize(
    "command",
    [
        ["seatrial", "serve", "--port", "0"],
        pytest.param(["seatrial", "worker"], marks=pytest.mark.drill),
        pytest.param(["seatrial", "doctor"], marks=pytest.mark.drill),
        ["workers.local"],
        ["celery", "-A", "workers.celery_app", "report"],
    ],
    ids=lambda command: " ".join(command[:2]),
)
def test_no_process_prints_a_secret_it_cannot_read(tmp_path: Path, command: list[str]) -> None:
    secrets = MALFORMED["misspelt"][1]
    ended = subprocess.run(
        [sys.executable, "-m", *command],
        cwd=ROOT,
        env={**os.environ, "SEATRIAL_HOME": str(tmp_path), "SEATRIAL_ENDPOINT_SECRETS": secrets},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    told = ended.stdout + ended.stderr
    # A variable of the environment is as much a request as an option is.
    assert ended.returncode == 2 if command[:2] == ["seatrial", "serve"] else ended.returncode != 0
    assert "SEATRIAL_ENDPOINT_SECRETS, MODELS, value: Field required" in told
    assert HIDDEN not in told
    assert ("Traceback" in told) == (command[0] == "celery")


def test_urls_of_honest_databases_and_brokers_are_taken(tmp_path: Path) -> None:
    for url in ("postgresql+psycopg://u:a%40b@[::1]:5432/d", "sqlite:////srv/a@b.db", "postgres://u@h/d?a=b@c"):
        assert Settings(database_url=url).database_url == url
    for url in ("redis://:p@h:6379/0", "rediss://h", "sentinel://a:26379;sentinel://b:26379", "memory://"):
        assert Settings(broker_url=url).broker_url == url


def test_errors_of_the_database_repeat_no_values(tmp_path: Path) -> None:
    database = connect(Settings(home=tmp_path))
    with pytest.raises(Exception, match="no such table") as caught, database.read() as session:
        session.execute(text("SELECT :secret FROM nowhere"), {"secret": HIDDEN})
    assert HIDDEN not in str(caught.value)
    database.dispose()
