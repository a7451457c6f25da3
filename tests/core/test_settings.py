"""Settings come from the environment and are checked at the start."""

from pathlib import Path

import pytest
from pydantic import ValidationError

from app.core.settings import Settings


def test_a_heartbeat_must_fit_into_the_lease_twice() -> None:
    with pytest.raises(ValidationError, match="heartbeat_s"):
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
