"""Content-addressed files: put bytes, get a SHA-256; the same bytes are stored once.

A local folder by default; any fsspec URL (``s3://bucket/prefix``) where workers and API do not share a disk.
"""

import fcntl
import hashlib
import logging
import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Protocol

import fsspec

from seatrial.store.private_files import private_folder
from seatrial.store.settings import Settings

log = logging.getLogger(__name__)


LOCKED_WITHIN_S = 60.0
"""Seconds within which a new file is locked, however busy the machine."""

_LOCKED = "locked-"


class ArtifactMissingError(LookupError):
    """A row names bytes the store does not have."""


class ArtifactStore(Protocol):
    """Where files live, by digest (``sha256:<hex>``)."""

    def prepare(self, path: Path, digest: str) -> bool:
        """Do the slow part of :meth:`put_file`, which may then run inside a transaction; ``path`` stays.

        Returns:
            Whether there are now bytes under ``digest`` that were not there before: whoever then stores no row that
            names them must :meth:`delete` them.
        """
        ...

    def put_file(self, path: Path, digest: str) -> bool:
        """Store the prepared file at ``path`` under ``digest``; the file is moved away. Atomic and idempotent.

        Returns:
            Whether it brought the bytes, as :meth:`prepare` does.
        """
        ...

    def put_bytes(self, data: bytes) -> str:
        """Store bytes and return their digest."""
        ...

    def put_passing(self, data: bytes, digest: str) -> None:
        """Store bytes that are replaced soon and read seldom, without a copy in this machine's cache.

        Only for bytes nobody else can be storing under the same ``digest``: a process killed here may leave part of
        them, which :meth:`delete` removes too.
        """
        ...

    def read_passing(self, digest: str) -> bytes:
        """Return such bytes, verified, without a copy in this machine's cache.

        Raises:
            ArtifactMissingError: There is no such file, or it holds something else.
        """
        ...

    def local_path(self, digest: str) -> Path:
        """Return a path on this machine with the bytes; never write to it.

        Raises:
            ArtifactMissingError: There is no such file.
        """
        ...

    def staging(self) -> Path:
        """Return a folder on this machine for files on their way in."""
        ...

    def delete(self, digest: str) -> None:
        """Remove the bytes, if they are there."""
        ...

    @property
    def staging_folder(self) -> Path:
        """Where files on their way in are, on this machine; it need not be there."""
        ...


def sweep_staging(store: ArtifactStore, older_than_s: float) -> int:
    """Remove what processes that were killed left among the files on their way in; return how many files that were.

    A file of :func:`temporary_file` is locked for as long as its process lives. Others, and those on disks without
    locks, belong to nobody once nobody has written to them for ``older_than_s``: an upload in progress writes its file
    every few seconds. Only plain files go, and those of other people's folders stay. Safe in several processes at once.
    """
    folder = store.staging_folder
    now = time.time()
    removed = 0
    try:
        entries = list(os.scandir(folder))
    except OSError:
        # Nothing has been stored yet, or the disk is away.
        return 0
    for entry in entries:
        # Another process may have moved or removed it meanwhile.
        with suppress(OSError):
            if not entry.is_file(follow_symlinks=False):
                continue
            age_s = now - entry.stat(follow_symlinks=False).st_mtime
            if age_s > older_than_s or (age_s > LOCKED_WITHIN_S and _is_unlocked(Path(entry.path))):
                os.unlink(entry.path)
                removed += 1
    if removed:
        log.info("removed %d abandoned files from %s", removed, folder)
    return removed


def _is_unlocked(path: Path) -> bool:
    """Return whether a file is one of those that are locked while they are wanted, and nobody has locked it."""
    if not path.name.startswith(_LOCKED):
        return False
    with path.open("rb") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            # In use, or on a disk without locks.
            return False
    return True


def digest_of(path: Path) -> str:
    """Return ``sha256:<hex>`` of a file, read in chunks."""
    with path.open("rb") as file:
        return "sha256:" + hashlib.file_digest(file, "sha256").hexdigest()


def digest_of_bytes(data: bytes) -> str:
    """Return ``sha256:<hex>`` of bytes."""
    return "sha256:" + hashlib.sha256(data).hexdigest()


def _verified(data: bytes, digest: str) -> bytes:
    if digest_of_bytes(data) != digest:
        raise ArtifactMissingError(f"{digest}: the stored bytes have another digest")
    return data


def _key(digest: str) -> str:
    algorithm, _, value = digest.partition(":")
    if algorithm != "sha256" or len(value) != 64 or not set(value) <= set("0123456789abcdef"):
        raise ValueError(f"not a digest: {digest!r}")
    return f"{value[:2]}/{value}"


