"""Chromium driven through its own debugging pipe: pages are clicked and typed in as a person would.

The protocol is JSON between NUL bytes on two file descriptors, so no further package is needed.
"""

import base64
import contextlib
import fcntl
import json
import os
import select
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.servers import die_with_parent

FLAGS = [
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--hide-scrollbars"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync", "--disable-dev-shm-usage"),
    # Every name but the service's own is unknown, as on a machine without a network.
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
    "--remote-debugging-pipe",
]


class Tab:
    """One page of a browser.

    Attributes:
        complaints: What the console said was wrong: errors, exceptions, policies that were broken, dialogs.
    """

    def __init__(self, asks: int, answers: int) -> None:
        self._asks, self._answers = asks, answers
        self._pending = b""
        self._number = 0
        self._session = ""
        self._events: list[dict[str, Any]] = []
        self.complaints: list[str] = []
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log"):
            self.call(f"{domain}.enable")
        self.call("Page.setLifecycleEventsEnabled", enabled=True)

    def call(self, method: str, **params: Any) -> dict[str, Any]:
        """Send a command and return its result."""
        self._number += 1
        message: dict[str, Any] = {"id": self._number, "method": method, "params": params}
        if self._session:
            message["sessionId"] = self._session
        os.write(self._asks, json.dumps(message).encode() + b"\0")
        deadline = time.monotonic() + 30
        while time.monotonic() < deadline:
            told = self._read(deadline - time.monotonic())
            if told is not None and told.get("id") == self._number:
                assert "error" not in told, (method, told["error"])
                return dict(told["result"])
        raise AssertionError(f"no answer to {method}")

    def _read(self, timeout_s: float) -> dict[str, Any] | None:
        while b"\0" not in self._pending:
            if not select.select([self._answers], [], [], max(timeout_s, 0))[0]:
                return None
            data = os.read(self._answers, 2**16)
            assert data, "the browser has gone"
            self._pending += data
        first, _, self._pending = self._pending.partition(b"\0")
        told: dict[str, Any] = json.loads(first)
        if "method" in told:
            self._note(told)
        return told

    def _note(self, event: dict[str, Any]) -> None:
        method, params = event["method"], event["params"]
        if method == "Page.javascriptDialogOpening":
            self.complaints.append(f"dialog: {params['message']}")
        elif method == "Runtime.exceptionThrown":
            self.complaints.append(f"exception: {params['exceptionDetails']}")
        elif method == "Log.entryAdded" and params["entry"]["level"] == "error":
            self.complaints.append(f"log: {params['entry']['text']} {params['entry'].get('url', '')}")
        elif method == "Runtime.consoleAPICalled" and params["type"] in ("error", "assert"):
            self.complaints.append(f"console: {params['args']}")
        self._events.append(event)

    def goto(self, url: str) -> None:
        """Open a page and wait until it is loaded."""
        self._events.clear()
        # The page before may still be loading, and tell so: only the load of this navigation counts.
        self._loaded(self.call("Page.navigate", url=url)["loaderId"])

    def _loaded(self, loader: str | None = None) -> None:
        deadline = time.monotonic() + 30
        while not any(self._is_load(event, loader) for event in self._events):
            assert time.monotonic() < deadline, "the page did not load"
            self._read(deadline - time.monotonic())

    def _is_load(self, event: dict[str, Any], loader: str | None) -> bool:
        if loader is None:
            return bool(event["method"] == "Page.loadEventFired")
        told = event["params"]
        is_ours = event["method"] == "Page.lifecycleEvent" and told["loaderId"] == loader
        return bool(is_ours and told["name"] == "load")

    def value(self, expression: str) -> Any:
        """Return what a JavaScript expression is in the page."""
        told = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in told, told["exceptionDetails"]
        return told["result"].get("value")

    def text(self, selector: str = "main") -> str:
        """Return what a person reads in an element."""
        return str(self.value(f"document.querySelector({json.dumps(selector)}).innerText"))

    def html(self) -> str:
        """Return the page's elements as they are now."""
        return str(self.value("document.documentElement.outerHTML"))

    def wait(self, expression: str, *, timeout_s: float = 20) -> None:
        """Wait until an expression is true in the page."""
        deadline = time.monotonic() + timeout_s
        while time.monotonic() < deadline:
            # A page that is being left has nothing to be asked.
            with contextlib.suppress(AssertionError):
                if self.value(f"Boolean({expression})"):
                    return
            time.sleep(0.05)
        raise AssertionError(f"not within {timeout_s:g} s: {expression}\n{self.text('body')}")

    def settle(self) -> None:
        """Wait until a page that renders itself has changed nothing for a while."""
        self.value("""new Promise((done) => {
            const observer = new MutationObserver(() => { clearTimeout(quiet); quiet = setTimeout(end, 400); });
            const end = () => { observer.disconnect(); done(); };
            let quiet = setTimeout(end, 400);
            observer.observe(document.body, { childList: true, subtree: true, attributes: true });
        })""")

    def fill(self, selector: str, text: str) -> None:
        """Put text into a field."""
        told = f"document.querySelector({json.dumps(selector)})"
        self.value(f"{told}.value = {json.dumps(text)}; {told}.dispatchEvent(new Event('change', {{bubbles: true}}))")

    def attach(self, selector: str, path: Path) -> None:
        """Choose a file."""
        # By the element itself: a number of a node ends with the next change of the page.
        found = self.call("Runtime.evaluate", expression=f"document.querySelector({json.dumps(selector)})")["result"]
        self.call("DOM.setFileInputFiles", objectId=found["objectId"], files=[str(path)])

    def press(self, selector: str) -> None:
        """Click what leads to another page, and wait for that."""
        self._events.clear()
        self.value(f"document.querySelector({json.dumps(selector)}).click()")
        self._loaded()

    def key(self, name: str) -> None:
        """Press a key of the keyboard."""
        codes = {"Tab": 9, "Enter": 13, "Space": 32}
        text = {"Enter": "\r", "Space": " "}.get(name, "")
        told = {"key": text.strip() or name, "code": name, "windowsVirtualKeyCode": codes[name]}
        self.call("Input.dispatchKeyEvent", type="keyDown", text=text, **told)
        self.call("Input.dispatchKeyEvent", type="keyUp", **told)

    def look(self, *, width: int = 1200, height: int = 900, dark: bool = False) -> None:
        """Set the size of the window and whether its owner prefers dark pages."""
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        still = {"name": "prefers-reduced-motion", "value": "reduce"}
        self.call("Emulation.setEmulatedMedia", features=[scheme, still])

    def picture(self, path: Path, *, whole: bool = False) -> Path:
        """Take a picture, of the whole page or of what the window shows."""
        told = self.call("Page.captureScreenshot", format="png", captureBeyondViewport=whole)
        if whole:
            size = self.call("Page.getLayoutMetrics")["cssContentSize"]
            clip = {"x": 0, "y": 0, "width": size["width"], "height": size["height"], "scale": 1}
            told = self.call("Page.captureScreenshot", format="png", captureBeyondViewport=True, clip=clip)
        path.write_bytes(base64.b64decode(told["data"]))
        return path


@contextlib.contextmanager
def chromium(folder: Path) -> Iterator[Tab]:
    """Start a browser without a network and yield a page of it; a skip that nobody overlooks where there is none."""
    program = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if program is None:
        print("\n*** NO CHROMIUM: the console was not looked at in a browser ***\n", file=sys.__stderr__)
        pytest.skip("no chromium on this machine (Debian: apt-get install chromium)")
    ends = [*os.pipe(), *os.pipe()]
    # Away from 3 and 4, which the browser's ends become.
    their_in, our_out, our_in, their_out = (fcntl.fcntl(end, fcntl.F_DUPFD_CLOEXEC, 20) for end in ends)
    for end in ends:
        os.close(end)

    def become() -> None:
        die_with_parent()
        os.dup2(their_in, 3)
        os.dup2(their_out, 4)

    browser = subprocess.Popen(
        [program, *FLAGS, f"--user-data-dir={folder / 'profile'}"],
        preexec_fn=become,
        close_fds=False,
        start_new_session=True,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    os.close(their_in)
    os.close(their_out)
    try:
        yield Tab(our_out, our_in)
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(browser.pid, signal.SIGKILL)
        browser.wait(timeout=20)
        os.close(our_out)
        os.close(our_in)
