"""Both ways to run, for every test that takes ``deployment``."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.databases import postgres_url  # noqa: F401
from tests.e2e.deployment import Deployment
from tests.servers import Valkey, broker, new_database


@pytest.fixture
def valkey() -> Iterator[Valkey]:
    """A private broker."""
    with broker() as server:
        yield server


@pytest.fixture
def distributed(request: pytest.FixtureRequest, valkey: Valkey, tmp_path: Path) -> Iterator[Deployment]:
    """Postgres, a broker, a scheduler; workers are added by the test."""
    with (
        new_database(request.getfixturevalue("postgres_url")) as url,
        Deployment(tmp_path, database_url=url, broker_url=valkey.url) as running,
    ):
        yield running


@pytest.fixture
def embedded(tmp_path: Path) -> Iterator[Deployment]:
    """SQLite and polling workers."""
    with Deployment(tmp_path) as running:
        yield running


@pytest.fixture(params=["embedded", "distributed"])
def deployment(request: pytest.FixtureRequest) -> Deployment:
    """Each of the two."""
    running: Deployment = request.getfixturevalue(request.param)
    return running
