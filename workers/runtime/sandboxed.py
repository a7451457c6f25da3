"""Running jobs in a child process: limited in memory and time, ended with what is cancelled, replaced when it dies.

The child has no database and no secret of the service. It is kept for further jobs over the same models of the same
project, and ended before anything else runs: what one model left behind in a process never meets another.
"""

import logging
import os
import pickle
import re
import shutil
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

from sqlalchemy.exc import SQLAlchemyError

from seatrial.contracts.models import TEXTS
from seatrial.contracts.problems import StoredProblem
from seatrial.logs import bound_ids
from seatrial.sandbox.channel import ChannelClosedError, Message
from seatrial.sandbox.launcher import Child, ChildDiedError, DeadlineError, MemoryExceededError, Zygote
from seatrial.sandbox.scratch import Scratch
from seatrial.store.artifacts import ArtifactDamagedError, ArtifactMissingError, ArtifactStore, digest_of_bytes
from seatrial.store.private_files import private_folder
from seatrial.store.settings import Settings
from seatrial.store.tables import ModelRow
from workers.errors import AccidentError, MachineError, TargetError, WorkError
from workers.families.stages import Stage
from workers.runtime.deferring import trouble_of
from workers.runtime.executor import Holder
from workers.runtime.interruptions import BY_REASON, Interrupted
from workers.runtime.jobs import Advanced, CheckJob, Hardened, HardeningJob, Measured, ModelJob, ShardJob
from workers.runtime.limits import (
    CRASHES,
    OUT_OF_MEMORY,
    Limits,
    Watch,
    crashed,
    machine_memory,
    too_large,
    too_slow,
)

log = logging.getLogger(__name__)

ENTRY = "workers.runtime.child:serve"
PREPARE: list[list[Any]] = [["workers.runtime.child:prepare"]]
"""What is called before every fork; what it imports, children have."""

AnyJob: TypeAlias = ModelJob | CheckJob | ShardJob | HardeningJob

IDLE_S = 60.0
"""Seconds a child without work is kept: it holds a model's memory, on a GPU too."""

STORED_BYTES_PER_S = 50e6
"""A check may take longer, the larger the file: it is unpacked, read and hashed."""

FILE_COPIES = 6
"""Memory of a model in times its file: half precision made single, twice while it is loaded, and gradients."""


_SECRET = re.compile(r"\{\{\s*secret:\s*([^}\s]+)\s*\}\}")


@dataclass(frozen=True)
class _Running:
    child: Child
    folder: Path
    key: tuple[str, ...]

    @property
    def given(self) -> Path:
        """Files it may read."""
        return self.folder / "given"

    @property
    def scratch(self) -> Path:
        """Where it may write."""
        return self.folder / "scratch"

    def give(self, path: Path) -> Path:
        """Return a path under which the child may read a stored file; it must not write to it."""
        target = self.given / path.name
        if not target.exists():
            try:
                os.link(path, target)
            except OSError:
                # On another disk.
                shutil.copyfile(path, target)
        return target


