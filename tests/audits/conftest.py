import httpx
import pytest

from tests.uploads import upload_both


@pytest.fixture
def pair(client: httpx.Client) -> tuple[str, str]:
    """A model and a dataset."""
    return upload_both(client)
