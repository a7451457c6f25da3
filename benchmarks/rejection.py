"""What a defence that refuses is worth: the paper's pair for URejectron, under attacks that know what refuses.

    python -m benchmarks.rejection --weights cnn.safetensors --layers cnn.json --images test.npz --train train.npz

Runs the stages of the family transductive_attack on URejectron in memory, on a given model, and prints for every row
the error on what was answered (Chen et al., eq. 1), the share refused of what was sent and of the unperturbed copies
beside it, and the robustness that is made of both; then the flags and the report's sentences. After that Figure 1 (c)
of the paper as it is drawn there: bright images, and PGD's among them. --blind attacks through the base alone.
"""

import argparse
import hashlib
import pathlib
import time
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pyarrow as pa
import torch
from torch import Tensor

from benchmarks.cases import add_options, given_case, parse
from seatrial.contracts.estimates import Result
from seatrial.families.transductive_attack import narrative
from seatrial.families.transductive_attack.params import TransductiveAttackParams
from workers.attacks.corruptions import brighten
from workers.defences.protocol import Training
from workers.families.contexts import Batch, Checkpoint
from workers.families.protocol import Shard
from workers.families.transductive_attack import family
from workers.families.transductive_attack.games import Game
from workers.families.transductive_attack.rules import build
from workers.families.transductive_attack.static import from_bytes
from workers.models.image_classifier import ImageClassifier

BATCH = 100


@dataclass
class Memory:
    """What a shard is given, from memory; see :class:`workers.families.contexts.ImageContext`."""

    classifier: ImageClassifier
    images: Tensor
    labels: Tensor
    training: tuple[Tensor, Tensor]
    done: dict[str, pa.Table] = field(default_factory=dict)
    examples: int = 0
    device: torch.device = field(default=torch.device("cpu"))
    autocast: torch.dtype | None = None

    def batches(self) -> Iterator[Batch]:
        """Yield the examples batch by batch."""
        for rows in torch.arange(len(self.labels)).split(BATCH):
            yield Batch(rows.tolist(), self.images[rows], self.labels[rows])

    def together(self) -> Batch:
        """Return all examples."""
        return Batch(list(range(len(self.labels))), self.images, self.labels)

    def examples_of(self, parameter: str) -> tuple[Tensor, Tensor]:
        """Return the training examples."""
        return self.training

    def seed(self, purpose: str, number: int) -> int:
        """Return a seed for one purpose."""
        return int.from_bytes(hashlib.sha256(f"{purpose} {number}".encode()).digest()[:7], "big")

    def generators(self, purpose: str, example_ids: list[int]) -> list[torch.Generator]:
        """Return a generator for each example."""
        return [torch.Generator().manual_seed(self.seed(purpose, one)) for one in example_ids]

    def records(self, stage: str) -> pa.Table:
        """Return the records of a stage that is done."""
        return self.done[stage]

    def checkpoint(self) -> Checkpoint | None:
        """Return nothing: nobody is killed here."""
        return None

    def save(self, state: Any, notes: Any = None, *, force: bool = False) -> None:
        """Keep nothing."""

    def check_cancelled(self) -> None:
        """Go on."""

    def progress(self, done: int) -> None:
        """Tell nobody."""


def run(params: TransductiveAttackParams, memory: Memory) -> Result:
    """Run every stage and reduce."""
    while (stage := family.FAMILY.next_stage(params, memory.done)) is not None:
        began = time.perf_counter()
        shard = Shard(stage.name, 0, len(memory.labels))
        memory.done[stage.name] = family.FAMILY.run(params, shard, memory)
        print(f"  {stage.name}: {time.perf_counter() - began:.0f} s", flush=True)
    return family.FAMILY.reduce(params, memory.done, 0)


def print_pair(result: Result, params: TransductiveAttackParams) -> None:
    """Print the primary numbers of every row, then the flags and the headline."""
    names = ("selective_error", "rejection_rate", "clean_rejection_rate", "robustness")
    heads = ("error on answered", "refused", "clean refused", "robustness")
    print(f"\n{'per cent [95 %]':22}" + "".join(f"{head:>24}" for head in heads))
    for row in ("clean", *params.corruptions, *params.attacks):
        cells = [
            result.estimates.get(f"clean_accuracy[defence={name}]" if row == "clean" and metric == "robustness" else of)
            for metric in names
            for name in ("urejectron",)
            for of in (f"{metric}[defence={name},attack={row}]",)
        ]
        print(f"{row:22}" + "".join(f"{percent(cell):>24}" for cell in cells))
    for metric in ("static_accuracy", "static_robustness", "overestimate[defence=urejectron]"):
        print(f"{metric}: {percent(result.estimates[metric])}")
    print(f"gain_over_static: {percent(result.estimates['gain_over_static[defence=urejectron]'])}")
    for one in result.series["iterations"]:
        told = [f"{point['score']:.3f}" for point in one["points"]]
        print(f"{one['attack']}: not answered wrongly, by iteration: {' '.join(told)}")
    for flag in result.flags:
        print(f"[{flag.severity}] {flag.code}: {flag.message}")
    answer = narrative.answer(result, params.model_dump(mode="json"), 10)
    print("", answer.headline, *answer.findings, sep="\n")


