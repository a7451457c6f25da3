"""Content-addressed files: put bytes, get a SHA-256; the same bytes are stored once.

A local folder by default; any fsspec URL (``s3://bucket/prefix``) where workers and API do not share a disk.
"""

import fcntl
import hashlib
import os
import shutil
import threading
import time
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

import fsspec

from seatrial.store.artifact_protocol import ArtifactDamagedError, ArtifactMissingError, ArtifactStore
from seatrial.store.cache_bound import CACHE_BYTES, CacheBound
from seatrial.store.private_files import locked_folder, private_folder
from seatrial.store.settings import Settings
from seatrial.store.staging import temporary_file

__all__ = [
    "ArtifactDamagedError",
    "ArtifactMissingError",
    "ArtifactStore",
    "LocalStore",
    "RemoteStore",
    "digest_of",
    "digest_of_bytes",
    "open_store",
    "verified",
]

_CHUNK_BYTES = 2**20

KEPT_VERIFIED = 10_000
"""Files a process remembers to have verified; the one asked for longest ago is forgotten first."""


def digest_of(path: Path) -> str:
    """Return ``sha256:<hex>`` of a file, read in chunks."""
    with path.open("rb") as file:
        return "sha256:" + hashlib.file_digest(file, "sha256").hexdigest()


def digest_of_bytes(data: bytes) -> str:
    """Return ``sha256:<hex>`` of bytes."""
    return "sha256:" + hashlib.sha256(data).hexdigest()


def verified(data: bytes, digest: str) -> bytes:
    """Return bytes that have a digest.

    Raises:
        ArtifactDamagedError: They have another.
    """
    _insist(digest_of_bytes(data), digest)
    return data


def _insist(found: str, digest: str) -> None:
    if found != digest:
        raise ArtifactDamagedError(f"{digest}: the stored bytes have another digest")


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
        self._verified: OrderedDict[str, tuple[int, int, int]] = OrderedDict()
        self._guard = threading.Lock()

    def prepare(self, path: Path, digest: str) -> bool:
        """Write the bytes through to the disk: the row that names them must not survive a power cut they do not."""
        with path.open("rb") as file:
            os.fsync(file.fileno())
        return False

    def put_file(self, path: Path, digest: str) -> bool:
        """Rename the file; see :class:`ArtifactStore`."""
        target = self._root / _key(digest)
        with locked_folder(private_folder(target.parent), fcntl.LOCK_SH):
            is_new = not target.exists()
            shutil.move(path, target)
            # What deletes by age takes this for new, whenever the bytes were written.
            os.utime(target)
        return is_new

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
        return self.read_bytes(digest)

    def _half_written(self, digest: str) -> Path:
        # By its digest, so that whoever deletes that finds it.
        return self.staging() / _key(digest).rpartition("/")[2]

    def path_of(self, digest: str) -> Path:
        """Return where the bytes are, if they are there; they are not verified."""
        return self._root / _key(digest)

    def local_path(self, digest: str) -> Path:
        """Return the path of the bytes; see :class:`ArtifactStore`."""
        path = self.path_of(digest)
        seen = self._state(path, digest)
        with self._guard:
            is_known = self._verified.get(digest) == seen
            if is_known:
                self._verified.move_to_end(digest)
        if not is_known:
            self.verify(digest)
            with self._guard:
                # As it was before it was read: written to meanwhile, it is read again the next time.
                self._verified[digest] = seen
                if len(self._verified) > KEPT_VERIFIED:
                    self._verified.popitem(last=False)
        return path

    def _state(self, path: Path, digest: str) -> tuple[int, int, int]:
        try:
            status = path.stat()
        except FileNotFoundError as error:
            raise ArtifactMissingError(f"{digest} is not in {self._root}") from error
        # Not the time of the last change of its inode: a link for a child process changes that.
        return status.st_mtime_ns, status.st_size, status.st_ino

    def read_bytes(self, digest: str) -> bytes:
        """Read the file; see :class:`ArtifactStore`."""
        path = self._root / _key(digest)
        self._state(path, digest)
        return verified(path.read_bytes(), digest)

    def digests(self) -> Iterator[str]:
        """Walk the folder; see :class:`ArtifactStore`."""
        for path in self._root.glob("[0-9a-f][0-9a-f]/" + "[0-9a-f]" * 64):
            yield f"sha256:{path.name}"

    def verify(self, digest: str) -> None:
        """Read the file through; see :class:`ArtifactStore`."""
        path = self._root / _key(digest)
        self._state(path, digest)
        _insist(digest_of(path), digest)

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

    def delete_older(self, digest: str, age_s: float) -> int | None:
        """Remove old bytes; nobody stores them between the look at their age and their end."""
        path = self._root / _key(digest)
        if not path.parent.exists():
            return 0
        with locked_folder(path.parent, fcntl.LOCK_EX):
            try:
                size, age = self.measure(digest)
            except ArtifactMissingError:
                return 0
            if age < age_s:
                return None
            self.delete(digest)
        return size

    def measure(self, digest: str) -> tuple[int, float]:
        """Look at the file; see :class:`ArtifactStore`."""
        modified_ns, size, _ = self._state(self._root / _key(digest), digest)
        return size, time.time() - modified_ns / 1e9


