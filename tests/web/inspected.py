"""What stands in place of inspections in the tests of how they are run; settings come last."""

import ctypes
import os
import time
from pathlib import Path

from seatrial.ingest.inspection.errors import ContentError
from seatrial.store.settings import Settings


def tell(word: str, settings: Settings) -> list[object]:
    return [word, settings.max_examples, settings.endpoint_secrets, os.getpid()]


def reserve(settings: Settings) -> int:
    """Return by how much reading a table with Arrow has made the address space grow."""
    import pyarrow as pa

    before = _address_space()
    pa.array(range(1000)).cast(pa.float64())
    return _address_space() - before


def _address_space() -> int:
    return int(Path("/proc/self/statm").read_text().split()[0]) * os.sysconf("SC_PAGE_SIZE")


def refuse(settings: Settings) -> None:
    raise ContentError("for the test", field="/manifest/labels")


def read(own: Path, path: str, settings: Settings) -> str:
    return Path(path).read_text()


def take_memory(size_bytes: int, settings: Settings) -> int:
    return len(bytearray(size_bytes))


def sleep(log: str, settings: Settings) -> None:
    with Path(log).open("a") as file:
        file.write(f"{os.getpid()}\n")
    time.sleep(60)


def crash(settings: Settings) -> None:
    ctypes.string_at(0)


def err(settings: Settings) -> None:
    raise KeyError("a mistake of ours")
