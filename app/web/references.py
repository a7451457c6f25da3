"""Paths a client names instead of sending bytes: only below folders the operator allows.

A folder becomes a zip whose bytes depend on its files' names and contents alone, so the same folder always has the same
digest.
"""

import shutil
import stat
import zipfile
from collections.abc import Iterator
from pathlib import Path

from app.core.settings import Settings
from app.web.problems import ForbiddenError, InvalidRequestError, PayloadTooLargeError

_EPOCH = (1980, 1, 1, 0, 0, 0)
_SETTING = "SEATRIAL_ALLOWED_PATHS"


def copy_reference(named: str, target: Path, settings: Settings, *, max_bytes: int) -> str:
    """Copy what a client named to ``target`` and return its file name.

    Args:
        named: Absolute path of a file or folder.
        target: A file of ours; a copy, so that what is checked is what is stored.
        settings: Which folders are allowed.
        max_bytes: Largest copy.

    Raises:
        ForbiddenError: The path is not below an allowed folder, links resolved.
        InvalidRequestError: There is no such file or folder.
        PayloadTooLargeError: It is too large.
    """
    if "\0" in named or not Path(named).is_absolute():
        raise InvalidRequestError(f"path must be absolute, got {named!r}", pointer="/path")
    source = _allowed(Path(named), settings)
    if source.is_file():
        _check_size(source.stat().st_size, max_bytes)
        shutil.copyfile(source, target)
        return source.name
    if not source.is_dir():
        raise InvalidRequestError(f"path is no file and no folder: {named}", pointer="/path")
    files = [(file.relative_to(source).as_posix(), _allowed(file, settings)) for file in _files(source, settings)]
    _check_size(sum(file.stat().st_size for _, file in files), max_bytes)
    with zipfile.ZipFile(target, "w", zipfile.ZIP_STORED) as archive:
        for name, file in sorted(files):
            entry = zipfile.ZipInfo(name, _EPOCH)
            entry.external_attr = (stat.S_IFREG | 0o644) << 16
            with file.open("rb") as reader, archive.open(entry, "w", force_zip64=True) as writer:
                shutil.copyfileobj(reader, writer, 2**20)
    return source.name + ".zip"


def _allowed(path: Path, settings: Settings) -> Path:
    resolved = path.resolve()
    if not any(resolved.is_relative_to(folder.resolve()) for folder in settings.allowed_paths):
        raise ForbiddenError(
            f"{path} is not below a folder this service may read: the operator names them in {_SETTING}.",
            pointer="/path",
        )
    return resolved


def _files(folder: Path, settings: Settings) -> Iterator[Path]:
    count = 0
    for file in folder.rglob("*"):
        if file.is_dir():
            continue
        if not file.is_file():
            raise InvalidRequestError(f"{file} is neither a file nor a folder", pointer="/path")
        count += 1
        if count > settings.max_archive_entries:
            raise PayloadTooLargeError(
                f"The folder has more than {settings.max_archive_entries:,} files (SEATRIAL_MAX_ARCHIVE_ENTRIES).",
                pointer="/path",
            )
        yield file


def _check_size(size: int, max_bytes: int) -> None:
    if size > max_bytes:
        raise PayloadTooLargeError(f"It has {size:,} bytes; at most {max_bytes:,} are accepted.", pointer="/path")
