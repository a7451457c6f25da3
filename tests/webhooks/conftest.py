"""A database without an API, and a receiver that is content."""

from collections.abc import Iterator

import pytest

from seatrial.store.database import Database, connect
from seatrial.store.settings import Settings
from tests.scripted import Scripted, answering, serving


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
