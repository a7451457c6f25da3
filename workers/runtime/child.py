"""The child process in which models are loaded and run: no database, no secret but those of the endpoint it asks.

What it needs of the world it asks its parent for, the worker that holds the claim; see
:mod:`workers.runtime.sandboxed`. Forked from a process that has imported everything, it begins within milliseconds.
"""

import logging
import os
import pickle
import queue
import tempfile
import threading
import time
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from sqlalchemy.exc import SQLAlchemyError

from seatrial.contracts.endpoints import EndpointSecret
from seatrial.logs import log_to_stderr, start_anew
from seatrial.sandbox.channel import Channel, ChannelClosedError, Message
from seatrial.sandbox.confinement import confine
from seatrial.store.artifacts import ArtifactDamagedError, ArtifactMissingError
from seatrial.store.settings import Settings, get_settings
from workers.errors import MachineError, WorkError
from workers.runtime.deferring import trouble_of
from workers.runtime.executor import Files
from workers.runtime.inline import InlineExecutor
from workers.runtime.interruptions import BY_REASON, Interrupted

log = logging.getLogger(__name__)

ALIVE_S = 2.0
"""Seconds between two signs of life of work that needs nothing of its parent."""

LATE_IMPORTS = ("torch._dynamo", "torch.utils._device", "scipy.stats", "matplotlib.backends.backend_svg")


def prepare() -> None:
    """Import what a child needs, in the process it is forked from; a file of nobody's is read and no thread started."""
    from importlib import import_module

    from workers.runtime.families import import_families

    import_families()
    # torch and scipy import these by themselves when first used: half a second each time for every child.
    for name in LATE_IMPORTS:
        import_module(name)


def prepare_transformers() -> None:
    """Import what loading a Hugging Face folder takes."""
    from transformers import (  # noqa: F401
        AutoConfig,
        AutoModelForImageClassification,
        AutoModelForSequenceClassification,
        AutoModelForTokenClassification,
        AutoTokenizer,
    )


def prepare_text_attacks() -> None:
    """Import TextAttack, where it is installed."""
    from importlib.util import find_spec

    from workers.attacks.text.textattack_environment import prepare as prepare_textattack

    if find_spec("textattack") is not None:
        prepare_textattack()


def serve(channel: Channel) -> None:
    """Run the jobs that come over a channel, until its other end is closed."""
    settings = get_settings()
    log_to_stderr(settings.log_level, as_json=settings.log_json)
    parent = Parent(channel)
    executor: InlineExecutor | None = None
    while True:
        command = parent.next_command()
        if command is None:
            return
        header = command.header
        if executor is None:
            # Everything that is unpacked or written for a while goes where the parent deletes it.
            tempfile.tempdir = header["scratch"]
            executor = InlineExecutor(ParentStore(parent), _with_secrets(settings, header["secrets"]))
            if settings.confine and executor.device_kind == "cpu":
                _confine(settings, Path(header["given"]), Path(header["scratch"]), may_connect=header["may_connect"])
        start_anew(header.get("about"))
        parent.begin(header.get("row_id", ""))
        channel.send({"end": _run(executor, parent, header["do"], command.payload)})


def _confine(settings: Settings, given: Path, scratch: Path, *, may_connect: bool) -> None:
    certificates = [Path(os.environ[name]) for name in ("SSL_CERT_FILE", "SSL_CERT_DIR") if name in os.environ]
    confine([given, settings.resolved_resources, *certificates], [scratch], may_connect=may_connect)


def _with_secrets(settings: Settings, secrets: Mapping[str, Any]) -> Settings:
    return settings.model_copy(
        update={"endpoint_secrets": {name: EndpointSecret.model_validate(one) for name, one in secrets.items()}}
    )


def _run(executor: InlineExecutor, parent: "Parent", what: str, payload: bytes) -> dict[str, Any]:
    try:
        if what == "device":
            return {"done": [executor.device_kind, executor.device()]}
        job = pickle.loads(payload)  # noqa: S301 - from our own parent
        if what == "check":
            return {"done": executor.check(job, parent)}
        if what == "advance":
            return {"done": asdict(executor.advance(job, parent))}
        if what == "harden":
            return {"done": asdict(executor.harden(job, parent))}
        return {"done": asdict(executor.run(job, parent))}
    except Interrupted as error:
        return {"interrupted": error.reason}
    except WorkError as error:
        return {"refused": error.problem.model_dump()}
    except MemoryError as error:
        return {"memory": str(error)}
    except ArtifactDamagedError as error:
        return {"damaged": str(error)}
    except SQLAlchemyError as error:
        return {"database": str(error)}
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException as error:
        # A library's panic is no Exception, and no reason to end.
        if (trouble := trouble_of(error)) is not None:
            return {"missing" if isinstance(error, ArtifactMissingError) else "trouble": trouble}
        log.exception("%s of %s failed", what, parent.row_id)
        return {"failed": type(error).__name__, "words": str(error)[:2000]}


