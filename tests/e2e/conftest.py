"""Both ways to run, for every test that takes ``deployment``, and one that is shared by those that disturb nothing."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.databases import new_migrated_database
from tests.e2e.deployment import Deployment
from tests.servers import Valkey, broker


@pytest.fixture
def valkey() -> Iterator[Valkey]:
    """A private broker, which a test may kill."""
    with broker() as server:
        if server is None:
            pytest.skip("no broker of our own on this machine")
        yield server


@pytest.fixture
def broker_url(request: pytest.FixtureRequest) -> str:
    """The broker the environment gives, else a private one."""
    given = os.environ.get("SEATRIAL_TEST_REDIS_URL")
    return given or str(request.getfixturevalue("valkey").url)


@pytest.fixture
def distributed(postgres_url: str, broker_url: str, tmp_path: Path) -> Iterator[Deployment]:
    """Postgres, a broker, a scheduler; workers are added by the test."""
    with (
        new_migrated_database(postgres_url) as url,
        Deployment(tmp_path, database_url=url, broker_url=broker_url) as running,
    ):
        yield running


@pytest.fixture
def distributed_on_valkey(postgres_url: str, valkey: Valkey, tmp_path: Path) -> Iterator[Deployment]:
    """The same on the private broker."""
    with (
        new_migrated_database(postgres_url) as url,
        Deployment(tmp_path, database_url=url, broker_url=valkey.url) as running,
    ):
        yield running


@pytest.fixture
def embedded(tmp_path: Path) -> Iterator[Deployment]:
    """SQLite and polling workers."""
    with Deployment(tmp_path) as running:
        yield running


@pytest.fixture
def deployment(request: pytest.FixtureRequest) -> Deployment:
    """The set-up a test names; see :func:`tests.e2e.deployment.on_both`."""
    running: Deployment = request.getfixturevalue(request.param)
    return running


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Deployment]:
    """An embedded deployment with one worker, for tests that neither stop a process nor change a setting.

    Of one module: a worker that waits for work to the end of all tests takes a twentieth of a core from them.

    It may ask endpoints of this machine.
    """
    with Deployment(tmp_path_factory.mktemp("shared")) as running:
        running.environment["SEATRIAL_ENDPOINT_ALLOWED_NETWORKS"] = '["127.0.0.0/8"]'
        running.settings.endpoint_allowed_networks = ["127.0.0.0/8"]
        running.add_worker()
        yield running
