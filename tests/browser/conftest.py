"""Chromium without a network, where one is installed."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.client.conftest import Server, server

__all__ = ["Server", "server"]

FLAGS = [
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--hide-scrollbars"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync", "--disable-dev-shm-usage"),
    # Every name but the service's own is unknown, as on a machine without a network.
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
    # Pages wait for their scripts and fetches, in the page's own time.
    "--virtual-time-budget=15000",
]


class Browser:
    """Opens a page and gives what it became."""

    def __init__(self, program: str, folder: Path) -> None:
        self._program = program
        self._folder = folder

    def _run(self, *options: str) -> str:
        profile = self._folder / "profile"
        command = [self._program, *FLAGS, f"--user-data-dir={profile}", *options]
        return subprocess.run(command, check=True, capture_output=True, text=True, timeout=120).stdout

    def dom(self, url: str) -> str:
        """Return the page's elements once its scripts have run."""
        return self._run("--dump-dom", url)

    def screenshot(self, url: str, name: str, *, width: int = 1100, height: int = 1400) -> Path:
        """Take a picture of the page and return its path."""
        path = self._folder / f"{name}.png"
        self._run(f"--window-size={width},{height}", f"--screenshot={path}", url)
        return path


@pytest.fixture
def browser(tmp_path: Path) -> Browser:
    """A browser, or a skip that nobody overlooks."""
    program = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if program is None:
        print("\n*** NO CHROMIUM: /docs and the report were not looked at in a browser ***\n", file=sys.__stderr__)
        pytest.skip("no chromium on this machine (Debian: apt-get install chromium)")
    return Browser(program, tmp_path)
