"""Chromium without a network, where one is installed."""

from collections.abc import Iterator

import pytest

from tests.client.conftest import Server, server
from tests.console.driving import Tab, chromium

__all__ = ["Server", "Tab", "server"]


@pytest.fixture(scope="session")
def chromium_tab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tab]:
    """A browser for all tests: starting one takes longer than most of them."""
    with chromium(tmp_path_factory.mktemp("browser")) as opened:
        yield opened


@pytest.fixture
def tab(chromium_tab: Tab) -> Tab:
    """An empty page of that browser, in a window of the usual size."""
    chromium_tab.goto("about:blank")
    chromium_tab.look()
    chromium_tab.complaints.clear()
    return chromium_tab
