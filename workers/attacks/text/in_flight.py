"""Many small synchronous coroutines at once in one thread, each with random numbers of its own.

A coroutine is plain code that now and then asks for the scores of some texts. It runs in a greenlet; when it asks for
texts nobody has asked for yet it is set aside, and when no coroutine can go on, the texts of all of them are asked at
once. So the model sees full batches though each coroutine waits for its own few texts.

``random`` and ``numpy.random`` are global and TextAttack draws from both. Each coroutine owns both states: seeded at
its start, put in place whenever it runs, taken away whenever it waits. What a coroutine returns therefore depends on
its seed and its texts alone, not on its neighbours, their number or their order. The process finds its own states again
at the end. One run at a time per process: two threads would draw from each other's states.
"""

import random
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import numpy as np
from greenlet import GreenletExit, getcurrent, greenlet
from torch import Tensor

from workers.attacks.text.scoring import ScoringService
from workers.data import Text
from workers.models import Answer, UnansweredError

ResultT = TypeVar("ResultT")

CHECK_EVERY_S = 0.1
"""Between checks for cancellation while one coroutine computes without asking."""

CLOCK_EVERY_S = 0.01
"""Between looks at a coroutine's own CPU time. That clock is a system call: it took a sixth of an attack's own time."""


class TimeBudgetError(Exception):
    """A coroutine computed longer than it may."""


class ScoringClient:
    """A coroutine's line to the scoring service. Made by :func:`run_in_flight`; lives as long as its coroutine runs."""

    def __init__(self, scheduler: "_BatchScheduler", time_budget_s: float | None) -> None:
        self._scheduler = scheduler
        self._time_budget_s = time_budget_s
        self._computed_s = 0.0
        self._running_since = 0.0
        self._looked_at = 0.0

    def scores(self, texts: Sequence[Text]) -> list[Tensor]:
        """Return logits (classes,) for each text, in order; other coroutines may run in between.

        Raises:
            UnansweredError: One of the texts has no scores.
            TimeBudgetError: The coroutine has computed longer than it may.
        """
        self.check()
        answers = dict[Text, Answer](self._scheduler.service.known(texts))
        missing = [text for text in dict.fromkeys(texts) if text not in answers]
        if missing:
            answers.update(self._scheduler.wait_for(missing))
        found = []
        for text in texts:
            answer = answers[text]
            if isinstance(answer, UnansweredError):
                # A fresh one: the same text may leave several coroutines unanswered, each with its own traceback.
                raise UnansweredError(*answer.args) from answer
            found.append(answer)
        return found

    def check(self) -> None:
        """Check whether to stop, in the middle of a long computation. Cheap.

        Raises:
            TimeBudgetError: The coroutine has computed longer than it may.
        """
        now = time.perf_counter()
        self._scheduler.check_now_and_then(now)
        if self._time_budget_s is None or now - self._looked_at < CLOCK_EVERY_S:
            return
        self._looked_at = now
        if self.computed_s > self._time_budget_s:
            raise TimeBudgetError(f"took more than {self._time_budget_s:g} s of computing")

    @property
    def computed_s(self) -> float:
        """CPU seconds of this coroutine itself, without the model's and without other coroutines'."""
        return self._computed_s + time.thread_time() - self._running_since

    @contextmanager
    def running(self) -> Iterator[None]:
        """Count the time spent inside as the coroutine's own."""
        self._running_since = time.thread_time()
        try:
            yield
        finally:
            self._computed_s += time.thread_time() - self._running_since


@dataclass(frozen=True)
class Coroutine(Generic[ResultT]):
    """What to run, and the seed of everything random in it.

    Attributes:
        seed: Seed of ``random``; its low 32 bits are that of ``numpy.random``, which takes no more.
        run: Called once with the coroutine's line to the service.
    """

    seed: int
    run: Callable[[ScoringClient], ResultT]


def seed_generators(seed: int) -> None:
    """Seed ``random`` and ``numpy.random`` as a coroutine's are, for those who want to repeat one alone."""
    random.seed(seed)
    np.random.seed(seed % 2**32)


def run_in_flight(
    coroutines: Sequence[Coroutine[ResultT]],
    service: ScoringService,
    *,
    limit: int,
    time_budget_s: float | None = None,
    check_cancelled: Callable[[], None] = lambda: None,
    on_done: Callable[[int, ResultT | Exception], None] = lambda position, ending: None,
) -> list[ResultT | Exception]:
    """Run all coroutines and return what each ended with, in order: its result, or the exception it did not catch.

    No more coroutines are opened than it takes to fill the model's preferred batch, so on a CPU a few are in flight and
    on a GPU many: each holds memory of its own.

    Args:
        coroutines: In the order in which they start.
        service: Answers them.
        limit: At most so many are in flight, at least 1.
        time_budget_s: CPU seconds each coroutine may compute itself.
        check_cancelled: Called between turns and at least every 0.1 s that a coroutine checks in; what it raises ends
            the run.
        on_done: Called with a coroutine's position and its ending.

    Raises:
        BaseException: What ``check_cancelled``, ``on_done`` or the model raised, and what a coroutine raised that is no
            ``Exception`` (``Interrupted``, ``KeyboardInterrupt``). All coroutines have been ended by then.
    """
    if limit < 1:
        raise ValueError(f"at least one coroutine must be in flight: {limit=}")
    python_state, numpy_state = random.getstate(), np.random.get_state()
    scheduler = _BatchScheduler(service, check_cancelled)
    try:
        return scheduler.run(coroutines, limit, time_budget_s, on_done)
    finally:
        scheduler.end()
        random.setstate(python_state)
        np.random.set_state(numpy_state)


