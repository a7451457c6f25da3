import gc
import random
import weakref
from collections.abc import Callable

import numpy as np
import pytest
import torch

from tests.attacks.text.classifiers import LetterCounter
from workers.attacks.text.in_flight import Coroutine, ScoringClient, TimeBudgetError, run_in_flight, seed_generators
from workers.attacks.text.scoring import ScoringService
from workers.models import UnansweredError
from workers.runtime.interruptions import Interrupted, ShardCancelled

WORDS = ["tide", "keel", "mast", "helm", "wake", "buoy", "reef", "knot"]


def service(model: LetterCounter | None = None) -> ScoringService:
    return ScoringService(model or LetterCounter(), max_bytes=10**6)


def wanderer(steps: int) -> Callable[[ScoringClient], list[object]]:
    """A coroutine whose path depends on both generators and on the scores it gets."""

    def run(client: ScoringClient) -> list[object]:
        log: list[object] = []
        text = "start"
        for _ in range(steps):
            texts = [text + random.choice(WORDS) + str(np.random.randint(5)) for _ in range(3)]
            scores = client.scores(texts)
            text = texts[int(torch.stack(scores)[:, 0].argmax())]
            log += [text, random.random(), float(np.random.rand())]
        return log

    return run


def alone(seed: int, steps: int) -> list[object]:
    """The same coroutine without a flight."""

    class Direct:
        def scores(self, texts):
            return service().scores(texts)

    seed_generators(seed)
    return wanderer(steps)(Direct())


@pytest.mark.slow
@pytest.mark.parametrize("limit", [1, 2, 7, 64])
@pytest.mark.parametrize("preferred_texts", [1, 5, 1000])
def test_each_program_ends_as_it_would_alone(limit, preferred_texts) -> None:
    seeds = list(range(20))
    expected = [alone(seed, 1 + seed % 7) for seed in seeds]
    for order in (seeds, seeds[::-1], seeds[3:9]):
        coroutines = [Coroutine(seed, wanderer(1 + seed % 7)) for seed in order]
        model = LetterCounter(preferred_texts=preferred_texts)
        assert run_in_flight(coroutines, service(model), limit=limit) == [expected[seed] for seed in order]
        assert max(map(len, model.batches)) <= preferred_texts


def test_the_low_half_of_a_large_seed_goes_to_numpy() -> None:
    seed = 2**62 + 12345

    def draw(client: ScoringClient) -> tuple[float, float]:
        return random.random(), float(np.random.rand())

    assert run_in_flight([Coroutine(seed, draw)], service(), limit=1) == [
        (random.Random(seed).random(), float(np.random.RandomState(12345).rand()))
    ]


def test_texts_of_all_programs_are_asked_at_once_and_once() -> None:
    model = LetterCounter(preferred_texts=64)

    def ask(own: str) -> Callable[[ScoringClient], int]:
        return lambda client: len(client.scores(["shared", own, "shared"])) + len(client.scores([own]))

    asked = service(model)
    assert run_in_flight([Coroutine(0, ask(f"own {n}")) for n in range(10)], asked, limit=10) == [4] * 10
    assert [len(batch) for batch in model.batches] == [11]
    assert (asked.meters.queries, asked.meters.forward_passes) == (40, 11)


def test_batches_are_even_and_of_one_length() -> None:
    model = LetterCounter(preferred_texts=10)
    texts = ["x" * (n * 7 % 25) for n in range(25)]
    run_in_flight([Coroutine(0, lambda client: client.scores(texts))], service(model), limit=1)
    assert [len(batch) for batch in model.batches] == [8, 8, 9]
    assert [text for batch in model.batches for text in batch] == sorted(texts, key=len)


def test_no_more_programs_are_open_than_fill_a_batch() -> None:
    open_now, most = 0, 0

    def run(client: ScoringClient) -> None:
        nonlocal open_now, most
        open_now += 1
        most = max(most, open_now)
        client.scores([str(random.random()) for _ in range(4)])
        open_now -= 1

    coroutines = [Coroutine(seed, run) for seed in range(40)]
    run_in_flight(coroutines, service(LetterCounter(preferred_texts=16)), limit=30)
    assert most == 4
    run_in_flight(coroutines, service(LetterCounter(preferred_texts=1000)), limit=6)
    assert most == 6


def test_a_programs_exception_is_its_ending_and_nobody_elses() -> None:
    def fail(client: ScoringClient) -> None:
        client.scores(["a"])
        raise ZeroDivisionError("poison")

    coroutines = [Coroutine(seed, fail if seed == 2 else wanderer(4)) for seed in range(5)]
    endings = run_in_flight(coroutines, service(), limit=5)
    assert isinstance(endings[2], ZeroDivisionError)
    assert [endings[seed] for seed in (0, 1, 3, 4)] == [alone(seed, 4) for seed in (0, 1, 3, 4)]


def test_a_missing_answer_reaches_those_who_asked_for_it() -> None:
    model = LetterCounter(refuses=lambda text: text == "silent", preferred_texts=64)

    def ask(*texts: str) -> Callable[[ScoringClient], int]:
        return lambda client: len(client.scores(texts))

    coroutines = [Coroutine(0, run) for run in (ask("a", "silent"), ask("a", "b"), ask("silent"), ask("c"))]
    endings = run_in_flight(coroutines, service(model), limit=4)
    assert [type(ending) for ending in endings] == [UnansweredError, int, UnansweredError, int]
    assert str(endings[0]) == "no answer to 'silent'"
    assert endings[0] is not endings[2]
    assert len(model.batches) == 1