def percent(estimate: Any) -> str:
    """Return an estimate in per cent, with its interval."""
    if estimate is None or estimate.value is None:
        return "-"
    if estimate.low is None:
        return f"{100 * estimate.value:.1f}"
    return f"{100 * estimate.value:.1f} [{100 * estimate.low:.1f}, {100 * estimate.high:.1f}]"


def print_figure(params: TransductiveAttackParams, memory: Memory) -> None:
    """Print Figure 1 (c): what is refused of bright images that stand beside PGD's on the unperturbed ones."""
    perturbed = memory.done["static"]["image_pgd"].to_pylist()
    bright = brighten(memory.images, params.brightness)
    defence = build(params.defences[0])
    game = Game(
        defence,
        memory.classifier,
        Training(*memory.training),
        lambda purpose, number: torch.Generator().manual_seed(memory.seed(f"figure {purpose}", number)),
        lambda iteration, ids: memory.generators(f"start {iteration}", ids),
    )
    sent = from_bytes(perturbed, tuple(memory.images.shape[1:]))
    *_, last = game.play(sent, memory.labels, list(range(len(memory.labels))), clean=bright)
    right = (last.answers.clean_prediction == memory.labels).double().mean()
    print(
        f"\nFigure 1 (c): the classifier is right on {100 * right:.1f} % of the bright images, and "
        f"{100 * last.answers.clean_rejected.double().mean():.1f} % of them are refused; of PGD's "
        f"{100 * last.answers.rejected.double().mean():.1f} %"
    )


def main() -> None:
    """Run the check and print what it says."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--train", type=pathlib.Path, required=True, help=".npz with images and labels to learn from")
    parser.add_argument("--examples", type=int, default=200)
    parser.add_argument("--training", type=int, default=2000)
    parser.add_argument("--epsilon", type=float, default=0.1)
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--iterations", type=int, default=4)
    parser.add_argument("--epochs", type=int, default=10, help="of the discriminator")
    parser.add_argument("--threshold", type=float, default=0.5)
    parser.add_argument("--cw-learning-rate", type=float, default=0.01)
    parser.add_argument("--attacks", nargs="+", default=["transfer_pgd", "transfer_cw", "fpa", "gmsa_avg", "gmsa_min"])
    parser.add_argument("--blind", action="store_true", help="do not attack what refuses")
    add_options(parser)
    arguments = parse(parser)
    case = given_case(arguments, torch.device("cpu"))
    arrays = np.load(arguments.train)
    order = np.random.default_rng(1).permutation(len(arrays["images"]))[: arguments.training]
    training = torch.tensor(arrays["images"][order]).float() / 255, torch.tensor(arrays["labels"][order])
    labels = [str(name) for name in range(10)]
    base = ImageClassifier(
        case.model,
        labels=labels,
        input_shape=tuple(case.images.shape[1:]),
        mean=[0.0],
        std=[1.0],
        device=torch.device("cpu"),
    )
    changes = {"epochs": arguments.epochs, "threshold": arguments.threshold}
    params = TransductiveAttackParams.model_validate(
        {
            "kind": "transductive_attack",
            "defences": [{"name": "urejectron", "preset": "small", "changes": changes}],
            "training_dataset": "dat_1",
            "attacks": arguments.attacks,
            "corruptions": ["brightness"],
            "cw_learning_rate": arguments.cw_learning_rate,
            "epsilon": arguments.epsilon,
            "step_size": 4 * arguments.epsilon / arguments.steps,
            "steps": arguments.steps,
            "iterations": arguments.iterations,
        }
    )
    if arguments.blind:
        made = family._attack
        family._attack = lambda *given: (lambda one: one and replace(one, evade=None))(made(*given))
    print(f"{case.name}, {len(case.images)} examples, {len(training[1])} to learn from, l_inf {arguments.epsilon:g}")
    memory = Memory(base, case.images, case.labels, training)
    print_pair(run(params, memory), params)
    if "transfer_pgd" in arguments.attacks:
        print_figure(params, memory)


if __name__ == "__main__":
    main()
