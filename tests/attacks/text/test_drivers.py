"""Attacks driven by several processes end as those of one do, and leave no process behind whatever happens."""

import os
import random
import signal
import time
import warnings
from collections.abc import Sequence
from pathlib import Path

import pytest
import torch

from tests import texts
from tests.attacks.text.classifiers import LetterCounter, at, tiny_sentiment
from tests.attacks.text.test_in_flight import wanderer
from tests.servers import eventually
from workers.attacks.text.attacking import Job, attack_all
from workers.attacks.text.drivers import DriverError, run_driven
from workers.attacks.text.in_flight import Coroutine, ScoringClient, run_in_flight
from workers.attacks.text.recipes import load_recipe
from workers.attacks.text.scoring import ScoringService
from workers.data import Text
from workers.models import UnansweredError
from workers.resources.library import Library
from workers.runtime.interruptions import ShardCancelled

pytestmark = pytest.mark.slow


def service(model: object | None = None, drivers: int = 1) -> ScoringService:
    return ScoringService(model or LetterCounter(), max_bytes=10**6, drivers=drivers)  # type: ignore[arg-type]


def children() -> list[int]:
    """Return the processes this one has forked that are there yet."""
    found = Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()
    return [int(pid) for pid in found]


@pytest.fixture(autouse=True)
def _nobody_is_left() -> object:
    before = set(children())
    yield
    assert set(children()) <= before


@pytest.mark.parametrize("drivers", [1, 2, 5, 64])
def test_each_ends_as_it_does_beside_the_model(drivers: int) -> None:
    coroutines = [Coroutine(seed, wanderer(1 + seed % 7)) for seed in range(20)]
    expected = run_in_flight(coroutines, service(), limit=8)
    done: dict[int, object] = {}
    one, other = service(), service()
    run_in_flight(coroutines, one, limit=8)
    found = run_driven(coroutines, other, drivers=drivers, limit=8, on_done=done.__setitem__)
    assert found == expected
    assert [done[position] for position in range(20)] == expected
    assert other.meters.queries == one.meters.queries
    assert other.meters.forward_passes == one.meters.forward_passes


def test_attacks_on_a_model_end_as_in_one_process() -> None:
    recipe, view = load_recipe("deepwordbug", Library.of()), at(1.0)
    jobs = [
        Job(number, text, label, seed=number, view=view, recipe=recipe)
        for number, (text, label) in enumerate(texts.sentences(12, seed=5))
    ]
    assert attack_all(jobs, service(tiny_sentiment(), drivers=3)) == attack_all(jobs, service(tiny_sentiment()))


def test_what_is_asked_by_one_driver_is_known_to_the_others() -> None:
    model = LetterCounter()

    def ask(client: ScoringClient) -> int:
        return len(client.scores(["the same", "for all"]))

    asked = service(model)
    assert run_driven([Coroutine(seed, ask) for seed in range(6)], asked, drivers=3, limit=6) == [2] * 6
    assert sorted(text for batch in model.batches for text in batch) == ["for all", "the same"]
    assert asked.meters.queries == 12


def test_no_answer_and_failures_are_each_coroutines_own() -> None:
    def refused(client: ScoringClient) -> object:
        return client.scores(["refuse me"])

    def broken(client: ScoringClient) -> object:
        class LocalError(Exception):
            """It cannot be sent: nobody else has its class."""

        raise LocalError("of my own")

    def fine(client: ScoringClient) -> float:
        return float(client.scores(["fine"])[0][0])

    model = LetterCounter(refuses=lambda text: "refuse" in str(text))
    first, second, third = run_driven(
        [Coroutine(0, refused), Coroutine(1, broken), Coroutine(2, fine)], service(model), drivers=2, limit=4
    )
    assert isinstance(first, UnansweredError)
    assert isinstance(second, RuntimeError)
    assert str(second) == "LocalError: of my own"
    assert third == float(LetterCounter().of("fine")[0])


def test_a_cancellation_ends_every_driver_in_the_middle_of_its_search() -> None:
    def endless(client: ScoringClient) -> None:
        while True:
            client.scores([f"text {random.random()}"])

    asked = service()

    def cancel() -> None:
        if asked.meters.forward_passes > 50:
            raise ShardCancelled

    with pytest.raises(ShardCancelled):
        run_driven([Coroutine(seed, endless) for seed in range(4)], asked, drivers=2, limit=4, check_cancelled=cancel)


def test_a_model_that_fails_ends_the_run_with_its_error() -> None:
    class Failing(LetterCounter):
        def logits(self, asked: Sequence[Text]) -> list[torch.Tensor | UnansweredError]:
            raise MemoryError("no more")

    with pytest.raises(MemoryError, match="no more"):
        run_driven([Coroutine(0, wanderer(2))], service(Failing()), drivers=2, limit=2)


def test_a_driver_that_is_killed_is_told() -> None:
    def dies(client: ScoringClient) -> None:
        os.kill(os.getpid(), signal.SIGKILL)

    with pytest.raises(DriverError, match="died"):
        run_driven([Coroutine(0, wanderer(2)), Coroutine(1, dies)], service(), drivers=2, limit=2)


def test_drivers_die_with_the_process_that_forked_them(tmp_path: Path) -> None:
    told = tmp_path / "pids"

    def sleeps(client: ScoringClient) -> None:
        with told.open("a") as file:
            file.write(f"{os.getpid()}\n")
        time.sleep(120)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        pid = os.fork()
    if pid == 0:
        run_driven([Coroutine(0, sleeps), Coroutine(1, sleeps)], service(), drivers=2, limit=2)
        os._exit(0)
    pids = eventually(
        lambda: told.exists() and len(told.read_text().split()) == 2 and [int(one) for one in told.read_text().split()],
        timeout_s=30,
        every_s=0.05,
        what="two drivers",
    )
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    eventually(lambda: all(_is_gone(one) for one in pids), timeout_s=30, every_s=0.05, what="their end")


def _is_gone(pid: int) -> bool:
    stat = Path(f"/proc/{pid}/stat")
    return not stat.exists() or stat.read_text().rsplit(")", 1)[1].split()[0] == "Z"
