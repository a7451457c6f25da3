from collections.abc import Iterator

import pytest

from seatrial.store.database import Database
from seatrial.store.settings import Settings
from tests.databases import migrated


@pytest.fixture
def db(settings: Settings) -> Iterator[Database]:
    """An empty database of the module's settings."""
    opened = migrated(settings)
    yield opened
    opened.dispose()