class SandboxedExecutor:
    """Runs jobs in a child process; implements :class:`workers.runtime.executor.Executor`.

    Args:
        store: Where bytes are; a child reads those its job names.
        settings: Limits.
    """

    def __init__(self, store: ArtifactStore, settings: Settings) -> None:
        self._store = store
        self._settings = settings
        # Beside the stored files, so that a child can be given them by link and without a copy.
        self._scratch = Scratch(private_folder(settings.home.absolute() / "scratch"))
        self._zygote = Zygote([["seatrial.store.settings:use_settings", settings.for_child()], *PREPARE])
        self._running: _Running | None = None
        self._busy = threading.Lock()
        self._idle: threading.Timer | None = None
        self._device: tuple[str, str] | None = None

    def device(self) -> str:
        """Return the name of the device, for people."""
        if self._device is None:
            with self._busy:
                kind, name = self._command("device", (), [], None, None, Limits())
                self._device = str(kind), str(name)
                self._end()
        return self._device[1]

    def check(self, job: ModelJob, holder: Holder) -> dict[str, Any]:
        """Load a model, measure it, and return its facts as JSON."""
        size = job.model.size_bytes
        seconds = self._settings.check_deadline_s + size / STORED_BYTES_PER_S
        memory = min(self._settings.check_memory_bytes + FILE_COPIES * size, machine_memory())
        facts: dict[str, Any] = self._run("check", job, holder, Limits(memory, total_s=seconds))
        return facts

    def advance(self, job: CheckJob, holder: Holder) -> Advanced:
        """Return the next stage of a check, or its end."""
        told = self._run("advance", job, holder, self._shard_limits(job.models()))
        stage = told.pop("stage")
        return Advanced(stage=stage and Stage(**stage), **told)

    def run(self, job: ShardJob, holder: Holder) -> Measured:
        """Run a shard and store its records."""
        return Measured(**self._run("run", job, holder, self._shard_limits(job.models())))

    def harden(self, job: HardeningJob, holder: Holder) -> Hardened:
        """Train in a child of its own, which ends with it: it holds the model as it has become."""
        try:
            return Hardened(**self._run("harden", job, holder, self._shard_limits(job.models())))
        finally:
            self.forget()

    def forget(self) -> None:
        """End the child, with the model it has at hand."""
        with self._busy:
            self._end()

    def close(self) -> None:
        """End the child, and whatever it was forked from."""
        with self._busy:
            self._end()
            self._zygote.close()
            self._scratch.close()

    def _shard_limits(self, models: Sequence[ModelRow]) -> "Limits":
        memory = self._settings.shard_memory_bytes or machine_memory() * 3 // 4
        return Limits(
            memory + FILE_COPIES * sum(model.size_bytes for model in models), silence_s=self._settings.shard_silence_s
        )

    def _run(self, what: str, job: AnyJob, holder: Holder, limits: "Limits") -> Any:
        with self._busy:
            try:
                is_kept = self._running is not None and self._running.key == _key(job)
                try:
                    return self._attempt(what, job, holder, limits)
                except TargetError as error:
                    if not is_kept or error.problem.code != OUT_OF_MEMORY:
                        raise
                    # What earlier jobs left in it, data above all, may be what took the memory.
                    return self._attempt(what, job, holder, limits)
            finally:
                self._rest()

    def _attempt(self, what: str, job: AnyJob, holder: Holder, limits: "Limits") -> Any:
        try:
            return self._command(what, _key(job), job.models(), job, holder, limits)
        except WorkError as error:
            # Nobody will want a model that was refused, and memory that was used up may stay so.
            if what == "check" or error.problem.code == OUT_OF_MEMORY:
                self._end()
            raise
        except MemoryExceededError as error:
            self._end()
            raise too_large(what, limits) from error
        except DeadlineError as error:
            self._end()
            raise too_slow(what, limits) from error
        except ChildDiedError as error:
            self._end()
            if what == "check" and error.status in CRASHES:
                raise crashed(error) from error
            raise AccidentError(f"the process that ran the model did not end by itself ({error})") from error
        except SQLAlchemyError:
            # The database's trouble; the child is as good as before.
            raise
        except BaseException:
            # It was interrupted, has failed in a way nobody foresaw, or says what no child of ours would.
            self._end()
            raise

    def _command(
        self,
        what: str,
        key: tuple[str, ...],
        models: Sequence[ModelRow],
        job: AnyJob | None,
        holder: Holder | None,
        limits: "Limits",
    ) -> Any:
        running = self._child(key, models)
        child = running.child
        memory = limits.memory_bytes
        # A GPU's driver reserves address space by the hundreds of GiB: what is resident is watched instead.
        child.limit_memory(memory if self._device is not None and self._device[0] == "cpu" else None)
        header = {
            "do": what,
            "about": bound_ids(),
            "given": str(running.given),
            "scratch": str(running.scratch),
            "secrets": _secrets(models, self._settings),
            "may_connect": any(model.format == "endpoint" for model in models),
        }
        watch = Watch(child, holder)
        checkpoints = {job.checkpoint} if isinstance(job, ShardJob | HardeningJob) else set()
        try:
            child.channel.send({**header, "row_id": holder.row_id if holder else ""}, pickle.dumps(job))
            while True:
                message = child.receive(
                    deadline=lambda: limits.deadline(watch),
                    memory_bytes=memory and child.base_bytes + memory,
                    on_wake=watch,
                )
                watch.seen()
                told = message.header
                if "end" in told:
                    return _outcome(told["end"], what, limits)
                if holder is None or job is None:
                    continue
                if "progress" in told:
                    holder.progress(int(told["progress"]))
                elif "report" in told:
                    holder.report(*told["report"])
                elif "call" in told:
                    child.channel.send(*self._answer(message, job, holder, checkpoints))
        except DeadlineError:
            if watch.reason is not None:
                raise watch.reason from None
            raise
        except ChannelClosedError as error:
            raise ChildDiedError(child.close()) from error

    def _child(self, key: tuple[str, ...], models: Sequence[ModelRow]) -> _Running:
        if self._idle is not None:
            self._idle.cancel()
        if self._running is not None and self._running.key != key:
            self._end()
        if self._running is None:
            child = self._zygote.fork(ENTRY, prepare=_preparation(models))
            self._running = _Running(child, self._scratch.new_folder(), key)
            self._running.given.mkdir()
            self._running.scratch.mkdir()
        return self._running

    def _answer(
        self, message: Message, job: Any, holder: Holder, checkpoints: set[str | None]
    ) -> tuple[dict[str, Any], bytes]:
        name, arguments = message.header["call"], message.header["arguments"]
        try:
            if name in ("poll_cancelled", "confirm"):
                getattr(holder, name)()
                return {}, b""
            if name == "announce_checkpoint":
                holder.announce_checkpoint(str(arguments[0]))
                checkpoints.add(str(arguments[0]))
                return {}, b""
            if name == "point_at_checkpoint":
                return {"value": holder.point_at_checkpoint(str(arguments[0]), int(arguments[1]))}, b""
            if name == "put_bytes":
                return {"value": self._store.put_bytes(message.payload)}, b""
            digest = str(arguments[0])
            if name == "put_passing":
                # Under another's digest it would take that file's place.
                if digest not in checkpoints or digest_of_bytes(message.payload) != digest:
                    return {"store": f"{digest} is no checkpoint of this shard"}, b""
                self._store.put_passing(message.payload, digest)
                return {}, b""
            if name == "delete_checkpoint":
                # Any other file of the store may be somebody's model.
                if digest not in checkpoints:
                    return {"missing": f"{digest} is no checkpoint of this shard"}, b""
                holder.delete_checkpoint(self._store, digest)
                return {}, b""
            if digest not in job.digests():
                return {"missing": f"{digest} is none of the job's files"}, b""
            if name in ("read_passing", "read_bytes"):
                return {}, getattr(self._store, name)(digest)
            path = self._store.local_path(digest)
            return {"value": str(self._running.give(path) if self._running else path)}, b""
        except Interrupted as error:
            return {"interrupted": error.reason}, b""
        except ArtifactDamagedError as error:
            return {"damaged": str(error)}, b""
        except ArtifactMissingError as error:
            return {"missing": str(error)}, b""
        except SQLAlchemyError as error:
            log.warning("the database does not answer %s of %s: %s", name, holder.row_id, error)
            return {"database": type(error).__name__}, b""
        except Exception as error:
            # Every kind of store has errors of its own.
            log.warning("the store does not answer %s of %s: %s", name, holder.row_id, error)
            return {"store": trouble_of(error) or f"the store does not answer ({type(error).__name__})"}, b""

    def _rest(self) -> None:
        self._idle = threading.Timer(IDLE_S, self._end_idle)
        self._idle.daemon = True
        self._idle.start()

    def _end_idle(self) -> None:
        if self._busy.acquire(blocking=False):
            try:
                self._end()
            finally:
                self._busy.release()

    def _end(self) -> None:
        if self._running is not None:
            running, self._running = self._running, None
            running.child.close()
            shutil.rmtree(running.folder, ignore_errors=True)


