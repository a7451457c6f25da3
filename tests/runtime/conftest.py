from collections.abc import Iterator

import pytest

from seatrial.store.database import Database, connect
from seatrial.store.migrations import upgrade
from seatrial.store.settings import Settings


@pytest.fixture
def db(settings: Settings) -> Iterator[Database]:
    """An empty database of the module's settings."""
    opened = connect(settings)
    upgrade(opened)
    yield opened
    opened.dispose()
