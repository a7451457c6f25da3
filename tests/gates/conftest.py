import pytest

from app.web.periodic import PeriodicRunner


@pytest.fixture
def nothing_periodic(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let nothing be judged but by the test itself."""
    monkeypatch.setattr(PeriodicRunner, "start", lambda self: None)
