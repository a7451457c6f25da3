"""Who runs models: in a child process of limited memory and time, or, for tests, in this one."""

from pathlib import Path
from typing import Any, Protocol

from workers.runtime.jobs import Advanced, CheckJob, Hardened, HardeningJob, Measured, ModelJob, ShardJob


class Files(Protocol):
    """What running work uses of the store; see :class:`seatrial.store.artifacts.ArtifactStore`."""

    def local_path(self, digest: str) -> Path:
        """Return a path on this machine with the bytes; never write to it."""
        ...

    def read_bytes(self, digest: str) -> bytes:
        """Return bytes, verified each time they are read."""
        ...

    def put_bytes(self, data: bytes) -> str:
        """Store bytes and return their digest."""
        ...

    def put_passing(self, data: bytes, digest: str) -> None:
        """Store bytes that are replaced soon and read seldom."""
        ...

    def read_passing(self, digest: str) -> bytes:
        """Return such bytes, verified."""
        ...

    def delete(self, digest: str) -> None:
        """Remove the bytes, if they are there."""
        ...


class Holder(Protocol):
    """What running work may ask of whoever holds its claim."""

    @property
    def row_id(self) -> str:
        """The row that is worked on."""
        ...

    def check_cancelled(self) -> None:
        """Stop here if there is a reason to. Costs nothing: call it at every gradient step.

        Raises:
            Interrupted: The work was cancelled, its lease lost, or the process is stopping.
        """
        ...

    def poll_cancelled(self) -> None:
        """Ask the database whether to go on, then :meth:`check_cancelled`."""
        ...

    def confirm(self) -> None:
        """Ask the database whether to go on; a process that is stopping may still store what it has.

        Raises:
            Interrupted: The work was cancelled or its lease lost.
        """
        ...

    def is_stopping(self) -> bool:
        """Return whether the process is stopping."""
        ...

    def progress(self, done: int) -> None:
        """Tell how many of the shard's examples are done."""
        ...

    def report(self, progress: dict[str, Any], curves: list[dict[str, float]]) -> None:
        """Tell how far a training is."""
        ...

    def announce_checkpoint(self, digest: str) -> None:
        """Write down that a checkpoint is about to be stored; see :mod:`seatrial.store.checkpoints`."""
        ...

    def point_at_checkpoint(self, digest: str, size_bytes: int) -> bool:
        """Make an announced and stored file the shard's checkpoint; see :mod:`seatrial.store.checkpoints`."""
        ...

    def delete_checkpoint(self, store: Files, digest: str) -> None:
        """Delete a checkpoint that no row names."""
        ...


class Executor(Protocol):
    """Runs jobs, one at a time.

    Each method raises what stops the work: ``WorkError`` for a fault of the input, which is never retried;
    ``Interrupted`` as the claim says; anything else is an accident, after which the job may be tried again.
    """

    def device(self) -> str:
        """Return the name of the device, for people."""
        ...

    def check(self, job: ModelJob, holder: Holder) -> dict[str, Any]:
        """Load a model, measure it, and return its facts as JSON."""
        ...

    def advance(self, job: CheckJob, holder: Holder) -> Advanced:
        """Return the next stage of a check, or its end."""
        ...

    def run(self, job: ShardJob, holder: Holder) -> Measured:
        """Run a shard and store its records."""
        ...

    def harden(self, job: HardeningJob, holder: Holder) -> Hardened:
        """Train, and store what came of it."""
        ...

    def close(self) -> None:
        """Let go of everything."""
        ...
