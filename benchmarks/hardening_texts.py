"""Training methods for texts beside the tables of paper 000 (Raina et al. 2024): what is left after calibration.

    python -m benchmarks.hardening_texts --base MINILM --data FOLDER --hidden 64 --results small.json
    python -m benchmarks.hardening_texts --base MINILM --data FOLDER --layers 6 --texts 1000 --results minilm.json \
        --cells baseline baseline* baseline*+T
    python -m benchmarks.hardening_texts --results small.json --print

MINILM is the Hugging Face folder of a pretrained encoder; FOLDER holds rotten_tomatoes.train.jsonl.gz and .jsonl files
of validation and test, with `text` and `label`. With --hidden the model is a CNN whose word embeddings are principal
components of the encoder's, without it the encoder's first --layers layers. A star is a gradient normalised over all
parameters, +T a training temperature of 200. Every cell is one training from the same weights for each seed, by the
library's own method, and DeepWordBug on the same test texts: through the scores as served, and through scores at the
temperature that was fitted on validation texts. A finished cell is kept in the file, and not measured again.
"""

import argparse
import gzip
import json
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch

from benchmarks.hardening_cells import Cells, Numbers, format_cell, harden, table
from benchmarks.hardening_models import first_layers, text_cnn
from seatrial.statistics.calibration import ece
from workers.attacks.text.attacking import Job, Outcome, attack_all
from workers.attacks.text.recipes import load_recipe
from workers.attacks.text.scoring import ScoringService
from workers.calibration.scaling import Scaling, fit_temperature
from workers.resources.library import Library
from workers.training.models import TrainableTexts

CACHE_BYTES = 2**27
HIGH = 200.0
BATCH = 64
Rows = list[tuple[str, int]]


@dataclass(frozen=True)
class Cell:
    """A training: which method, with which parameters, and how many times the epochs of all others."""

    slug: str
    body: dict[str, Any] = field(default_factory=dict)
    epochs: float = 1.0


def _cells() -> dict[str, Cell]:
    plain, star = {"gradients": "plain"}, {"gradients": "normalised"}
    hot = star | {"training_temperature": HIGH}
    few = {"steps": 3}
    two = {"attacks": 2, "steps": 2}
    cells = {
        "baseline": Cell("gradient_normalised", plain),
        "baseline*": Cell("gradient_normalised", star),
        "baseline*+T": Cell("high_temperature", hot),
        "baseline+T": Cell("high_temperature", plain | {"training_temperature": HIGH}),
        "pgd": Cell("pgd_k", few | {"gradients": "clipped"}),
        "pgd*": Cell("pgd_k", few | star),
        "pgd*+T": Cell("pgd_k", few | hot),
        "dg-aug": Cell("dg_aug", plain),
        "dg-aug*": Cell("dg_aug", star),
        "dg-aug*+T": Cell("dg_aug", hot),
        "baseline, clipped": Cell("gradient_normalised", {"gradients": "clipped"}),
        "ddi-at": Cell("ddi_at", two | star),
        "ddi-at, clipped": Cell("ddi_at", two | {"gradients": "clipped"}),
        "ddi-at, plain": Cell("ddi_at", two | plain),
        "freelb": Cell("freelb", few | {"gradients": "clipped"}),
        "freelb*": Cell("freelb", few | star),
        "freelb*+T": Cell("freelb", few | hot),
    }
    for temperature in (10, 20, 100, 2000):
        body = star | {"training_temperature": float(temperature)}
        cells[f"baseline*, T = {temperature}"] = Cell("high_temperature", body)
    cells["dg-aug*+T, half"] = Cell("dg_aug", hot, 0.5)
    cells["baseline*, twice"] = Cell("gradient_normalised", star, 2.0)
    cells["baseline*+T, twice"] = Cell("high_temperature", hot, 2.0)
    return cells


CELLS = _cells()