def _key(job: AnyJob) -> tuple[str, ...]:
    models = job.models()
    if isinstance(job, HardeningJob):
        return (models[0].project_id, job.hardening_id)
    return (models[0].project_id, *sorted({f"{model.digest} {model.id}" for model in models}))


def _preparation(models: Sequence[ModelRow]) -> list[list[str]]:
    calls = []
    if any(model.manifest.get("architecture", {}).get("kind") == "huggingface" for model in models):
        calls.append(["workers.runtime.child:prepare_transformers"])
    if any(model.task in TEXTS for model in models):
        calls.append(["workers.runtime.child:prepare_text_attacks"])
    return calls


def _secrets(models: Sequence[ModelRow], settings: Settings) -> Mapping[str, Any]:
    """Return the secrets the models' headers name, as JSON: of those that are endpoints."""
    named = {name for model in models if model.format == "endpoint" for name in _SECRET.findall(str(model.manifest))}
    return {
        name: {**secret.model_dump(mode="json"), "value": secret.value.get_secret_value()}
        for name, secret in settings.endpoint_secrets.items()
        if name in named
    }


def _outcome(end: Mapping[str, Any], what: str, limits: Limits) -> Any:
    if "done" in end:
        return end["done"]
    if "refused" in end:
        problem = StoredProblem.model_validate(end["refused"])
        raise WorkError(problem.code, problem.title, problem.detail, field=problem.field)
    if "interrupted" in end:
        raise BY_REASON[end["interrupted"]](what)
    if "memory" in end:
        raise too_large(what, limits)
    if "damaged" in end:
        raise ArtifactDamagedError(end["damaged"])
    if "missing" in end:
        raise ArtifactMissingError(str(end["missing"]).removeprefix("a stored file is missing: "))
    if "trouble" in end:
        raise MachineError(str(end["trouble"]))
    if "database" in end:
        raise SQLAlchemyError(end["database"])
    log.error("%s in the process that ran the model: %s", end["failed"], end["words"])
    raise AccidentError(str(end["failed"]))
