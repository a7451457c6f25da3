"""Paths a client names instead of sending bytes: only below folders the operator allows.

A folder becomes a zip whose bytes depend on its files' names and contents alone, so the same folder always has the same
digest.
"""

import os
import stat
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from app.web.problems import ForbiddenError, InvalidRequestError, PayloadTooLargeError
from seatrial.store.settings import Settings

_EPOCH = (1980, 1, 1, 0, 0, 0)
_SETTING = "SEATRIAL_ALLOWED_PATHS"
_CHUNK = 2**20
# A link or FIFO may have taken the file's place since its path was resolved: neither is followed or waited for.
_OPEN = os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK


def copy_reference(named: str, target: Path, settings: Settings, *, max_bytes: int) -> str:
    """Copy what a client named to ``target`` and return its file name.

    Args:
        named: Absolute path of a file or folder.
        target: A file of ours; a copy, so that what is checked is what is stored.
        settings: Which folders are allowed.
        max_bytes: Largest copy.

    Raises:
        ForbiddenError: The path is not below an allowed folder, links resolved.
        InvalidRequestError: There is no such file or folder, or it cannot be read.
        PayloadTooLargeError: It is too large.
    """
    if "\0" in named or not Path(named).is_absolute():
        raise InvalidRequestError(f"path must be absolute, got {named!r}", pointer="/path")
    source = _allowed(Path(named), settings)
    with _reading(source):
        is_file, is_folder = source.is_file(), source.is_dir()
    if is_file:
        with _reading(source):
            _check_size(source.stat().st_size, max_bytes)
        with target.open("wb") as writer:
            _pour(source, writer, 0, max_bytes)
        return source.name
    if not is_folder:
        raise InvalidRequestError(f"path is no file and no folder: {named}", pointer="/path")
    files = [(file.relative_to(source).as_posix(), _allowed(file, settings)) for file in _files(source, settings)]
    with _reading(source):
        _check_size(sum(file.stat().st_size for _, file in files), max_bytes)
    copied = 0
    with zipfile.ZipFile(target, "w", zipfile.ZIP_STORED) as archive:
        for name, file in sorted(files):
            entry = zipfile.ZipInfo(name, _EPOCH)
            entry.external_attr = (stat.S_IFREG | 0o644) << 16
            with archive.open(entry, "w", force_zip64=True) as writer:
                copied = _pour(file, writer, copied, max_bytes)
    return source.name + ".zip"


@contextmanager
def _reading(path: Path) -> Iterator[None]:
    """Turn what the file system says of a client's path into a problem; writing goes on outside."""
    try:
        yield
    # Before Python 3.13 a loop of links is a RuntimeError; a name that cannot be encoded is a ValueError.
    except (OSError, RuntimeError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise InvalidRequestError(f"{path} cannot be read: {reason}", pointer="/path") from error


def _allowed(path: Path, settings: Settings) -> Path:
    with _reading(path):
        resolved = path.resolve()
    if not any(resolved.is_relative_to(folder.resolve()) for folder in settings.allowed_paths):
        raise ForbiddenError(
            f"{path} is not below a folder this service may read: the operator names them in {_SETTING}.",
            pointer="/path",
        )
    return resolved


def _files(folder: Path, settings: Settings) -> Iterator[Path]:
    def refuse(error: OSError) -> None:
        raise error

    count = 0
    with _reading(folder):
        # Path.rglob would pass over a folder that cannot be read, and the copy would lack it.
        for parent, _, names in os.walk(folder, onerror=refuse):
            for file in (Path(parent, name) for name in names):
                if not file.is_file():
                    raise InvalidRequestError(f"{file} is neither a file nor a folder", pointer="/path")
                count += 1
                if count > settings.max_archive_entries:
                    raise PayloadTooLargeError(
                        f"The folder has more than {settings.max_archive_entries:,} files "
                        "(SEATRIAL_MAX_ARCHIVE_ENTRIES).",
                        pointer="/path",
                    )
                yield file


def _pour(file: Path, writer: IO[bytes], copied: int, max_bytes: int) -> int:
    """Copy a file and return ``copied`` and its bytes, counted as they come: a file may grow while it is read."""
    for chunk in _chunks(file):
        copied += len(chunk)
        _check_size(copied, max_bytes)
        writer.write(chunk)
    return copied


def _chunks(file: Path) -> Iterator[bytes]:
    with _reading(file):
        descriptor = os.open(file, _OPEN)
    with os.fdopen(descriptor, "rb") as reader:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise InvalidRequestError(f"{file} is not a file any more", pointer="/path")
        while True:
            with _reading(file):
                chunk = reader.read(_CHUNK)
            if not chunk:
                return
            yield chunk


def _check_size(size: int, max_bytes: int) -> None:
    if size > max_bytes:
        raise PayloadTooLargeError(
            f"It has {size:,} bytes or more; at most {max_bytes:,} are accepted.", pointer="/path"
        )
