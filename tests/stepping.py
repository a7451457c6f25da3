"""A family that plays a game of many steps inside one shard and saves after each."""

import os
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import torch

from seatrial.contracts.estimates import Estimate, Result
from workers.families.contexts import Records, RunContext
from workers.families.protocol import DataInfo, Shard, Stage, TargetInfo


def play(state: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
    """Return the state after one more step."""
    return state / 2 + torch.rand(3, generator=generator, dtype=torch.float64)


class Stepping:
    """Steps one after the other, each of them told in a log before it is saved.

    Args:
        log: A line for every step that was run: process, first position of the shard, step.
        steps: Steps of a shard.
        pause_s: Seconds between two steps.
        before_step: Called before each step with its number.
    """

    def __init__(
        self,
        log: Path,
        *,
        steps: int,
        pause_s: float = 0.0,
        before_step: Callable[[int], None] = lambda step: None,
    ) -> None:
        self.log, self.steps, self.pause_s, self.before_step = log, steps, pause_s, before_step

    def preflight(self, target: TargetInfo, data: DataInfo, params: Any) -> None:
        pass

    def next_stage(self, params: Any, done: Mapping[str, Records]) -> Stage | None:
        return None if "attack" in done else Stage("attack")

    def run(self, params: Any, shard: Shard, context: RunContext) -> Records:
        generator = torch.Generator().manual_seed(context.seed("game", shard.start))
        state, first = torch.zeros(3, dtype=torch.float64), 1
        if (saved := context.checkpoint()) is not None:
            generator.set_state(saved["generator"])
            state, first = saved["state"], int(saved.notes["done"]) + 1
        for step in range(first, self.steps + 1):
            context.check_cancelled()
            self.before_step(step)
            state = play(state, generator)
            with self.log.open("a") as log:
                log.write(f"{os.getpid()} {shard.start} {step}\n")
            context.save({"state": state, "generator": generator.get_state()}, {"done": str(step)}, force=True)
            time.sleep(self.pause_s)
        batches = list(context.batches())
        ids = [example for batch in batches for example in batch.example_ids]
        return pa.table(
            {
                "example_id": pa.array(ids, pa.int64()),
                "label": pa.array([int(label) for batch in batches for label in batch.labels], pa.int64()),
                "errored": pa.array([False] * len(ids), pa.bool_()),
                "state": pa.array([state.tolist()] * len(ids)),
            }
        )

    def reduce(
        self, params: Any, done: Mapping[str, Records], seed: int, *, check_cancelled: Callable[[], None] = lambda: None
    ) -> Result:
        n = done["attack"].num_rows
        value = Estimate(value=0.0, low=None, high=None, n=n, method="none")
        return Result(estimates={"mus": value}, counts={"n": n, "errored": 0})

    def figures(self, params: Any, result: Result) -> Mapping[str, str]:
        return {}


def steps_run(log: Path) -> list[tuple[int, int, int]]:
    """Return process, shard and step of every step that was run, in order."""
    lines = log.read_text().splitlines() if log.exists() else []
    return [(int(pid), int(shard), int(step)) for pid, shard, step in map(str.split, lines)]


def saves_in(store: Path) -> list[Path]:
    """Return every file of a store that holds a checkpoint, or a part of one."""
    return [path for path in store.rglob("*") if path.is_file() and b"seatrial-save" in path.read_bytes()]