class Bench:
    """The texts, and a model of the same weights for each seed."""

    def __init__(self, options: argparse.Namespace, scratch: Path) -> None:
        name = options.dataset
        self.options, self.scratch = options, scratch
        self.train = balanced(read(options.data / f"{name}.train.jsonl.gz"), options.texts)
        self.validation = balanced(read(options.data / f"{name}.validation.jsonl"), options.held_out)
        self.test = read(options.data / f"{name}.test.jsonl")[: options.tested]
        self.attacked = balanced(read(options.data / f"{name}.test.jsonl"), options.attacked)
        self.recipe = load_recipe("deepwordbug", Library.of())

    def model(self, seed: int) -> TrainableTexts:
        """Return the model as it is before any training."""
        base, hidden, layers = self.options.base, self.options.hidden, self.options.layers
        if hidden is None:
            return first_layers(base, self.scratch / "folder", layers, classes=2, seed=seed)
        return text_cnn(base, [text for text, _ in self.train], hidden=hidden, classes=2, seed=seed)

    def trained(self, cell: Cell, seed: int) -> tuple[TrainableTexts, Numbers]:
        """Return a trained model, and how its training went."""
        model, began = self.model(seed), time.process_time()
        folder = self.scratch / f"augmented-{seed}"
        if cell.slug == "dg_aug":
            self.augment(folder, seed)
        epochs = max(1, round(cell.epochs * self.options.epochs))
        body = {
            "epochs": epochs,
            "batch_size": self.options.batch,
            "learning_rate": self.options.rate,
            "milestones": [max(1, round(0.6 * epochs))] if epochs > 1 else [],
        }
        few = columns(self.validation[:BATCH])
        outcome = harden(model, cell.slug, body | cell.body, columns(self.train), few, seed=seed, folder=folder)
        last = outcome.curves[-1]
        return model, {
            "train_loss": last["train_loss"],
            "skipped": float(outcome.skipped),
            "train_s": time.process_time() - began,
        }

    def augment(self, folder: Path, seed: int) -> None:
        """Attack the training texts on a model that was trained on them as usual, as the paper does; once a seed.

        The method attacks the model it is given; what it finds is kept in the folder, where it looks before it attacks.
        """
        if (folder / "done").exists():
            return
        model, _ = self.trained(CELLS["baseline"], seed)
        body = {"epochs": 1, "learning_rate": 1e-9, "query_budget": self.options.query_budget}
        one = columns(self.validation[:1])
        harden(model, "dg_aug", body, columns(self.train), one, seed=seed, folder=folder)
        (folder / "done").touch()

    def measure(self, cell: Cell, seed: int) -> Numbers:
        """Train, then attack."""
        model, numbers = self.trained(cell, seed)
        began = time.process_time()
        service = ScoringService(model.classifier, max_bytes=CACHE_BYTES)
        held_out, truth = logits(service, self.validation), np.array([label for _, label in self.validation])
        fitted = fit_temperature(held_out, truth)
        clean, labels = logits(service, self.test), np.array([label for _, label in self.test])
        numbers |= {"clean": float((clean.argmax(1) == labels).mean()), "temperature": fitted.temperature}
        for arm, scaling in {
            "as_served": Scaling(is_native=True),
            "calibrated": Scaling(temperature=fitted.temperature),
        }.items():
            outcomes = self.attack(service, scaling)
            numbers[f"adversarial[{arm}]"] = 1 - broken(outcomes)
            numbers[f"queries[{arm}]"] = float(np.mean([one.queries for one in outcomes]))
            seen = scaling.logits(torch.as_tensor(clean)).softmax(1).numpy()
            numbers[f"confidence[{arm}]"] = float(seen.max(1).mean())
            numbers[f"ece[{arm}]"] = ece(seen.max(1), seen.argmax(1) == labels, 15) or 0.0
            if arm == "as_served":
                found = [(str(one.text), 0) for one in outcomes if one.status != "skipped"]
                there = scaling.logits(torch.as_tensor(logits(service, found))).softmax(1)
                numbers["confidence[adversarial]"] = float(there.max(1).values.mean())
        margins = np.abs(clean[:, 1] - clean[:, 0])
        return numbers | {"margin": float(np.median(margins)), "attack_s": time.process_time() - began}

    def attack(self, service: ScoringService, scaling: Scaling) -> list[Outcome]:
        """Return how DeepWordBug ended on every attacked text, with the same draws for every model."""
        jobs = [
            Job(
                *(number, text, label, number, scaling.probabilities, self.recipe),
                common_random_numbers=True,
                edit_share=self.options.edit_share,
            )
            for number, (text, label) in enumerate(self.attacked)
        ]
        return attack_all(jobs, service, query_budget=self.options.query_budget)


