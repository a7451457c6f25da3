"""The process children are forked from: ``python -m seatrial.sandbox.zygote DESCRIPTOR``.

It imports what its parent names and forks when asked. It reads no file of anybody's, starts no thread and never touches
a GPU: a fork copies neither. When its parent is gone it ends, and its children with it.
"""

import contextlib
import ctypes
import gc
import json
import os
import resource
import select
import signal
import socket
import sys
import threading
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Any, NoReturn

from seatrial.sandbox.channel import Channel

PIECE_BYTES = 2**16
OOM_SCORE = 500
PR_SET_PDEATHSIG = 1
PR_SET_NO_NEW_PRIVS = 38


def main(descriptor: int) -> None:
    """Serve requests on the socket until the other end is closed."""
    control = socket.socket(fileno=descriptor)
    # The parent's Ctrl-C and SIGTERM are for the parent: it says when a child is to stop.
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    woken, waker = socket.socketpair()
    for end in (woken, waker):
        end.setblocking(False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(waker.fileno())
    while True:
        ready, _, _ = select.select([control, woken], [], [])
        if woken in ready:
            with contextlib.suppress(BlockingIOError):
                woken.recv(4096)
            _report_exits(control)
        if control in ready:
            # One request at a time: its parent waits for the answer to each.
            data, descriptors, _, _ = socket.recv_fds(control, PIECE_BYTES, 1)
            while data and not data.endswith(b"\n"):
                more = control.recv(PIECE_BYTES)
                data = data + more if more else b""
            if not data:
                os._exit(0)
            _answer(control, json.loads(data), descriptors[0], (woken, waker))


def _answer(
    control: socket.socket, request: Mapping[str, Any], descriptor: int, others: tuple[socket.socket, ...]
) -> None:
    try:
        gc.disable()
        for name, *arguments in request["prepare"]:
            named(name)(*arguments)
        # What is there now is kept for good; a child that looked through it for garbage would copy every page of it.
        gc.freeze()
        sys.stdout.flush()
        sys.stderr.flush()
        zygote, pid = os.getpid(), os.fork()
    except Exception as error:
        _tell(control, {"failed": f"{type(error).__name__}: {error}"[:2000]})
    else:
        if pid == 0:
            for end in (control, *others):
                end.close()
            _become_child(request["entry"], descriptor, zygote)
        _tell(control, {"pid": pid})
    finally:
        os.close(descriptor)


def _become_child(entry: str, descriptor: int, zygote: int) -> NoReturn:
    status = 1
    try:
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        if sys.platform == "linux":
            prctl = ctypes.CDLL(None).prctl
            prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
            prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
            # Where the machine runs out of memory, the kernel is to end this process before those that hold the truth.
            with contextlib.suppress(OSError), open("/proc/self/oom_score_adj", "w") as score:
                score.write(str(OOM_SCORE))
        if os.getppid() != zygote:
            # It died before the kernel was asked to tell.
            os._exit(1)
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        gc.enable()
        named(entry)(Channel(socket.socket(fileno=descriptor)))
        status = 0
    except BaseException as error:
        # Whatever it is, this process must not return into the zygote's loop.
        print(f"child {os.getpid()} ended: {type(error).__name__}: {str(error)[:500]!r}", file=sys.stderr, flush=True)
    finally:
        os._exit(status)


def _report_exits(control: socket.socket) -> None:
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return
        if not pid:
            return
        _tell(control, {"exited": pid, "status": os.waitstatus_to_exitcode(status)})


def _tell(control: socket.socket, answer: Mapping[str, Any]) -> None:
    try:
        control.sendall(json.dumps(answer).encode() + b"\n")
    except OSError:
        os._exit(0)


def named(name: str) -> Callable[..., Any]:
    """Return the function that ``module:function`` names."""
    module, _, function = name.partition(":")
    found: Callable[..., Any] = getattr(import_module(module), function)
    return found


if __name__ == "__main__":
    # Threads do not survive a fork; one that holds a lock would leave it locked for ever.
    if threading.active_count() != 1:
        sys.exit("a zygote has one thread")
    main(int(sys.argv[1]))
