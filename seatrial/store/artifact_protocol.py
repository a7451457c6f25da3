"""What an artifact store does, wherever it keeps its files."""

from collections.abc import Iterator
from pathlib import Path
from typing import Protocol


class ArtifactMissingError(LookupError):
    """A row names bytes the store does not have."""


class ArtifactDamagedError(ArtifactMissingError):
    """The bytes stored under a digest have another: a bad disk, or somebody who wrote into the store."""


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

        It takes the place of what is there, so that the true bytes, brought again, mend a damaged file.

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
            ArtifactMissingError: There is no such file.
            ArtifactDamagedError: It holds something else.
        """
        ...

    def local_path(self, digest: str) -> Path:
        """Return a path on this machine with the bytes; never write to it.

        They are verified when this process first asks for them, and again once the file's time or size has changed.

        Raises:
            ArtifactMissingError: There is no such file.
            ArtifactDamagedError: It holds something else.
        """
        ...

    def read_bytes(self, digest: str) -> bytes:
        """Return bytes, verified each time they are read.

        Raises:
            ArtifactMissingError: There is no such file.
            ArtifactDamagedError: It holds something else.
        """
        ...

    def digests(self) -> Iterator[str]:
        """Yield the digest of every file there is, in no order."""
        ...

    def verify(self, digest: str) -> None:
        """Read a file from where it is stored for good, whatever was verified before.

        Raises:
            ArtifactMissingError: There is no such file.
            ArtifactDamagedError: It holds something else.
        """
        ...

    def staging(self) -> Path:
        """Return a folder on this machine for files on their way in."""
        ...

    def delete(self, digest: str) -> None:
        """Remove the bytes, if they are there."""
        ...

    def delete_older(self, digest: str, age_s: float) -> int | None:
        """Remove the bytes unless somebody stored them, or stored them again, within the last ``age_s`` seconds.

        Returns:
            How many bytes went, 0 where there were none; None where they are too young and stay.
        """
        ...

    def measure(self, digest: str) -> tuple[int, float]:
        """Return the size in bytes, and the age in seconds since the bytes were last stored.

        Raises:
            ArtifactMissingError: There is no such file.
        """
        ...

    @property
    def staging_folder(self) -> Path:
        """Where files on their way in are, on this machine; it need not be there."""
        ...
