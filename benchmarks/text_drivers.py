"""What further processes that drive text attacks are worth beside a model that answers as fast as one on a GPU.

    python -m benchmarks.text_drivers
    python -m benchmarks.text_drivers --drivers 1 2 4 8 --texts 96

The model is a stand-in: it counts letters, and waits as long as a GPU would take for each batch. All drive the same
attacks (DeepWordBug, made-up reviews), in turns, and must end alike. With as many cores as drivers the searches, which
are Python, take a share each; with fewer they take turns.
"""

import argparse
import os
import statistics
import sys
import time
from collections.abc import Sequence

import torch
from torch import Tensor

from tests import texts
from workers.attacks.text.attacking import Job, Outcome, attack_all
from workers.attacks.text.recipes import load_recipe
from workers.attacks.text.scoring import ScoringService
from workers.data import Text
from workers.models import Answer
from workers.resources.library import Library

SENTENCES = 4


class StandIn:
    """Two logits from the letters of a text, after a while.

    Args:
        batch_s: Seconds a batch takes.
        preferred_texts: Texts of a batch.
    """

    classes = 2
    labels = ("few", "many")
    device = torch.device("cpu")

    def __init__(self, batch_s: float, preferred_texts: int) -> None:
        self.preferred_texts = preferred_texts
        self._batch_s = batch_s

    def logits(self, asked: Sequence[Text]) -> list[Answer]:
        """Return logits, when the time is over."""
        time.sleep(self._batch_s)
        return [self._of(str(text)) for text in asked]

    def _of(self, text: str) -> Tensor:
        side = sum((ord(letter) * 2_654_435_761 >> 7) % 1000 - 499.5 for letter in text) / (100 * len(text) ** 0.5)
        return torch.tensor([-side, side])


def run(jobs: Sequence[Job], drivers: int, batch_s: float, batch: int) -> tuple[list[Outcome], float, int]:
    """Return how the attacks ended, the seconds, and the texts the model was asked."""
    service = ScoringService(StandIn(batch_s, batch), max_bytes=2**28, drivers=drivers)  # type: ignore[arg-type]
    began = time.perf_counter()
    outcomes = attack_all(jobs, service)
    return outcomes, time.perf_counter() - began, service.meters.forward_passes


def main() -> int:
    """Print a line for each number of drivers."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--drivers", type=int, nargs="+", default=[1, 2, 4])
    parser.add_argument("--texts", type=int, default=48)
    parser.add_argument("--batch", type=int, default=128, help="texts the model is asked at once")
    parser.add_argument("--batch-ms", type=float, default=10.0, help="what it takes for them")
    parser.add_argument("--repeats", type=int, default=3)
    arguments = parser.parse_args()
    pool = texts.sentences(arguments.texts * SENTENCES, 7)
    recipe = load_recipe("deepwordbug", Library.of())
    jobs = []
    for number in range(arguments.texts):
        text = " ".join(sentence for sentence, _ in pool[number * SENTENCES : (number + 1) * SENTENCES])
        label = int(StandIn(0, 1).logits([text])[0].argmax())  # type: ignore[union-attr]
        jobs.append(Job(number, text, label, seed=number, view=lambda z: torch.softmax(z.double(), 1), recipe=recipe))
    seconds: dict[int, list[float]] = {drivers: [] for drivers in arguments.drivers}
    expected = None
    for _ in range(arguments.repeats):
        for drivers in arguments.drivers:
            outcomes, took, passes = run(jobs, drivers, arguments.batch_ms / 1000, arguments.batch)
            expected = expected or outcomes
            if outcomes != expected:
                print(f"{drivers} drivers end otherwise")
                return 1
            seconds[drivers].append(took)
    first = statistics.median(seconds[arguments.drivers[0]])
    print(f"{len(jobs)} attacks, {passes:,} texts asked, {os.cpu_count()} cores, medians of {arguments.repeats}")
    for drivers, taken in seconds.items():
        took = statistics.median(taken)
        print(f"{drivers} drivers: {took:6.2f} s, {passes / took:7.0f} texts a second, {first / took:.2f}x")
    return 0


if __name__ == "__main__":
    sys.exit(main())
