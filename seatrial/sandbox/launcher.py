"""Starting children, limiting them, and learning how they ended.

::

    SandboxError
    +-- LaunchError          no child could be started
    +-- ChildDiedError       it ended without an answer: a crash of a library, or the kernel took its memory back
    +-- DeadlineError        it was killed: its time was over
    +-- MemoryExceededError  it used up its memory
"""

import contextlib
import json
import os
import queue
import resource
import select
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from seatrial.sandbox.channel import Channel, ChannelClosedError, ChannelEndedError, Message

START_S = 120.0
"""Patience with a zygote that imports its libraries for the first time, from a cold disk."""
EXIT_S = 5.0
MESSAGE_S = 60.0
"""Seconds between two pieces of one message."""

ENDED = {"failed": "the zygote has ended"}
"""What stands in for the answer of a zygote that is gone."""

KEPT_VARIABLES = ("PATH", "LANG", "LANGUAGE", "TZ", "TMPDIR", "HOME", "VIRTUAL_ENV", "CUDA_VISIBLE_DEVICES")
KEPT_PREFIXES = (
    *("LC_", "LD_", "PYTHON", "MALLOC_", "OMP_", "MKL_", "OPENBLAS_", "KMP_", "GOTO_", "NPY_", "ATEN_", "ONEDNN_"),
    *("CUDA_", "CUBLAS_", "CUDNN_", "NVIDIA_", "TORCH_", "PYTORCH_", "MPL", "XDG_", "SSL_CERT_"),
)
"""Variables a child inherits. Nothing else: what the operator sets for the service, secrets above all, stays there."""


class SandboxError(Exception):
    """A child did not do its work."""


class LaunchError(SandboxError):
    """No child could be started."""


class ChildDiedError(SandboxError):
    """The child ended without an answer.

    Args:
        status: Its exit status, negative for a signal; None when nobody knows.
    """

    def __init__(self, status: int | None) -> None:
        self.status = status
        super().__init__(f"the process ended {_how(status)} without an answer")


class DeadlineError(SandboxError):
    """The child was killed: its time was over."""


class MemoryExceededError(SandboxError):
    """The child used up its memory."""


