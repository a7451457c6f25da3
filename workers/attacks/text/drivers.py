"""Attacks driven by several processes beside one model.

What a search computes itself, its candidates, constraints and bookkeeping, is Python: some 4 ms for every text that it
asks about, in which a GPU answers dozens. Several processes search, each with its share of the coroutines, and the one
that holds the model answers whoever waits, together where several do. A coroutine's result depends on its seed and its
texts alone, so it is the same however many drive.

Drivers are forked, since what attacks are made of (constraints, views of the logits) cannot be sent: they inherit it.
They never touch a GPU, and die with the process that forked them.
"""

import ctypes
import os
import pickle
import signal
import sys
import time
import traceback
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection, Pipe, wait
from typing import Any, NoReturn, TypeVar, cast

import torch
from torch import Tensor

from workers.attacks.text.in_flight import Coroutine, run_in_flight
from workers.attacks.text.scoring import ScoringService
from workers.data import Text
from workers.models import Answer, UnansweredError

ResultT = TypeVar("ResultT")

LOOK_EVERY_S = 0.05
"""Between looks for a cancellation while no driver says anything."""

PR_SET_PDEATHSIG = 1


class DriverError(Exception):
    """A driver process died, or ended in a way that no coroutine does."""


def run_driven(
    coroutines: Sequence[Coroutine[ResultT]],
    service: ScoringService,
    *,
    drivers: int,
    limit: int,
    time_budget_s: float | None = None,
    check_cancelled: Callable[[], None] = lambda: None,
    on_done: Callable[[int, ResultT | Exception], None] = lambda position, ending: None,
) -> list[ResultT | Exception]:
    """Run all coroutines in several processes; see :func:`workers.attacks.text.in_flight.run_in_flight`.

    Args:
        coroutines: Their results must be such as can be pickled.
        service: Answers them, in this process.
        drivers: Processes, at least 1.
        limit: At most so many coroutines are in flight, all processes together.
        time_budget_s: CPU seconds each coroutine may compute itself.
        check_cancelled: Called in this process; what it raises ends the run.
        on_done: Called in this process.

    Raises:
        BaseException: What ``check_cancelled``, ``on_done`` or the model raised. No driver is left by then.
        DriverError: A driver died.
    """
    count = max(1, min(drivers, len(coroutines)))
    share = _Share(coroutines, service, max(1, limit // count), time_budget_s)
    fleet: list[_Driver] = []
    try:
        for number in range(count):
            fleet.append(_fork(share, range(number, len(coroutines), count), fleet))
        return _serve(fleet, len(coroutines), service, check_cancelled, on_done)
    finally:
        for driver in fleet:
            driver.end()


@dataclass(frozen=True)
class _Share:
    """What every driver inherits."""

    coroutines: Sequence[Coroutine[Any]]
    service: ScoringService
    limit: int
    time_budget_s: float | None


@dataclass(frozen=True)
class _Driver:
    """A driver as its parent sees it."""

    pid: int
    line: Connection

    def end(self) -> None:
        """Kill it, if it is there yet, and take note of its end."""
        self.line.close()
        os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)


def _serve(
    fleet: Sequence[_Driver],
    count: int,
    service: ScoringService,
    check_cancelled: Callable[[], None],
    on_done: Callable[[int, Any], None],
) -> list[Any]:
    """Answer the drivers until all have ended."""
    endings: list[Any] = [None] * count
    lines = [driver.line for driver in fleet]
    while lines:
        check_cancelled()
        asking: list[tuple[Connection, list[Text]]] = []
        for ready in wait(lines, LOOK_EVERY_S):
            line = cast(Connection, ready)
            try:
                what, *told = line.recv()
            except (EOFError, ConnectionResetError) as error:
                raise DriverError("a process that drove text attacks died") from error
            match what:
                case "ask":
                    asking.append((line, told[0]))
                case "done":
                    position, ending = told
                    endings[position] = ending
                    on_done(position, ending)
                case "end":
                    service.meters.queries += told[0]
                    lines.remove(line)
                case _:
                    raise DriverError(told[0])
        if asking:
            _answer(asking, service, check_cancelled)
    return endings


def _answer(
    asking: Sequence[tuple[Connection, list[Text]]], service: ScoringService, check_cancelled: Callable[[], None]
) -> None:
    wanted = list(dict.fromkeys(text for _, texts in asking for text in texts))
    # Another driver may have asked before. Those that ask count their queries themselves.
    answers: dict[Text, Answer] = dict(service.remembered(wanted))
    answers |= service.ask_evenly([text for text in wanted if text not in answers], check_cancelled)
    for line, texts in asking:
        line.send([_packed(answers[text]) for text in texts])


def _packed(answer: Answer) -> Any:
    return answer.numpy() if isinstance(answer, Tensor) else answer.args


def _fork(share: _Share, positions: Sequence[int], others: Sequence[_Driver]) -> _Driver:
    ours, theirs = Pipe()
    sys.stdout.flush()
    sys.stderr.flush()
    parent = os.getpid()
    with warnings.catch_warnings():
        # Of other threads a driver needs nothing, and there are no locks that one may hold which a driver takes.
        warnings.simplefilter("ignore", DeprecationWarning)
        pid = os.fork()
    if pid == 0:
        for line in (ours, *(driver.line for driver in others)):
            line.close()
        _drive(share, positions, theirs, parent)
    theirs.close()
    return _Driver(pid, ours)


def _drive(share: _Share, positions: Sequence[int], line: Connection, parent: int) -> NoReturn:
    """Run a share of the coroutines, in the process that was forked for it."""
    try:
        # Its parent says when it is to stop, by ending it.
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)
        if sys.platform == "linux":
            ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        if os.getppid() != parent:
            os._exit(1)
        # The threads of OpenMP are not there after a fork, and a call that waits for them never ends.
        torch.set_num_threads(1)
        asked = ScoringService(_Asked(line, share.service), max_bytes=share.service.max_bytes)

        def done(at: int, ending: Any) -> None:
            line.send(("done", positions[at], _sendable(ending)))

        coroutines = [share.coroutines[position] for position in positions]
        run_in_flight(coroutines, asked, limit=share.limit, time_budget_s=share.time_budget_s, on_done=done)
        line.send(("end", asked.meters.queries))
        # Until the parent has read everything and ends it.
        while True:
            time.sleep(60)
    except BaseException as error:
        where = traceback.extract_tb(error.__traceback__)[-1]
        line.send(("failed", f"{type(error).__name__} in {os.path.basename(where.filename)}:{where.lineno}: {error}"))
    finally:
        # Whatever happened, this process must not return into what its parent was doing.
        os._exit(1)


def _sendable(ending: Any) -> Any:
    try:
        pickle.loads(pickle.dumps(ending))  # noqa: S301 - what this line made
    except Exception:
        if isinstance(ending, Exception):
            return RuntimeError(f"{type(ending).__name__}: {ending}")
        raise
    return ending


class _Asked:
    """The model as a driver sees it: at the other end of a line."""

    def __init__(self, line: Connection, service: ScoringService) -> None:
        self._line, self._model = line, service.classifier
        self.classes, self.labels, self.device = self._model.classes, self._model.labels, torch.device("cpu")
        self.preferred_texts = self._model.preferred_texts

    def logits(self, texts: Sequence[Text]) -> list[Answer]:
        """Return what the process that holds the model says."""
        self._line.send(("ask", list(texts)))
        answers = self._line.recv()
        return [UnansweredError(*one) if isinstance(one, tuple) else torch.from_numpy(one) for one in answers]