class Parent:
    """The worker at the channel's other end, as the holder of the claim; see :class:`workers.runtime.executor.Holder`.

    A thread reads what it says, so that a reason to stop is known at the next step.
    """

    def __init__(self, channel: Channel) -> None:
        self._channel = channel
        self._commands: queue.SimpleQueue[Message | None] = queue.SimpleQueue()
        self._answers: queue.SimpleQueue[Message] = queue.SimpleQueue()
        self._calling = threading.Lock()
        self._reason: str | None = None
        self._told_at = 0.0
        self.row_id = ""
        threading.Thread(target=self._listen, name="parent", daemon=True).start()

    def next_command(self) -> Message | None:
        """Return the next command; None when the parent is gone."""
        return self._commands.get()

    def begin(self, row_id: str) -> None:
        """Begin to work on a row."""
        self.row_id, self._reason = row_id, None

    def check_cancelled(self) -> None:
        """Stop here if the parent has said so; tell it from time to time that there is life."""
        now = time.monotonic()
        if now - self._told_at >= ALIVE_S:
            self._told_at = now
            self._channel.send({"alive": True})
        if self._reason is not None:
            raise BY_REASON[self._reason](self.row_id)

    def poll_cancelled(self) -> None:
        """Let the parent ask the database whether to go on."""
        self.call("poll_cancelled")
        self.check_cancelled()

    def confirm(self) -> None:
        """Let the parent ask the database whether to go on; a process that is stopping may store what it has."""
        self.call("confirm")

    def is_stopping(self) -> bool:
        """Return whether the process is stopping."""
        return self._reason == "stopping"

    def progress(self, done: int) -> None:
        """Tell how many of the shard's examples are done."""
        self._channel.send({"progress": done})

    def report(self, progress: dict[str, Any], curves: list[dict[str, float]]) -> None:
        """Tell how far a training is."""
        self._channel.send({"report": [progress, curves]})

    def announce_checkpoint(self, digest: str) -> None:
        """Let the parent write down that a checkpoint is about to be stored."""
        self.call("announce_checkpoint", digest)

    def point_at_checkpoint(self, digest: str, size_bytes: int) -> bool:
        """Let the parent make a stored file the shard's checkpoint."""
        return bool(self.call("point_at_checkpoint", digest, size_bytes).header["value"])

    def delete_checkpoint(self, store: Files, digest: str) -> None:
        """Let the parent delete a checkpoint that no row names."""
        self.call("delete_checkpoint", digest)

    def call(self, name: str, *arguments: Any, payload: bytes = b"") -> Message:
        """Return the parent's answer.

        Raises:
            Interrupted: The parent says that the work is to stop.
            ArtifactMissingError: It has no such file.
            ArtifactDamagedError: It has, and other bytes are in it.
            SQLAlchemyError: Its database does not answer.
            MachineError: Its store does not.
        """
        with self._calling:
            self._channel.send({"call": name, "arguments": arguments}, payload)
            answer = self._answers.get()
        told = answer.header
        if (reason := told.get("interrupted")) is not None:
            raise BY_REASON[reason](self.row_id)
        if (damaged := told.get("damaged")) is not None:
            raise ArtifactDamagedError(damaged)
        if (missing := told.get("missing")) is not None:
            raise ArtifactMissingError(missing)
        if (trouble := told.get("database")) is not None:
            raise SQLAlchemyError(trouble)
        if (trouble := told.get("store")) is not None:
            raise MachineError(trouble)
        return answer

    def _listen(self) -> None:
        while True:
            try:
                message = self._channel.receive()
            except ChannelClosedError:
                self._reason = "lost"
                self._commands.put(None)
                self._answers.put(Message({"interrupted": "lost"}))
                return
            if "stop" in message.header:
                self._reason = message.header["stop"]
            elif "do" in message.header:
                self._commands.put(message)
            else:
                self._answers.put(message)


class ParentStore:
    """The parent's files: those the job names can be read, new ones are handed over whole.

    Implements :class:`workers.runtime.executor.Files`.
    """

    def __init__(self, parent: Parent) -> None:
        self._parent = parent

    def local_path(self, digest: str) -> Path:
        """Return a path on this machine with the bytes; never write to it.

        Raises:
            ArtifactMissingError: There is no such file, or it is none of the job's.
        """
        return Path(self._parent.call("local_path", digest).header["value"])

    def read_bytes(self, digest: str) -> bytes:
        """Return bytes, verified each time they are read.

        Raises:
            ArtifactMissingError: There is no such file, it is damaged, or it is none of the job's.
        """
        return self._parent.call("read_bytes", digest).payload

    def put_bytes(self, data: bytes) -> str:
        """Store bytes and return their digest."""
        return str(self._parent.call("put_bytes", payload=data).header["value"])

    def put_passing(self, data: bytes, digest: str) -> None:
        """Store a checkpoint."""
        self._parent.call("put_passing", digest, payload=data)

    def read_passing(self, digest: str) -> bytes:
        """Return a checkpoint.

        Raises:
            ArtifactMissingError: There is no such file.
        """
        return self._parent.call("read_passing", digest).payload

    def delete(self, digest: str) -> None:
        """Let the parent delete a checkpoint that no row names."""
        self._parent.delete_checkpoint(self, digest)