class LocalStore:
    """Files below one folder; a rename makes them appear whole."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._staging = root / "staging"

    def prepare(self, path: Path, digest: str) -> bool:
        """Write the bytes through to the disk: the row that names them must not survive a power cut they do not."""
        if not (self._root / _key(digest)).exists():
            with path.open("rb") as file:
                os.fsync(file.fileno())
        return False

    def put_file(self, path: Path, digest: str) -> bool:
        """Rename the file; see :class:`ArtifactStore`."""
        target = self._root / _key(digest)
        if target.exists():
            path.unlink()
            return False
        private_folder(target.parent)
        shutil.move(path, target)
        return True

    def put_bytes(self, data: bytes) -> str:
        """Store bytes and return their digest."""
        digest = digest_of_bytes(data)
        with temporary_file(self.staging()) as path:
            path.write_bytes(data)
            self.prepare(path, digest)
            self.put_file(path, digest)
        return digest

    def put_passing(self, data: bytes, digest: str) -> None:
        """Write the file and rename it; see :class:`ArtifactStore`."""
        path = self._half_written(digest)
        path.write_bytes(data)
        self.prepare(path, digest)
        self.put_file(path, digest)

    def read_passing(self, digest: str) -> bytes:
        """Read the file; see :class:`ArtifactStore`."""
        return _verified(self.local_path(digest).read_bytes(), digest)

    def _half_written(self, digest: str) -> Path:
        # By its digest, so that whoever deletes that finds it.
        return self.staging() / _key(digest).rpartition("/")[2]

    def local_path(self, digest: str) -> Path:
        """Return the path of the bytes; see :class:`ArtifactStore`."""
        path = self._root / _key(digest)
        if not path.exists():
            raise ArtifactMissingError(f"{digest} is not in {self._root}")
        return path

    def staging(self) -> Path:
        """Return the folder for files on their way in, on the same disk as the store."""
        return private_folder(self._staging)

    @property
    def staging_folder(self) -> Path:
        """The folder, which need not be there; see :class:`ArtifactStore`."""
        return self._staging

    def delete(self, digest: str) -> None:
        """Remove the bytes, if they are there."""
        (self._root / _key(digest)).unlink(missing_ok=True)
        self._half_written(digest).unlink(missing_ok=True)


class RemoteStore:
    """Files behind an fsspec URL, with a cache folder of those read here."""

    def __init__(self, url: str, cache: Path) -> None:
        self._fs, self._prefix = fsspec.core.url_to_fs(url)
        self._cache = LocalStore(cache)

    def _remote(self, digest: str) -> str:
        return f"{self._prefix}/{_key(digest)}"

    def prepare(self, path: Path, digest: str) -> bool:
        """Upload the file; see :class:`ArtifactStore`."""
        remote = self._remote(digest)
        if self._fs.exists(remote):
            return False
        # Object stores make an object visible only when it is whole, so a fixed name is safe; a second writer stores
        # the same bytes.
        self._fs.makedirs(remote.rsplit("/", 1)[0], exist_ok=True)
        self._fs.put_file(str(path), remote)
        return True

    def put_file(self, path: Path, digest: str) -> bool:
        """Move the uploaded file into the cache; see :class:`ArtifactStore`."""
        # One question as a rule: the object is gone only when another's refusal has deleted it since.
        brought = self.prepare(path, digest)
        self._cache.put_file(path, digest)
        return brought

    def put_bytes(self, data: bytes) -> str:
        """Store bytes and return their digest."""
        digest = digest_of_bytes(data)
        with temporary_file(self.staging()) as path:
            path.write_bytes(data)
            self.put_file(path, digest)
        return digest

    def put_passing(self, data: bytes, digest: str) -> None:
        """Upload the bytes; see :class:`ArtifactStore`."""
        remote = self._remote(digest)
        self._fs.makedirs(remote.rsplit("/", 1)[0], exist_ok=True)
        self._fs.pipe_file(remote, data)

    def read_passing(self, digest: str) -> bytes:
        """Download the bytes; see :class:`ArtifactStore`."""
        try:
            data = self._fs.cat_file(self._remote(digest))
        except FileNotFoundError as error:
            raise ArtifactMissingError(f"{digest} is not in {self._prefix}") from error
        return _verified(data, digest)

    def local_path(self, digest: str) -> Path:
        """Return a cached copy of the bytes, fetched and verified the first time; see :class:`ArtifactStore`."""
        try:
            return self._cache.local_path(digest)
        except ArtifactMissingError:
            pass
        with temporary_file(self._cache.staging()) as path:
            try:
                self._fs.get_file(self._remote(digest), str(path))
            except FileNotFoundError as error:
                raise ArtifactMissingError(f"{digest} is not in {self._prefix}") from error
            if digest_of(path) != digest:
                raise ArtifactMissingError(f"{digest}: the stored bytes have another digest")
            self._cache.put_file(path, digest)
        return self._cache.local_path(digest)

    def staging(self) -> Path:
        """Return the folder for files on their way in."""
        return self._cache.staging()

    @property
    def staging_folder(self) -> Path:
        """The cache's; see :class:`ArtifactStore`."""
        return self._cache.staging_folder

    def delete(self, digest: str) -> None:
        """Remove the bytes, if they are there."""
        with suppress(FileNotFoundError):
            self._fs.rm_file(self._remote(digest))
        self._cache.delete(digest)


@contextmanager
def temporary_file(folder: Path) -> Iterator[Path]:
    """Yield the path of a new empty file in ``folder``; whatever is left of it is removed at the end.

    It is locked until then: where the process is killed, :func:`sweep_staging` knows by that whose it is no longer.
    """
    handle, name = tempfile.mkstemp(dir=folder, prefix=_LOCKED)
    path = Path(name)
    try:
        # Not every disk has locks; files there are swept by age alone.
        with suppress(OSError):
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield path
    finally:
        os.close(handle)
        path.unlink(missing_ok=True)


def open_store(settings: Settings) -> ArtifactStore:
    """Return the store of the settings."""
    url = settings.resolved_artifacts_url
    if "://" in url and not url.startswith("file://"):
        return RemoteStore(url, settings.home.absolute() / "cache")
    return LocalStore(Path(url.removeprefix("file://")))
