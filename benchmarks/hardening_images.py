"""Training methods for images beside the tables of papers 001 (Ledda et al.) and 004 (Emde et al. 2024).

    python -m benchmarks.hardening_images span --train train.npz --test test.npz --results span.json
    python -m benchmarks.hardening_images act --train train.npz --test test.npz --results act.json

span  A small CNN trained as usual, by PGD and by TRADES: clean accuracy, accuracy under PGD of 40 steps, and the
      mean span of uncertainty that the check `uncertainty_span` finds.
act   A CNN trained by SmoothAdv, and the same fine-tuned for as many epochs by further SmoothAdv (FT-AT), by Brier-ACT,
      and by ACCE-ACT with the paper's ADMM and with the exact worst case as adversary: what the check
      `certified_calibration` finds at each radius.

The .npz files hold `images` (uint8, 1x28x28) and `labels`. Every cell is one training of the library's own method from
the same weights for each seed; a finished cell is kept in the file, and not measured again.
"""

import argparse
import copy
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from benchmarks.hardening_cells import Cells, Numbers, format_cell, harden, table
from benchmarks.hardening_models import as_trainable, small_cnn
from seatrial.contracts.estimates import Result
from seatrial.families.certified_calibration.params import CertifiedCalibrationParams
from seatrial.families.uncertainty_span.params import UncertaintySpanParams
from tests.families.in_memory import Model, run_check
from workers.attacks.pgd import PGD
from workers.attacks.robust_accuracy import robust_accuracy
from workers.runtime.families import find_family

Data = tuple[Tensor, Tensor]
SIGMA = 0.5
RADII = (0.25, 0.5, 0.75, 1.0)
METRICS = {"certified_accuracy": "CA", "cce": "CCE exact", "acce": "ACCE (ADMM)", "cbs": "CBS", "ece": "ECE"}
SPANS = {
    "clean": "clean",
    "robust": "PGD-40",
    "mus": "MUS",
    "confidence": "confidence",
}


