"""Models that do harm when they are run: installed where children are forked from, told apart by their names."""

import contextlib
import os
import socket
import tempfile
import time
from pathlib import Path
from typing import Any

from seatrial.store.settings import get_settings


class PanicException(BaseException):
    """As pyo3 raises where Rust panics: no Exception."""


def reach(home: Path) -> dict[str, str]:
    """Try what no model has business with, and return what came of each."""
    given = next(Path(tempfile.gettempdir()).parent.joinpath("given").iterdir())
    tries = {
        "given": lambda: given.read_bytes(),
        "database": lambda: (home / "seatrial.db").read_bytes(),
        "stored": lambda: next((home / "artifacts").rglob("*")),
        "parent": lambda: Path(f"/proc/{os.getppid()}/environ").read_bytes(),
        "shadow": lambda: Path("/etc/shadow").read_bytes(),
        "overwrite": lambda: given.write_bytes(b"other weights"),
        "write": lambda: (home / "planted").write_bytes(b""),
        "scratch": lambda: Path(tempfile.gettempdir(), "kept").write_bytes(b""),
        "connect": lambda: socket.create_connection(("127.0.0.1", 9), 1),
        "signal": lambda: os.kill(os.getppid(), 0),
    }
    found = {}
    for name, attempt in tries.items():
        try:
            attempt()
            found[name] = "done"
        except OSError as error:
            found[name] = type(error).__name__
        except StopIteration:
            found[name] = "nothing"
    return found


def install(log: str) -> None:
    """Let the check of a model do what the model is called."""
    from workers.runtime import inline

    # Called before every fork, in the same process.
    honest = getattr(inline.check_target, "honest", inline.check_target)

    def check_target(classifier: Any, manifest: Any) -> Any:
        # Where it is confined, it cannot.
        with contextlib.suppress(PermissionError), Path(log).open("a") as file:
            file.write(f"{os.getpid()}\n")
        Path(tempfile.gettempdir(), "left").write_bytes(b"behind")
        if manifest.name == "sleeps":
            time.sleep(120)
        elif manifest.name == "grows" or (manifest.name == "fills" and _is_used(log)):
            bytearray(2**30)
        elif manifest.name == "aborts":
            os.abort()
        elif manifest.name == "panics":
            raise PanicException("the contents of a file")
        elif manifest.name == "reaches":
            raise RuntimeError(str(reach(Path(log).parent)))
        elif manifest.name == "tells":
            raise RuntimeError(f"{sorted(os.environ)} {get_settings()!r}")
        return honest(classifier, manifest)

    check_target.honest = honest  # type: ignore[attr-defined]
    inline.check_target = check_target


def _is_used(log: str) -> bool:
    return Path(log).read_text().split().count(str(os.getpid())) > 1