class _Task:
    """One coroutine in flight: its greenlet, its random states, and what it waits for."""

    def __init__(self, position: int, coroutine: Coroutine[Any], client: ScoringClient) -> None:
        self.position = position
        self.client = client
        self.wants: list[Text] = []
        self.ending: Any = None
        self._coroutine = coroutine
        self._greenlet = greenlet(self._run)
        self._states: tuple[Any, Any] | None = None

    def resume(self, answers: dict[Text, Answer] | None) -> None:
        """Run it until it waits or ends, with its own random numbers."""
        if self._states is None:
            seed_generators(self._coroutine.seed)
        else:
            random.setstate(self._states[0])
            np.random.set_state(self._states[1])
        with self.client.running():
            self.wants = self._greenlet.switch(answers) or []
        self._states = random.getstate(), np.random.get_state()

    @property
    def has_ended(self) -> bool:
        """Whether ``ending`` is final."""
        return bool(self._greenlet.dead)

    def end(self) -> None:
        """Unwind it wherever it is."""
        if not self._greenlet.dead:
            self._greenlet.throw(GreenletExit)

    def _run(self, _: object) -> None:
        try:
            self.ending = self._coroutine.run(self.client)
        except Exception as error:
            # The frames hold every text of the search; nobody looks at them after this.
            self.ending = error.with_traceback(None)


class _BatchScheduler:
    """The hub: decides who runs, and asks the model for those who wait."""

    def __init__(self, service: ScoringService, check_cancelled: Callable[[], None]) -> None:
        self.service = service
        self._check_cancelled = check_cancelled
        self._hub = getcurrent()
        self._checked_at = time.perf_counter()
        self._waiting: list[_Task] = []
        self._ready: deque[tuple[_Task, dict[Text, Answer] | None]] = deque()
        self._wanted: dict[Text, None] = {}
        self._current: _Task | None = None

    def run(
        self,
        coroutines: Sequence[Coroutine[Any]],
        limit: int,
        time_budget_s: float | None,
        on_done: Callable[[int, Any], None],
    ) -> list[Any]:
        """See :func:`run_in_flight`."""
        endings: list[Any] = [None] * len(coroutines)
        started = 0
        while True:
            if self._ready:
                task = self._turn()
                if task.has_ended:
                    endings[task.position] = task.ending
                    on_done(task.position, task.ending)
            elif started < len(coroutines) and len(self._waiting) < limit and not self._has_full_batch():
                task = _Task(started, coroutines[started], ScoringClient(self, time_budget_s))
                self._ready.append((task, None))
                started += 1
            elif self._waiting:
                self._answer()
            else:
                return endings

    def wait_for(self, texts: list[Text]) -> dict[Text, Answer]:
        """Set the coroutine that calls aside until the texts have answers. Runs in its greenlet."""
        answers: dict[Text, Answer] = self._hub.switch(texts)
        return answers

    def check_now_and_then(self, now: float) -> None:
        """Check for cancellation if the last time is a while ago."""
        if now - self._checked_at > CHECK_EVERY_S:
            self._check_now()

    def end(self) -> None:
        """Unwind all coroutines that have not ended."""
        tasks = [*self._waiting, *(task for task, _ in self._ready)]
        for task in [self._current, *tasks] if self._current else tasks:
            task.end()

    def _turn(self) -> _Task:
        self._check_now()
        task, answers = self._ready.popleft()
        self._current = task
        task.resume(answers)
        self._current = None
        if not task.has_ended:
            self._waiting.append(task)
            self._wanted.update(dict.fromkeys(task.wants))
        return task

    def _answer(self) -> None:
        """Ask for every text that is waited for, and let all coroutines go on."""
        answers = self.service.ask_evenly(list(self._wanted), self._check_now)
        for task in self._waiting:
            self._ready.append((task, {text: answers[text] for text in task.wants}))
        self._waiting, self._wanted = [], {}

    def _has_full_batch(self) -> bool:
        return len(self._wanted) >= self.service.classifier.preferred_texts

    def _check_now(self) -> None:
        self._checked_at = time.perf_counter()
        self._check_cancelled()