class Bench:
    """Digits to train on and to test on."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.options = options
        self.train = tuple(part[: options.images] for part in read(options.train))
        test, at = read(options.test), np.random.default_rng(0).permutation(2000)
        self.held_out: Data = (test[0][at[:100]], test[1][at[:100]])
        self.test: Data = (test[0][at[100:]], test[1][at[100:]])
        self.bases: dict[int, nn.Module] = {}

    def fit(self, module: nn.Module, slug: str, body: dict[str, Any], seed: int) -> tuple[nn.Module, Numbers]:
        """Train a network in place; return it and how that went."""
        began = time.process_time()
        outcome = harden(as_trainable(module), slug, body, self.train, self.held_out, seed=seed)
        losses = outcome.curves[0]["train_loss"], outcome.curves[-1]["train_loss"]
        return module, {"first_loss": losses[0], "train_loss": losses[1], "train_s": time.process_time() - began}

    def first(self, count: int) -> Data:
        """Return so many test images."""
        return self.test[0][:count], self.test[1][:count]

    # 001: the span of uncertainty

    def span(self, name: str, seed: int) -> Numbers:
        """Train, then measure accuracies and spans."""
        options = self.options
        slug, body = SPAN_CELLS[name]
        ball = {} if slug == "gradient_normalised" else {"epsilon": options.epsilon, "steps": options.steps}
        module, numbers = self.fit(
            small_cnn(seed).module,
            slug,
            {"epochs": options.epochs, "batch_size": 64, "learning_rate": 0.05, "optimizer": "sgd"} | body | ball,
            seed,
        )
        with torch.no_grad():
            logits = module(self.test[0])
        numbers |= {
            "clean": float((logits.argmax(1) == self.test[1]).float().mean()),
            "confidence": float(logits.softmax(1).max(1).values.mean()),
        }
        params = UncertaintySpanParams(
            kind="uncertainty_span", epsilon=options.epsilon, steps=options.span_steps, effort="quick"
        )
        result = self.check(module, params, options.checked)
        attack = PGD("linf", options.epsilon, options.epsilon / 10, 40)
        numbers["robust"] = float(robust_accuracy(attack, module, *self.first(options.attacked)).float().mean())
        return numbers | values(result, ("mus",))

    # 004: certified calibration

    def base(self, seed: int) -> nn.Module:
        """Return the network that SmoothAdv has trained."""
        if seed not in self.bases:
            options = self.options
            body = {"epochs": options.epochs, "batch_size": 64, "learning_rate": 0.05, "warmup_epochs": 2}
            self.bases[seed], _ = self.fit(small_cnn(seed).module, "smoothadv", body | self.noise(), seed)
        return copy.deepcopy(self.bases[seed])

    def noise(self) -> dict[str, Any]:
        """Return the parameters that all smoothed trainings share."""
        return {"sigma": SIGMA, "epsilon": self.options.radius, "steps": 2, "draws": 2}

    def act(self, name: str, seed: int) -> Numbers:
        """Train or fine-tune, then certify."""
        options, numbers = self.options, {}
        module = self.base(seed)
        if name != "SmoothAdv":
            slug, body = ACT_CELLS[name]
            same = {
                "epochs": options.finetuned,
                "batch_size": options.batch,
                "learning_rate": options.rate,
                "milestones": [max(1, options.finetuned // 2)],
                "warmup_epochs": 1,
            }
            module, numbers = self.fit(module, slug, same | self.noise() | body, seed)
        began = time.process_time()
        params = CertifiedCalibrationParams(
            kind="certified_calibration",
            sigma=SIGMA,
            n0=50,
            n=options.draws,
            radii=[0.0, *RADII],
            solvers=["exact", "admm"] if options.admm else ["exact"],
        )
        result = self.check(module.eval().requires_grad_(False), params, options.certified)
        names = [f"{metric}[radius={radius:g}]" for metric in METRICS for radius in (0.0, *RADII)]
        return numbers | values(result, ["ece", *names]) | {"certify_s": time.process_time() - began}

    def check(self, module: nn.Module, params: Any, count: int) -> Result:
        """Run a whole check in memory."""
        module.eval().requires_grad_(False)
        result, _ = run_check(find_family(params.kind), params, Model(module, 10), self.first(count), batch_size=50)
        return result


PLAIN = {"gradients": "plain", "weight_decay": 0.0, "milestones": []}
SPAN_CELLS: dict[str, tuple[str, dict[str, Any]]] = {
    "as usual": ("gradient_normalised", PLAIN),
    "PGD": ("adversarial", {}),
    "TRADES": ("adversarial", {"loss": "trades"}),
}
ACT_CELLS: dict[str, tuple[str, dict[str, Any]]] = {
    "SmoothAdv": ("", {}),
    "further SmoothAdv": ("smoothadv", {}),
    "Brier-ACT": ("brier_act", {}),
    "ACCE-ACT, ADMM": ("acce_act", {}),
    "ACCE-ACT, exact": ("acce_act", {"inner": "exact"}),
}


def read(path: Path) -> Data:
    """Return images (n, 1, 28, 28) in [0, 1] and labels."""
    arrays = np.load(path)
    return torch.tensor(arrays["images"]).float() / 255, torch.tensor(arrays["labels"]).long()


def values(result: Result, names: Sequence[str]) -> Numbers:
    """Return those estimates that have a value."""
    found = {name: result.estimates[name].value for name in names if name in result.estimates}
    return {name: float(value) for name, value in found.items() if value is not None}


def span_table(cells: Cells, seeds: Sequence[int]) -> str:
    """Return a row for every training."""
    times = {name: 1.0 if name.startswith("mus") else 100.0 for name in SPANS}
    rows = [
        [
            name,
            *(
                format_cell(
                    cells.values(name, seeds, number), times=times[number], digits=3 if times[number] == 1 else 1
                )
                for number in SPANS
            ),
        ]
        for name in SPAN_CELLS
    ]
    return table(["training", *SPANS.values()], rows)


def act_table(cells: Cells, seeds: Sequence[int]) -> str:
    """Return a row for every metric and training, a column for every radius."""
    rows = [
        [
            title,
            name,
            *(format_cell(cells.values(name, seeds, f"{metric}[radius={radius:g}]")) for radius in (0.0, *RADII)),
        ]
        for metric, title in METRICS.items()
        for name in ACT_CELLS
        if cells.values(name, seeds, f"{metric}[radius={RADII[0]:g}]")
    ]
    return table(["", "training", *(f"r = {radius:g}" for radius in (0.0, *RADII))], rows)


def main() -> None:
    """Measure cell by cell, seed by seed, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("part", choices=["span", "act"])
    parser.add_argument("--train", type=Path)
    parser.add_argument("--test", type=Path)
    parser.add_argument("--images", type=int, default=5000, help="trained on")
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--epsilon", type=float, default=0.1, help="l_inf radius of adversarial training and spans")
    parser.add_argument("--steps", type=int, default=5, help="of the attack in training")
    parser.add_argument("--span-steps", type=int, default=50)
    parser.add_argument("--checked", type=int, default=100, help="test images whose span is measured")
    parser.add_argument("--attacked", type=int, default=400, help="test images attacked by PGD")
    parser.add_argument("--radius", type=float, default=0.5, help="l_2 radius of SmoothAdv's attack")
    parser.add_argument("--finetuned", type=int, default=6, help="epochs of fine-tuning")
    parser.add_argument("--batch", type=int, default=500, help="of fine-tuning")
    parser.add_argument("--rate", type=float, default=0.02, help="learning rate of fine-tuning")
    parser.add_argument("--draws", type=int, default=1000, help="noisy copies a certificate rests on")
    parser.add_argument("--certified", type=int, default=300, help="test images certified")
    parser.add_argument("--admm", action="store_true", help="the paper's solver beside the exact one")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--results", type=Path, required=True, help="JSON file of finished cells")
    parser.add_argument("--print", action="store_true", help="print the table of what is in the file")
    options = parser.parse_args()
    torch.set_num_threads(1)
    left_out = {"train", "test", "seeds", "results", "print"}
    cells = Cells(options.results, {name: value for name, value in vars(options).items() if name not in left_out})
    names, show = (SPAN_CELLS, span_table) if options.part == "span" else (ACT_CELLS, act_table)
    if not options.print:
        bench = Bench(options)
        work = bench.span if options.part == "span" else bench.act
        for seed in options.seeds:
            for name in names:
                cells.measure(name, seed, lambda name=name, seed=seed: work(name, seed))
    print(show(cells, options.seeds))


if __name__ == "__main__":
    main()
