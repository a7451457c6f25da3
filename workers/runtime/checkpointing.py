"""Checkpoints of a shard: what a family has reached inside it, for the attempt that goes on from there."""

import json
import logging
import secrets
import time
from collections.abc import Mapping

from safetensors.torch import load, save
from sqlalchemy.exc import SQLAlchemyError
from torch import Tensor

from seatrial.store.artifacts import ArtifactMissingError, digest_of_bytes
from workers.families.contexts import Checkpoint
from workers.runtime.executor import Files, Holder

log = logging.getLogger(__name__)

FORMAT = "seatrial-save/1"
"""Changes when the bytes, or what they mean, do."""

SAVE_S = 5.0
"""Seconds between two checkpoints. A shard whose worker dies waits for its lease anyway (60 s), so a few seconds of
work beside that are little, and a family may call after every round, however short."""

SAVE_SHARE = 20
"""Saving takes at most one part in so many of the time, however large the state and slow the store."""


class CheckpointStore:
    """The checkpoint of one claimed shard: read where an attempt begins, replaced while it goes on.

    Args:
        store: Where the bytes are.
        holder: Holds the shard; no longer ours, nothing is written.
        belongs_to: Digest of all a state depends on (check, shard, code): one that belongs to something else is not
            resumed.
        digest: Digest of the shard's checkpoint, if it has one.
        may_resume: Whether this attempt may begin from it.
    """

    def __init__(self, store: Files, holder: Holder, *, belongs_to: str, digest: str | None, may_resume: bool) -> None:
        self._store = store
        self._holder = holder
        self._belongs_to = belongs_to
        self._digest = digest
        self._may_resume = may_resume
        self._began_at = time.monotonic()
        self._due_at = self._began_at + SAVE_S

    def spent_s(self) -> float:
        """Return the seconds the shard has taken, with those of earlier attempts up to what this one resumed."""
        return time.monotonic() - self._began_at

    def is_due(self) -> bool:
        """Return whether :meth:`write` would write now: the last one is old, or the process is stopping."""
        return time.monotonic() >= self._due_at or self._holder.is_stopping()

    def read(self) -> Checkpoint | None:
        """Return what was saved last, or None: nothing, or nothing that fits; then begin anew."""
        self._holder.check_cancelled()
        if self._digest is None or not self._may_resume:
            return None
        try:
            data = self._store.read_passing(self._digest)
        except ArtifactMissingError as error:
            log.warning("%s begins anew, its checkpoint cannot be read: %s", self._holder.row_id, error)
            return None
        header = _header(data)
        if (header.get("format"), header.get("belongs_to")) != (FORMAT, self._belongs_to):
            log.warning("%s begins anew: it was saved by other code", self._holder.row_id)
            return None
        self._began_at = time.monotonic() - float(header["seconds"])
        return Checkpoint(load(data), json.loads(header["notes"]))

    def write(self, state: Mapping[str, Tensor], notes: Mapping[str, str], *, force: bool) -> None:
        """Replace the checkpoint; skipped while the last one is young, unless forced or the process is stopping.

        A store or a database that does not answer costs the checkpoint, not the shard.

        Raises:
            Interrupted: The shard was cancelled or lost, and then nothing is written; or the process is stopping, and
                then the state is saved first.
        """
        began_at = time.monotonic()
        if began_at < self._due_at and not force and not self._holder.is_stopping():
            self._holder.check_cancelled()
            return
        self._holder.confirm()
        self._replace(self._bytes(state, notes))
        ended_at = time.monotonic()
        self._due_at = ended_at + max(SAVE_S, SAVE_SHARE * (ended_at - began_at))
        self._holder.check_cancelled()

    def _bytes(self, state: Mapping[str, Tensor], notes: Mapping[str, str]) -> bytes:
        return save(
            _own(state),
            metadata={
                "format": FORMAT,
                "belongs_to": self._belongs_to,
                "notes": json.dumps(dict(notes)),
                "seconds": repr(self.spent_s()),
                # Makes this checkpoint a file of its own: equal states of two shards, or of two claims on one, would
                # otherwise be one file, which either might delete under the other.
                "nonce": secrets.token_hex(16),
            },
        )

    def _replace(self, data: bytes) -> None:
        holder, digest = self._holder, digest_of_bytes(data)
        try:
            holder.announce_checkpoint(digest)
            is_stored = self._put(data, digest) and holder.point_at_checkpoint(digest, len(data))
        except SQLAlchemyError as error:
            # Whether the row names the file now is for the database to say; a sweep deletes the one it does not name.
            log.warning("%s is not saved: %s", holder.row_id, error)
            return
        unnamed = self._digest if is_stored else digest
        if unnamed is not None:
            holder.delete_checkpoint(self._store, unnamed)
        if not is_stored:
            holder.confirm()
            log.warning("%s is not saved", holder.row_id)
            return
        self._digest, self._may_resume = digest, True

    def _put(self, data: bytes, digest: str) -> bool:
        try:
            self._store.put_passing(data, digest)
        except Exception as error:
            # Every kind of store has errors of its own; a full disk must not end what has run for hours.
            log.warning("%s is not saved: %s", self._holder.row_id, error)
            return False
        return True


def _own(state: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return tensors that safetensors takes: contiguous, on the CPU, none a part of another's memory.

    What is so already is not copied: a save of a training holds its weights several times as it is.
    """
    found, taken = {}, set[int]()
    for name, tensor in state.items():
        storage = tensor.untyped_storage()
        is_own = storage.nbytes() == tensor.numel() * tensor.element_size() and storage.data_ptr() not in taken
        is_ready = is_own and tensor.is_contiguous() and tensor.device.type == "cpu"
        found[name] = tensor.detach() if is_ready else tensor.detach().to("cpu", copy=True).contiguous()
        taken.add(storage.data_ptr())
    return found


def _header(data: bytes) -> dict[str, str]:
    """Return the metadata of a safetensors file: 8 bytes of length, then JSON."""
    length = int.from_bytes(data[:8], "little")
    header: dict[str, dict[str, str]] = json.loads(data[8 : 8 + length])
    return header.get("__metadata__", {})