class Child:
    """One child process."""

    def __init__(self, pid: int, channel: Channel, zygote: "Zygote") -> None:
        self.pid = pid
        self.channel = channel
        self._zygote = zygote
        self._generation = zygote.generation
        self._status: int | None = None
        self._handle: int | None = None
        # A handle stays that of this process, where its number may be another's soon.
        with contextlib.suppress(OSError, AttributeError):
            self._handle = os.pidfd_open(pid)
        self._base_virtual, self.base_bytes = self._sizes()

    def limit_memory(self, size_bytes: int | None) -> None:
        """Let the child's address space grow by so much over what it was forked with; None lifts the limit.

        Only Linux limits a process from outside; elsewhere nothing is limited.
        """
        if sys.platform == "linux":
            soft = resource.RLIM_INFINITY if size_bytes is None else self._base_virtual + size_bytes
            with contextlib.suppress(ProcessLookupError):
                resource.prlimit(self.pid, resource.RLIMIT_AS, (soft, resource.RLIM_INFINITY))

    def resident_bytes(self) -> int:
        """Return the memory it occupies now, what it shares with its zygote included; 0 when it is gone."""
        return self._sizes()[1]

    def _sizes(self) -> tuple[int, int]:
        try:
            virtual, resident = Path(f"/proc/{self.pid}/statm").read_text().split()[:2]
        except (OSError, ValueError):
            return 0, 0
        return int(virtual) * resource.getpagesize(), int(resident) * resource.getpagesize()

    def kill(self) -> None:
        """End it at once. Safe to call twice, and from any thread: whoever waits for its answer learns that it died."""
        with contextlib.suppress(OSError):
            if self._handle is not None:
                signal.pidfd_send_signal(self._handle, signal.SIGKILL)
            else:
                os.kill(self.pid, signal.SIGKILL)

    def close(self) -> int | None:
        """End it if it lives, let go of what it holds here, and return its exit status, negative for a signal."""
        self.kill()
        self.channel.close()
        status = self._ended()
        if self._handle is not None:
            os.close(self._handle)
            self._handle = None
        return status

    def _ended(self) -> int | None:
        if self._status is None:
            self._status = self._zygote.status_of(self.pid, self._generation)
        return self._status

    def receive(
        self,
        *,
        deadline: Callable[[], float | None] = lambda: None,
        memory_bytes: int | None = None,
        wake_s: float = 0.25,
        on_wake: Callable[[], object] = lambda: None,
    ) -> Message:
        """Return the child's next message.

        Args:
            deadline: Returns when its time is over, on the monotonic clock; asked again whenever there is no message.
            memory_bytes: Resident memory at which it is killed; for devices whose drivers reserve address space in
                such amounts that it cannot be limited.
            wake_s: Seconds between two calls of ``on_wake``.
            on_wake: Called while there is no message; what it raises is raised.

        Raises:
            DeadlineError: The deadline has passed; the child is killed.
            MemoryExceededError: It occupies more; it is killed.
            ChildDiedError: It is gone.
        """
        while True:
            end = deadline()
            left = wake_s if end is None else min(wake_s, end - time.monotonic())
            if left <= 0:
                self.kill()
                raise DeadlineError("its time was over")
            if self._has_message(left):
                try:
                    return self.channel.receive()
                except ChannelClosedError as error:
                    if not isinstance(error, ChannelEndedError):
                        self.kill()
                    raise ChildDiedError(self._ended()) from error
            if memory_bytes is not None and self.resident_bytes() > memory_bytes:
                self.kill()
                raise MemoryExceededError(f"it occupied more than {memory_bytes:,} bytes")
            on_wake()

    def _has_message(self, within_s: float) -> bool:
        # Not select: a process with a thousand connections has descriptors beyond what that takes.
        poller = select.poll()
        poller.register(self.channel, select.POLLIN)
        return bool(poller.poll(1000 * within_s))