class RemoteStore:
    """Files behind an fsspec URL, with a cache folder of those read or stored here.

    Args:
        url: Where they are.
        cache: Folder of copies, which processes of this machine may share.
        cache_bytes: About how many bytes of copies are kept.
    """

    def __init__(self, url: str, cache: Path, cache_bytes: int = CACHE_BYTES) -> None:
        self._fs, self._prefix = fsspec.core.url_to_fs(url)
        self._cache = LocalStore(cache)
        self._bound = CacheBound(cache, cache_bytes)

    def _remote(self, digest: str) -> str:
        return f"{self._prefix}/{_key(digest)}"

    def prepare(self, path: Path, digest: str) -> bool:
        """Upload the file; see :class:`ArtifactStore`."""
        remote = self._remote(digest)
        is_new = not self._fs.exists(remote)
        # Object stores make an object visible only when it is whole, so a fixed name is safe; a second writer stores
        # the same bytes.
        self._fs.makedirs(remote.rsplit("/", 1)[0], exist_ok=True)
        self._fs.put_file(str(path), remote)
        return is_new

    def put_file(self, path: Path, digest: str) -> bool:
        """Move the uploaded file into the cache; see :class:`ArtifactStore`."""
        # One question as a rule: the object is gone only when another's refusal has deleted it since.
        brought = not self._fs.exists(self._remote(digest)) and self.prepare(path, digest)
        self._keep(path, digest)
        return brought

    def put_bytes(self, data: bytes) -> str:
        """Store bytes and return their digest."""
        digest = digest_of_bytes(data)
        with temporary_file(self.staging()) as path:
            path.write_bytes(data)
            self.prepare(path, digest)
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
        return verified(data, digest)

    def local_path(self, digest: str) -> Path:
        """Return a cached copy of the bytes; one that is missing or damaged is fetched. See :class:`ArtifactStore`.

        Whoever opens it within :data:`seatrial.store.cache_bound.KEPT_S` seconds finds it there.
        """
        if self._bound.use(self._cache.path_of(digest)):
            with suppress(ArtifactMissingError):
                return self._cache.local_path(digest)
        return self._fetch(digest)

    def _keep(self, path: Path, digest: str) -> None:
        size = path.stat().st_size
        self._cache.put_file(path, digest)
        self._bound.grow(size)

    def _fetch(self, digest: str) -> Path:
        with temporary_file(self._cache.staging()) as path:
            try:
                self._fs.get_file(self._remote(digest), str(path))
            except FileNotFoundError as error:
                raise ArtifactMissingError(f"{digest} is not in {self._prefix}") from error
            _insist(digest_of(path), digest)
            self._keep(path, digest)
        return self._cache.local_path(digest)

    def read_bytes(self, digest: str) -> bytes:
        """Read the cached copy, or fetch it; see :class:`ArtifactStore`."""
        if self._bound.use(self._cache.path_of(digest)):
            with suppress(ArtifactMissingError):
                return self._cache.read_bytes(digest)
        return verified(self._fetch(digest).read_bytes(), digest)

    def digests(self) -> Iterator[str]:
        """List the objects; see :class:`ArtifactStore`."""
        for path in self._fs.find(self._prefix):
            with suppress(ValueError):
                digest = f"sha256:{path.rsplit('/', 1)[-1]}"
                _key(digest)
                yield digest

    def verify(self, digest: str) -> None:
        """Download the object in pieces; see :class:`ArtifactStore`."""
        found = hashlib.sha256()
        try:
            with self._fs.open(self._remote(digest), "rb") as source:
                while chunk := source.read(_CHUNK_BYTES):
                    found.update(chunk)
        except FileNotFoundError as error:
            raise ArtifactMissingError(f"{digest} is not in {self._prefix}") from error
        _insist(f"sha256:{found.hexdigest()}", digest)

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

    def delete_older(self, digest: str, age_s: float) -> int | None:
        """Remove old objects; object stores know no condition, so one stored again within milliseconds may go too."""
        try:
            size, age = self.measure(digest)
        except ArtifactMissingError:
            return 0
        if age < age_s:
            return None
        self.delete(digest)
        return size

    def measure(self, digest: str) -> tuple[int, float]:
        """Ask for the object's size and time; see :class:`ArtifactStore`."""
        remote = self._remote(digest)
        try:
            return int(self._fs.size(remote)), (datetime.now(UTC) - self._fs.modified(remote)).total_seconds()
        except FileNotFoundError as error:
            raise ArtifactMissingError(f"{digest} is not in {self._prefix}") from error


def open_store(settings: Settings) -> ArtifactStore:
    """Return the store of the settings."""
    url = settings.resolved_artifacts_url
    if "://" in url and not url.startswith("file://"):
        return RemoteStore(url, settings.home.absolute() / "cache", settings.cache_bytes)
    return LocalStore(Path(url.removeprefix("file://")))
