"""A service of its own for one command: ``seatrial serve`` as a child process, stopped when the command ends."""

import os
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import httpx

from app.cli.exits import BadRequestError, CouldNotRunError, Exit, sigterm_interrupts
from seatrial.store.private_files import private_folder

START_S = 120.0
"""Patience with a service that starts: the first import after an installation reads every file from a cold disk."""
STOP_S = 30.0
"""Patience with one that stops; it gives its open streams 5 seconds and its workers 10."""
LOOK_S = 0.05
LAST_LINES = 15
TEMPORARY = "tmp"

_PARENT_DEATH = Path(__file__).with_name("parent_death.py")
_ADDRESS = "listens on "
# A service of its own has its own database, queue, files and address, whatever the shell is set up for.
_LEFT_OUT = (
    "SEATRIAL_DATABASE_URL",
    "SEATRIAL_BROKER_URL",
    "SEATRIAL_ARTIFACTS_URL",
    "SEATRIAL_BOOTSTRAP_KEY",
    "SEATRIAL_PUBLIC_URL",
)


@contextmanager
def embedded(home: Path | None = None, *, workers: int = 1, say: Callable[[str], None]) -> Iterator[str]:
    """Run a service for the length of the block and yield its address; nothing is left running afterwards.

    It ends with this process also where that is killed, and SIGTERM leaves the block as Ctrl-C does.

    Args:
        home: Folder it keeps everything in; None for a temporary one that is removed.
        workers: Worker processes.
        say: Called with a sentence when a worker dies, and with the end of the log when the service itself does.

    Raises:
        CouldNotRunError: It did not start, with the last lines of its log.
    """
    with ExitStack() as stack:
        stack.enter_context(sigterm_interrupts())
        if home is None:
            home = Path(stack.enter_context(TemporaryDirectory(prefix="seatrial-", ignore_cleanup_errors=True)))
        private_folder(home.absolute() / TEMPORARY)
        yield stack.enter_context(_serving(home.absolute(), workers, say))


@contextmanager
def _serving(home: Path, workers: int, say: Callable[[str], None]) -> Iterator[str]:
    options = ("--port", "0", "--home", str(home), "--workers", str(workers))
    serve = [sys.executable, "-P", "-m", "seatrial", "serve", *options]
    bound = [sys.executable, "-I", "-S", str(_PARENT_DEATH), str(os.getpid()), *serve]
    # A session of its own: Ctrl-C in the terminal goes to the command alone, which then stops the service.
    process = subprocess.Popen(  # noqa: S603
        bound,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
        env=_environment(os.environ, home),
    )
    output = _Output(process, home / "service.log", say)
    try:
        yield _address(process, output)
    finally:
        if process.poll() is not None and output.address is not None:
            say(f"The embedded service ended unexpectedly ({process.returncode}):")
            for line in output.last().splitlines():
                say(line)
        _stop(process)
        output.join()


class _Output:
    """Reads what the service prints: everything into its log, deaths of workers to the caller."""

    def __init__(self, process: subprocess.Popen[bytes], log: Path, say: Callable[[str], None]) -> None:
        self.address: str | None = None
        self._lines: deque[str] = deque(maxlen=LAST_LINES)
        self._thread = threading.Thread(target=self._read, args=(process, log, say), daemon=True)
        self._thread.start()

    def _read(self, process: subprocess.Popen[bytes], log: Path, say: Callable[[str], None]) -> None:
        lines = process.stdout
        assert lines is not None  # noqa: S101 - asked for as a pipe
        with log.open("ab") as file, lines:
            for line in lines:
                file.write(line)
                text = line.decode("utf-8", "replace")
                self._lines.append(text)
                if self.address is None and _ADDRESS in text:
                    self.address = text.rpartition(_ADDRESS)[2].strip()
                elif text.startswith("Worker "):
                    say(text.strip())

    def last(self) -> str:
        """Return the last lines there were, once the service has ended."""
        self.join()
        return "".join(self._lines).rstrip()

    def join(self) -> None:
        """Wait for what it still had to say; a worker that outlives it holds the pipe open, so not for ever."""
        self._thread.join(timeout=2.0)


def _environment(outer: Mapping[str, str], home: Path) -> dict[str, str]:
    """Return the environment of a service that shares nothing with the one the shell is set up for but resources."""
    inner = {name: value for name, value in outer.items() if name not in _LEFT_OUT}
    if not (home / "resources").is_dir():
        # A new home has no WordNet and no vectors: those of the installation are read.
        given = outer.get("SEATRIAL_RESOURCES") or Path(outer.get("SEATRIAL_HOME") or ".seatrial", "resources")
        inner["SEATRIAL_RESOURCES"] = str(Path(given).absolute())
    # What libraries leave in the folder of temporary files (torch: its compiler's cache) goes with the home.
    inner["TMPDIR"] = str(home / TEMPORARY)
    # What is last in the log should be what went wrong, not who asked how far it is.
    inner.setdefault("SEATRIAL_LOG_LEVEL", "warning")
    # A repository may have a package called `app` of its own: the current folder stays off the path.
    of_its_own = {"SEATRIAL_REQUIRE_KEYS": "false", "SEATRIAL_ENDS_WITH_COMMAND": "true"}
    return {**inner, **of_its_own, "PYTHONUNBUFFERED": "1", "PYTHONSAFEPATH": "1"}


def _address(process: subprocess.Popen[bytes], output: _Output) -> str:
    """Return the address once the service is ready for requests."""
    deadline = time.monotonic() + START_S
    # No proxy of the environment stands between this machine and itself.
    with httpx.Client(trust_env=False, timeout=5.0) as http:
        while time.monotonic() < deadline:
            if process.poll() == Exit.BAD_REQUEST:
                # Of a variable of the environment.
                raise BadRequestError(f"the embedded service cannot start: {output.last()}")
            if process.poll() is not None:
                raise CouldNotRunError(f"the embedded service did not start:\n{output.last()}")
            if output.address is not None and _is_ready(http, output.address):
                return output.address
            time.sleep(LOOK_S)
    raise CouldNotRunError(f"the embedded service was not ready within {START_S:g} s:\n{output.last()}")


def _is_ready(http: httpx.Client, url: str) -> bool:
    try:
        return http.get(f"{url}/readyz").status_code == 200
    except httpx.TransportError:
        return False


def _stop(process: subprocess.Popen[bytes]) -> None:
    """Ask the service to end and make it end; its workers go with it, by its own hand or by the kernel's."""
    if process.poll() is None:
        process.terminate()
        try:
            process.wait(STOP_S)
        except (subprocess.TimeoutExpired, KeyboardInterrupt):
            process.kill()
            process.wait()