def test_endings_are_told_as_they_come() -> None:
    told = []
    coroutines = [Coroutine(0, wanderer(steps)) for steps in (3, 1, 2)]
    model = LetterCounter(preferred_texts=64)
    endings = run_in_flight(
        coroutines, service(model), limit=3, on_done=lambda position, ending: told.append((position, ending))
    )
    assert sorted(told) == list(enumerate(endings))
    assert [position for position, _ in told] == [1, 2, 0]


@pytest.mark.parametrize("turns", range(12))
def test_an_interruption_ends_every_program_and_leaves_the_processes_random_numbers(turns) -> None:
    left: list[int] = []
    seen = 0

    def run(client: ScoringClient) -> None:
        try:
            wanderer(3)(client)
        finally:
            left.append(1)

    def check_cancelled() -> None:
        nonlocal seen
        seen += 1
        if seen > turns:
            raise ShardCancelled

    random.seed(5)
    np.random.seed(6)
    expected = random.Random(5).random(), np.random.RandomState(6).rand()
    with pytest.raises(Interrupted):
        run_in_flight(
            [Coroutine(n, run) for n in range(4)],
            service(LetterCounter(preferred_texts=8)),
            limit=4,
            check_cancelled=check_cancelled,
        )
    # One check_cancelled before each of the first three coroutines starts: they fill the batch between them.
    assert len(left) == min(turns, 3)
    assert (random.random(), np.random.rand()) == expected


def test_the_processes_random_numbers_go_on_after_a_run() -> None:
    random.seed(5)
    np.random.seed(6)
    run_in_flight([Coroutine(1, wanderer(2))], service(), limit=1)
    assert (random.random(), np.random.rand()) == (random.Random(5).random(), np.random.RandomState(6).rand())


@pytest.mark.parametrize("error", [KeyboardInterrupt, ShardCancelled])
def test_what_is_no_exception_goes_through_a_program(error) -> None:
    def stop(client: ScoringClient) -> None:
        client.scores(["a"])
        raise error

    with pytest.raises(error):
        run_in_flight([Coroutine(0, wanderer(5)), Coroutine(1, stop)], service(), limit=2)


def test_a_models_failure_ends_the_run() -> None:
    class Broken(LetterCounter):
        def logits(self, texts):
            raise RuntimeError("out of memory")

    ended = []

    def run(client: ScoringClient) -> None:
        try:
            client.scores(["a"])
        finally:
            ended.append(1)

    with pytest.raises(RuntimeError, match="out of memory"):
        run_in_flight([Coroutine(0, run)] * 3, service(Broken(preferred_texts=64)), limit=3)
    assert ended == [1, 1, 1]


@pytest.mark.slow
def test_a_program_pays_for_its_own_computing_only() -> None:
    class Slow(LetterCounter):
        def logits(self, texts):
            burn(0.15)
            return super().logits(texts)

    def burn(seconds: float, check: Callable[[], None] = lambda: None) -> None:
        import time

        start = time.thread_time()
        while time.thread_time() - start < seconds:
            check()

    def patient(client: ScoringClient) -> str:
        for question in "abc":
            client.scores([question + str(random.random())])
        return "done"

    def greedy(client: ScoringClient) -> str:
        client.scores(["x"])
        burn(5, client.check)
        return "done"

    coroutines = [Coroutine(0, patient), Coroutine(1, greedy), Coroutine(2, patient)]
    endings = run_in_flight(coroutines, service(Slow(preferred_texts=64)), limit=3, time_budget_s=0.1)
    assert endings[0] == endings[2] == "done"
    assert isinstance(endings[1], TimeBudgetError)
    assert str(endings[1]) == "took more than 0.1 s of computing"


def test_a_long_computation_can_be_cancelled() -> None:
    ticks = 0

    def check_cancelled() -> None:
        nonlocal ticks
        ticks += 1
        if ticks == 3:
            raise ShardCancelled

    def endless(client: ScoringClient) -> None:
        while True:
            client.check()

    with pytest.raises(ShardCancelled):
        run_in_flight([Coroutine(0, endless)], service(), limit=1, check_cancelled=check_cancelled)


@pytest.mark.slow
def test_nothing_of_a_finished_program_is_kept() -> None:
    class Heavy:
        pass

    alive = []

    def run(client: ScoringClient) -> None:
        heavy = Heavy()
        alive.append(weakref.ref(heavy))
        client.scores([str(len(alive))])
        raise ValueError("its frame holds the heavy thing")

    endings = run_in_flight([Coroutine(0, run)] * 3, service(), limit=3)
    gc.collect()
    assert all(isinstance(ending, ValueError) for ending in endings)
    assert [reference() for reference in alive] == [None] * 3


def test_no_programs_and_no_places() -> None:
    assert run_in_flight([], service(), limit=1) == []
    with pytest.raises(ValueError, match="limit=0"):
        run_in_flight([Coroutine(0, wanderer(1))], service(), limit=0)
