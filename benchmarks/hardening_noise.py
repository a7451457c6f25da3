"""Training on noise beside Tables 7 to 10 of paper 002 (Eger and Benz 2020): whose noise helps against whom.

    python -m benchmarks.hardening_noise --base MINILM --data FOLDER --results noise.json

For every attacker one model is trained on its noise alone (1-1), and one on that of all ten but it (leave one out), by
the library's `noise_mix`, and one on clean texts, from the same weights for each seed. Printed is Delta_tau in points:
accuracy under an attacker's noise less that of the model of clean texts, mean over the levels 0.2, 0.5 and 0.8. The
model is the CNN of `benchmarks.hardening_texts`, which says what MINILM and FOLDER are. A finished cell is kept in the
file, and not measured again.
"""

import argparse
import random
import statistics
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch

from benchmarks.hardening_cells import Cells, Numbers, format_cell, harden, table
from benchmarks.hardening_models import text_cnn
from benchmarks.hardening_texts import CACHE_BYTES, Rows, balanced, columns, logits, read
from seatrial.contracts.noise import ATTACKERS, Noise
from seatrial.hardening.texts import LEVELS
from seatrial.noise.copies import noisy_copy
from seatrial.noise.lexicons import Lexicons
from seatrial.noise.perturbing import Perturber
from workers.attacks.text.scoring import ScoringService

CLEAN = "clean texts"
ALONE, OUT = "on {} alone", "on all but {}"


class Bench:
    """Texts to train on, and noisy copies of others."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.options = options
        self.train = balanced(read(options.data / "rotten_tomatoes.train.jsonl.gz"), options.texts)
        self.validation = balanced(read(options.data / "rotten_tomatoes.validation.jsonl"), 64)
        self.test = balanced(read(options.data / "rotten_tomatoes.test.jsonl"), options.tested)
        self.noisy = {
            (attacker, level): self.copies(attacker, level) for attacker in options.attackers for level in LEVELS
        }

    def copies(self, attacker: str, level: float) -> Rows:
        """Return the test texts with an attacker's noise, the same for every model."""
        perturber, draw = Perturber(attacker, Noise(), Lexicons(None)), random.Random(f"{attacker} {level}")
        return [(noisy_copy(perturber, (text,), level, draw).parts[0], label) for text, label in self.test]

    def measure(self, name: str, seed: int) -> Numbers:
        """Train, then ask for every noisy copy."""
        options, began = self.options, time.process_time()
        texts = [text for text, _ in self.train]
        model = text_cnn(options.base, texts, hidden=options.hidden, classes=2, seed=seed)
        body = {"epochs": options.epochs, "batch_size": options.batch, "learning_rate": options.rate}
        body["milestones"] = [max(1, round(0.6 * options.epochs))]
        slug, more = "gradient_normalised", {"gradients": "plain"}
        for mix, pattern in (("one_to_one", ALONE), ("leave_one_out", OUT)):
            for attacker in options.attackers:
                if name == pattern.format(attacker):
                    slug, more = "noise_mix", {"mix": mix, "attacker": attacker}
        harden(model, slug, body | more, columns(self.train), columns(self.validation), seed=seed)
        service = ScoringService(model.classifier, max_bytes=CACHE_BYTES)
        numbers = {"clean": accuracy(service, self.test)}
        for (attacker, level), rows in self.noisy.items():
            numbers[f"{attacker} {level:g}"] = accuracy(service, rows)
        return numbers | {"seconds": time.process_time() - began}


def accuracy(service: ScoringService, rows: Rows) -> float:
    """Return the share of texts that are right."""
    return float((logits(service, rows).argmax(1) == np.array([label for _, label in rows])).mean())


def improvements(cells: Cells, name: str, attacker: str, seeds: Sequence[int]) -> list[float]:
    """Return Delta_tau for each seed that both models have: the mean over levels, as a share."""
    found = []
    for seed in seeds:
        pairs = [
            (cells.values(name, [seed], f"{attacker} {level:g}"), cells.values(CLEAN, [seed], f"{attacker} {level:g}"))
            for level in LEVELS
        ]
        if all(ours and theirs for ours, theirs in pairs):
            found.append(statistics.fmean(ours[0] - theirs[0] for ours, theirs in pairs))
    return found


def tables(cells: Cells, attackers: Sequence[str], seeds: Sequence[int]) -> str:
    """Return the clean models' accuracies and every model's improvements: trained in rows, tested in columns."""
    unshielded = [
        [
            f"accuracy at {level:g}",
            "",
            *(format_cell(cells.values(CLEAN, seeds, f"{one} {level:g}")) for one in attackers),
        ]
        for level in LEVELS
    ]
    rows = [
        [
            name,
            format_cell(cells.values(name, seeds, "clean")),
            *(format_cell(improvements(cells, name, one, seeds)) for one in attackers),
        ]
        for pattern in (ALONE, OUT)
        for name in map(pattern.format, attackers)
        if cells.values(name, seeds, "clean")
    ]
    clean = [CLEAN, format_cell(cells.values(CLEAN, seeds, "clean")), *[""] * len(attackers)]
    means = []
    for title, pattern, same in (
        ("1-1, own noise", ALONE, True),
        ("1-1, others'", ALONE, False),
        ("left out", OUT, True),
    ):
        means.append([title, format_cell(averages(cells, pattern, same, attackers, seeds))])
    body = table(["trained", "clean accuracy", *attackers], [clean, *unshielded, *rows])
    return body + "\n\n" + table(["defence (Table 3)", "mean Delta_tau"], means)


def averages(cells: Cells, pattern: str, same: bool, attackers: Sequence[str], seeds: Sequence[int]) -> list[float]:
    """Return, for each seed, the mean improvement over trainings tested on their own attacker, or on all others."""
    found = []
    for seed in seeds:
        values = [
            value
            for trained in attackers
            for tested in attackers
            if (trained == tested) == same
            for value in improvements(cells, pattern.format(trained), tested, [seed])
        ]
        if values:
            found.append(statistics.fmean(values))
    return found


def main() -> None:
    """Measure cell by cell, seed by seed, and print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--base", type=Path, help="Hugging Face folder of a pretrained encoder")
    parser.add_argument("--data", type=Path, help="folder of the texts")
    parser.add_argument("--attackers", nargs="+", choices=ATTACKERS, default=list(ATTACKERS))
    parser.add_argument("--hidden", type=int, default=64)
    parser.add_argument("--texts", type=int, default=2000, help="trained on")
    parser.add_argument("--epochs", type=int, default=4)
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--rate", type=float, default=2e-3)
    parser.add_argument("--tested", type=int, default=400, help="texts of every accuracy")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--results", type=Path, required=True, help="JSON file of finished cells")
    parser.add_argument("--print", action="store_true", help="print the table of what is in the file")
    options = parser.parse_args()
    torch.set_num_threads(1)
    shared = ("attackers", "hidden", "texts", "epochs", "batch", "rate", "tested")
    cells = Cells(options.results, {name: getattr(options, name) for name in shared})
    names = [CLEAN, *(pattern.format(one) for one in options.attackers for pattern in (ALONE, OUT))]
    if not options.print:
        bench = Bench(options)
        for seed in options.seeds:
            for name in names:
                cells.measure(name, seed, lambda name=name, seed=seed: bench.measure(name, seed))
    print(tables(cells, options.attackers, options.seeds))


if __name__ == "__main__":
    main()
