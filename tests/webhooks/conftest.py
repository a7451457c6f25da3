"""A database without an API, and a receiver that is content."""

from collections.abc import Iterator

import pytest

from seatrial.store.database import Database, connect
from seatrial.store.settings import Settings
from tests.conftest import TestClient
from tests.scripted import Scripted, answering, serving
from tests.webhooks.hooks import api, services_of


@pytest.fixture
def db(settings: Settings) -> Iterator[Database]:
    """A migrated SQLite database."""
    opened = connect(settings)
    yield opened
    opened.dispose()


@pytest.fixture
def receiver() -> Iterator[Scripted]:
    """Answers 200."""
    with serving(answering({})) as server:
        yield server


@pytest.fixture
def quiet(settings: Settings) -> Iterator[TestClient]:
    """A client of a keyless API in which messages are sent by :func:`send` alone."""
    client = api(settings)
    yield client
    services_of(client).database.dispose()