def read(path: Path) -> Rows:
    """Return texts and labels of a JSON Lines file, packed or not."""
    packed = path.read_bytes()
    lines = (gzip.decompress(packed) if path.suffix == ".gz" else packed).decode().splitlines()
    return [(row["text"], int(row["label"])) for row in map(json.loads, lines)]


def balanced(rows: Rows, count: int) -> Rows:
    """Return the first texts of both classes in turn, ``count`` of them."""
    sides = [[row for row in rows if row[1] == label] for label in (0, 1)]
    return [row for pair in zip(*sides, strict=False) for row in pair][:count]


def columns(rows: Rows) -> tuple[list[str], list[int]]:
    """Return texts, and labels."""
    return [text for text, _ in rows], [label for _, label in rows]


def logits(service: ScoringService, rows: Rows) -> np.ndarray[Any, Any]:
    """Return logits (n, classes)."""
    texts = [text for text, _ in rows]
    return torch.stack(
        [answer for at in range(0, len(texts), BATCH) for answer in service.scores(texts[at : at + BATCH])]
    ).numpy()  # type: ignore[arg-type]


def broken(outcomes: Sequence[Outcome]) -> float:
    """Return the share of texts that are wrong after the attack, or were before."""
    return sum(one.status in {"succeeded", "skipped"} for one in outcomes) / len(outcomes)


TITLES = {
    "clean": ("clean", 100.0),
    "confidence[as_served]": ("confidence, clean", 100.0),
    "confidence[adversarial]": ("confidence, attacked", 100.0),
    "ece[as_served]": ("ECE", 100.0),
    "temperature": ("T fitted", 1.0),
    "adversarial[as_served]": ("DeepWordBug, as served", 100.0),
    "adversarial[calibrated]": ("DeepWordBug, calibrated", 100.0),
    "train_loss": ("training loss", 1.0),
}


def tables(cells: Cells, names: Sequence[str], seeds: Sequence[int]) -> str:
    """Return a row for every cell that is measured."""
    rows = [
        [name, *(format_cell(cells.values(name, seeds, number), times=times) for number, (_, times) in TITLES.items())]
        for name in names
        if cells.values(name, seeds, "clean")
    ]
    return table(["training", *(title for title, _ in TITLES.values())], rows)


def main() -> None:
    """Measure cell by cell, seed by seed, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--base", type=Path, help="Hugging Face folder of a pretrained encoder")
    parser.add_argument("--data", type=Path, help="folder of the texts")
    parser.add_argument("--dataset", default="rotten_tomatoes")
    parser.add_argument(
        "--hidden", type=int, help="dimensions of a CNN's embeddings, instead of the encoder's own layers"
    )
    parser.add_argument("--layers", type=int, default=2)
    parser.add_argument("--texts", type=int, default=2000, help="trained on")
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--batch", type=int, default=8)
    parser.add_argument("--rate", type=float, default=5e-4)
    parser.add_argument("--held-out", type=int, default=300, help="texts the temperature is fitted on")
    parser.add_argument("--tested", type=int, default=1000, help="texts of the clean accuracy")
    parser.add_argument("--attacked", type=int, default=100)
    parser.add_argument(
        "--edit-share", type=float, help="share of characters DeepWordBug may edit, instead of 30 edits"
    )
    parser.add_argument("--query-budget", type=int, default=500)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--cells", nargs="+", choices=[*CELLS], default=[*CELLS])
    parser.add_argument("--results", type=Path, required=True, help="JSON file of finished cells")
    parser.add_argument("--print", action="store_true", help="print the table of what is in the file")
    options = parser.parse_args()
    torch.set_num_threads(1)
    shared = (
        "hidden",
        "layers",
        "texts",
        "epochs",
        "batch",
        "rate",
        "held_out",
        "tested",
        "attacked",
        "edit_share",
        "query_budget",
    )
    cells = Cells(options.results, {name: getattr(options, name) for name in shared})
    if not options.print:
        with tempfile.TemporaryDirectory() as scratch:
            bench = Bench(options, Path(scratch))
            for seed in options.seeds:
                for name in options.cells:
                    cells.measure(name, seed, lambda name=name, seed=seed: bench.measure(CELLS[name], seed))
    print(tables(cells, options.cells, options.seeds))


if __name__ == "__main__":
    main()