class Zygote:
    """Starts children; the process behind it is started with the first one, and again should it die.

    Args:
        prepare: What it calls before every fork, in order: ``module:function`` and arguments that JSON can carry. It
            imports; what was imported once costs nothing the next time.
    """

    def __init__(self, prepare: Sequence[Sequence[Any]] = ()) -> None:
        self._prepare = [list(call) for call in prepare]
        self._asking = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._control: socket.socket | None = None
        self._answers: queue.SimpleQueue[dict[str, Any]] = queue.SimpleQueue()
        self._statuses: dict[int, int] = {}
        self._changed = threading.Condition()
        self.generation = 0

    def fork(self, entry: str, *, prepare: Sequence[Sequence[Any]] = (), max_payload_bytes: int = 2**33) -> Child:
        """Return a new child that runs ``entry`` (``module:function``) with its end of a channel.

        Args:
            entry: Function that takes a :class:`Channel`; the child ends when it returns.
            prepare: Called in the zygote besides its own.
            max_payload_bytes: Largest payload the child may send.

        Raises:
            LaunchError: The zygote does not start, cannot import, or cannot fork.
        """
        ours, theirs = socket.socketpair()
        # A child that stops in the middle of a message must not hold its parent.
        ours.settimeout(MESSAGE_S)
        try:
            with self._asking, theirs:
                answer = self._ask({"entry": entry, "prepare": [*self._prepare, *map(list, prepare)]}, theirs)
        except BaseException:
            ours.close()
            raise
        if "pid" not in answer:
            ours.close()
            raise LaunchError(answer.get("failed", "the zygote does not answer"))
        return Child(answer["pid"], Channel(ours, max_payload_bytes=max_payload_bytes), self)

    def status_of(self, pid: int, generation: int) -> int | None:
        """Wait until a child is gone, some seconds at most, and return its exit status; None when nobody knows.

        Args:
            pid: The child.
            generation: The zygote it was forked from.
        """

        def is_told() -> bool:
            return pid in self._statuses or generation != self.generation or not self._is_running()

        with self._changed:
            self._changed.wait_for(is_told, EXIT_S)
            return self._statuses.pop(pid, None)

    def close(self) -> None:
        """End the zygote and its children."""
        with self._asking:
            self._end()

    def _is_running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def _ask(self, request: dict[str, Any], descriptor: socket.socket) -> dict[str, Any]:
        # It may die between the look at it and the answer, for want of memory of others: the next one is not to blame.
        for is_last in (False, True):
            try:
                if not self._is_running():
                    self._end()
                    self._start()
                self._send(request, descriptor)
                answer = self._answers.get(timeout=START_S)
            except (OSError, queue.Empty) as error:
                self._end()
                if is_last or isinstance(error, queue.Empty):
                    raise LaunchError(f"the zygote does not answer: {error}") from error
                continue
            if answer is not ENDED or is_last:
                return answer
            self._end()
        raise AssertionError("unreachable")

    def _send(self, request: dict[str, Any], descriptor: socket.socket) -> None:
        control = self._control
        assert control is not None  # noqa: S101 - just started
        data = json.dumps(request).encode() + b"\n"
        sent = socket.send_fds(control, [data], [descriptor.fileno()])
        control.sendall(data[sent:])

    def _start(self) -> None:
        ours, theirs = socket.socketpair()
        safely = ["-P"] if sys.flags.safe_path else []
        command = [sys.executable, *safely, "-m", "seatrial.floors", "seatrial.sandbox.zygote", str(theirs.fileno())]
        with theirs:
            self._process = subprocess.Popen(  # noqa: S603
                command,
                stdin=subprocess.DEVNULL,
                pass_fds=[theirs.fileno()],
                start_new_session=True,
                env=minimal_environment(),
            )
        self.generation += 1
        self._control = ours
        self._answers = queue.SimpleQueue()
        listen = threading.Thread(target=self._listen, args=(ours, self._answers), name="zygote", daemon=True)
        listen.start()

    def _listen(self, control: socket.socket, answers: "queue.SimpleQueue[dict[str, Any]]") -> None:
        with control, contextlib.suppress(OSError, ValueError), control.makefile("rb") as lines:
            for line in lines:
                told = json.loads(line)
                if "exited" not in told:
                    answers.put(told)
                    continue
                with self._changed:
                    self._statuses[told["exited"]] = told["status"]
                    self._changed.notify_all()
        answers.put(ENDED)
        with self._changed:
            self._changed.notify_all()

    def _end(self) -> None:
        if self._control is not None:
            with contextlib.suppress(OSError):
                self._control.shutdown(socket.SHUT_RDWR)
            self._control = None
        if self._process is not None:
            try:
                self._process.wait(EXIT_S)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
            self._process = None


def minimal_environment() -> dict[str, str]:
    """Return the variables a child inherits: those of the system and of numerical libraries, none of the service's."""
    kept = {
        name: value for name, value in os.environ.items() if name in KEPT_VARIABLES or name.startswith(KEPT_PREFIXES)
    }
    fixed = {
        "HF_HUB_OFFLINE": "1",
        "TRANSFORMERS_OFFLINE": "1",
        # A library that only asks whether there is a GPU must not open it in the process that forks.
        "PYTORCH_NVML_BASED_CUDA_CHECK": "1",
        # Arrow's own allocator reserves a GiB of address space at once, which counts against a child's limit.
        "ARROW_DEFAULT_MEMORY_POOL": "system",
    }
    # Threads that spin while they wait for each other take the processor from the one they wait for, wherever others
    # work too: a small text model's check took 30 s beside two busy processes, and takes 5 s.
    return {"OMP_WAIT_POLICY": "PASSIVE", **kept, **fixed}


def _how(status: int | None) -> str:
    if status is None:
        return "for an unknown reason"
    if status >= 0:
        return f"with status {status}"
    with contextlib.suppress(ValueError):
        return f"by {signal.Signals(-status).name}"
    return f"by signal {-status}"
