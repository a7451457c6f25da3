"""Three classifiers of handwritten digits, audited over HTTP: an ordinary one, the same behind a mask, a robust one.

The mask leaves the ordinary model as fragile as it was and takes the attacker's eyes away: plain PGD calls it robust.
In the last act the service hardens the ordinary model, which had failed, and audits both versions in pairs. Starts a
service of its own in .demo/, trains and uploads the models, follows the audits, prints comparisons and writes the HTML
reports. Needs no network and ends with status 0 when every check succeeded and the hardened model passes.
"""

import argparse
import os
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from local_service import empty_home, service, side_by_side, tell_failures
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table
from safetensors.torch import save_file
from sklearn.datasets import load_digits
from torch import Tensor, nn

from app.cli.audits import progress_display
from seatrial.client import Client
from seatrial.contracts.audits import AuditRead
from seatrial.contracts.hardenings import HardeningRead
from seatrial.contracts.states import RunState

ROOT = Path(__file__).resolve().parents[1]
EPSILON = 0.15
TRAINING_DIGITS = 1200
SAMPLES = 400
LAYERS: list[list[Any]] = [
    ["conv", 1, 32, 3, 1, 1],
    ["relu"],
    ["conv", 32, 64, 3, 2, 1],
    ["relu"],
    ["flatten"],
    ["linear", 1024, 64],
    ["relu"],
    ["linear", 64, 10],
]
# Of the mask: how many stairs, how steep a tread, and which part of a stair leads up to the next.
STAIRS, TREAD, RISER = 16, -0.5, 0.1
MASK: list[list[Any]] = [["conv", 1, 2 * STAIRS, 1, 1, 0], ["relu"], ["conv", 2 * STAIRS, 1, 1, 1, 0]]
CHECK = {"kind": "uncertainty_span", "norm": "linf", "epsilon": EPSILON, "steps": 100}
POLICY = {"name": "demo", "rules": [{"metric": "uncertainty_span.mus_worst", "max": 0.8}]}
HARDENING = {
    "epsilon": EPSILON,
    "steps": 5,
    "epochs": 30,
    "batch_size": 100,
    "optimizer": "adamw",
    "learning_rate": 2e-3,
}
ROWS = {
    "clean accuracy": "clean_accuracy",
    "uncertainty span, the paper's attacks (nat)": "mus",
    "uncertainty span, all attacks (nat)": "mus_worst",
    "entropy, unattacked": "entropy[arm=clean]",
    "entropy, over-confidence attack": "entropy[arm=over]",
    "entropy, under-confidence attack": "entropy[arm=under]",
    "ECE, unattacked": "ece[arm=clean]",
    "ECE, over-confidence attack": "ece[arm=over]",
    "ECE, under-confidence attack": "ece[arm=under]",
    "signed ECE, over-confidence attack": "s_ece[arm=over]",
    "signed ECE, under-confidence attack": "s_ece[arm=under]",
}
OUTLIER_ROWS = {
    "outlier AUROC, unattacked": "auroc[epsilon=0]",
    f"outlier AUROC, attacked at {EPSILON:g}": f"auroc[epsilon={EPSILON:g}]",
}

console = Console(width=None if sys.stdout.isatty() else 110)


def network() -> nn.Sequential:
    """Return the untrained network of ``LAYERS``."""
    make = {"conv": nn.Conv2d, "relu": nn.ReLU, "flatten": nn.Flatten, "linear": nn.Linear}
    return nn.Sequential(*(make[name](*numbers) for name, *numbers in LAYERS))


def masked(model: nn.Sequential) -> nn.Sequential:
    """Return the model behind stairs: two 1x1 convolutions round each pixel to one of STAIRS values, nearly.

    A step up lies between any two treads, and the treads slope gently downwards, so that almost every gradient points
    the wrong way. Whatever moves the model behind them by more than a tread moves it as before.
    """
    knots = [(step + part) / STAIRS for step in range(STAIRS) for part in (0.0, 1 - RISER)]
    slopes = torch.tensor([TREAD, (1 - TREAD * (1 - RISER)) / RISER] * STAIRS)
    stairs = nn.Sequential(nn.Conv2d(1, len(knots), 1), nn.ReLU(), nn.Conv2d(len(knots), 1, 1))
    stairs[0].weight.data.fill_(1.0)
    stairs[0].bias.data.copy_(-torch.tensor(knots))
    stairs[2].weight.data.copy_(torch.diff(slopes, prepend=torch.zeros(1)).view(1, -1, 1, 1))
    stairs[2].bias.data.zero_()
    return nn.Sequential(*stairs, *model)


def adversarial(model: nn.Module, images: Tensor, labels: Tensor, steps: int = 5) -> Tensor:
    """Return images (batch, 1, 8, 8) within EPSILON (l_inf) that raise the loss: PGD from a random start."""
    moved = (images + torch.empty_like(images).uniform_(-EPSILON, EPSILON)).clamp(0, 1)
    for _ in range(steps):
        moved.requires_grad_(True)
        (slope,) = torch.autograd.grad(nn.functional.cross_entropy(model(moved), labels), moved)
        moved = moved.detach() + 2.5 * EPSILON / steps * slope.sign()
        moved = torch.clamp(torch.minimum(torch.maximum(moved, images - EPSILON), images + EPSILON), 0, 1)
    return moved.detach()


def train(images: Tensor, labels: Tensor, *, epochs: int, is_adversarial: bool) -> nn.Sequential:
    """Return a network trained on the digits, or on the worst digits near them."""
    torch.manual_seed(0)
    model = network()
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    for _ in range(epochs):
        for batch in torch.randperm(len(images)).split(100):
            inputs = adversarial(model, images[batch], labels[batch]) if is_adversarial else images[batch]
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(inputs), labels[batch]).backward()
            optimizer.step()
    return model.eval()


def manifest(name: str, layers: list[list[Any]]) -> dict[str, Any]:
    """Return what the service must be told about the weights."""
    return {
        "name": name,
        "version": "1",
        "task": "image-classification",
        "architecture": {"kind": "layers", "layers": layers},
        "input": {"shape": [1, 8, 8], "mean": [0.0], "std": [1.0]},
        "labels": [str(digit) for digit in range(10)],
    }


@dataclass(frozen=True)
class Digits:
    """Handwritten digits, split.

    Attributes:
        pixels: (n, 1, 8, 8) uint8.
        labels: (n,).
        seen: Positions trained on.
        held_out: Positions audited on.
    """

    pixels: NDArray[np.uint8]
    labels: NDArray[np.int64]
    seen: NDArray[np.int64]
    held_out: NDArray[np.int64]

    def tensors(self, positions: NDArray[np.int64]) -> tuple[Tensor, Tensor]:
        """Return images in [0, 1] and their labels."""
        return torch.tensor(self.pixels[positions]).float() / 255, torch.tensor(self.labels[positions]).long()

    def save(self, positions: NDArray[np.int64], file: Path) -> Path:
        """Write digits as a dataset the service takes."""
        np.savez(file, images=self.pixels[positions], labels=self.labels[positions])
        return file


def read_digits() -> Digits:
    """Return scikit-learn's digits, shuffled."""
    digits = load_digits()
    pixels = (digits.images * 255 / 16).round().astype(np.uint8)[:, None]
    shuffled = np.random.default_rng(0).permutation(len(pixels))
    return Digits(pixels, digits.target, shuffled[:TRAINING_DIGITS], shuffled[TRAINING_DIGITS:])


def save_outliers(digits: Digits, file: Path) -> Path:
    """Write digits with their rows shuffled: the same grey values, no digit any more."""
    some = digits.held_out[:200]
    rows = np.random.default_rng(1).permuted(np.arange(8)[None].repeat(len(some), 0), axis=1)
    images = np.take_along_axis(digits.pixels[some], rows[:, None, :, None], axis=2)
    np.savez(file, images=images, labels=digits.labels[some])
    return file


@dataclass(frozen=True)
class Trained:
    """A model to audit: its weights, its layers, and the accuracy that plain PGD leaves it."""

    weights: Path
    layers: list[list[Any]]
    under_pgd: float


def save_model(model: nn.Sequential, layers: list[list[Any]], digits: Digits, file: Path) -> Trained:
    """Write a model's weights and attack it by plain PGD."""
    images, labels = digits.tensors(digits.held_out)
    attacked = adversarial(model, images, labels, steps=40)
    with torch.no_grad():
        under_pgd = (model(attacked).argmax(1) == labels).float().mean().item()
    save_file(model.state_dict(), file)
    return Trained(file, layers, under_pgd)


def train_models(digits: Digits, folder: Path, *, is_ordinary_only: bool) -> dict[str, Trained]:
    """Train the models and write them."""
    images, labels = digits.tensors(digits.seen)
    began = time.monotonic()
    ordinary = train(images, labels, epochs=20, is_adversarial=False)
    made = {"ordinary": (ordinary, LAYERS)}
    if not is_ordinary_only:
        robust = train(images, labels, epochs=30, is_adversarial=True)
        made |= {"masked": (masked(ordinary), MASK + LAYERS), "adversarial": (robust, LAYERS)}
    console.print(f"Trained what is audited in {time.monotonic() - began:.0f} s.")
    return {
        name: save_model(model, layers, digits, folder / f"{name}.safetensors")
        for name, (model, layers) in made.items()
    }


def audit_models(
    client: Client, trained: dict[str, Trained], models: dict[str, str], dataset: str, outliers: Path
) -> dict[str, AuditRead]:
    """Audit the models one after the other and return the audits."""
    others = client.add_dataset(outliers, {"name": "shuffled", "version": "1", "task": "image-classification"})
    check = {**CHECK, "outliers": {"dataset": others.id, "kind": "ood", "epsilons": [EPSILON]}}
    audits = {}
    for name in trained:
        submitted = client.submit(models[name], dataset, [check], samples=SAMPLES, policy=POLICY)
        console.print(f"Auditing digits-{name}: {submitted.id}")
        with progress_display() as show:
            audits[name] = client.wait(submitted.id, progress=show, until_judged=True)
    return audits


def comparison(trained: dict[str, Trained], audits: dict[str, AuditRead]) -> Table:
    """Return the models side by side."""
    table = side_by_side(f"uncertainty_span, l_inf {EPSILON:g}, 95% intervals", {**ROWS, **OUTLIER_ROWS}, audits)
    table.add_row("accuracy left by plain PGD", *(f"{trained[name].under_pgd:.3f}" for name in audits))
    table.add_row("verdict", *(audit.verdict or "-" for audit in audits.values()))
    return table


def harden(client: Client, model: str, training: str, dataset: str) -> HardeningRead:
    """Have the service train a model against PGD and audit both versions on the same digits."""
    audit = {"dataset": dataset, "checks": [CHECK], "samples": SAMPLES, "policy": POLICY}
    submitted = client.harden(model, training, "adversarial", audit, params=HARDENING)
    console.print(f"Hardening it: {submitted.id}")
    with console.status("") as status:
        return client.wait_hardening(submitted.id, progress=lambda made: status.update(said(made)))


def said(made: HardeningRead) -> str:
    """Return how far a hardening is."""
    at = made.progress
    epoch = "" if at is None or made.stage != "training" else f", epoch {at.epoch} of {at.epochs}"
    return f"{made.stage}{epoch}"


def versions(client: Client, made: HardeningRead) -> tuple[dict[str, AuditRead], Table]:
    """Return the audits of a hardening's pair, and both versions side by side."""
    pair = {"as it was": made.audit_before, "hardened": made.audit_after}
    audits = {name: client.audit(audit) for name, audit in pair.items() if audit is not None}
    table = side_by_side("the ordinary model, hardened, 95% intervals", ROWS, audits)
    # Neither was judged by itself; the hardening's verdict is that of the new version against the one before.
    was = "-" if made.audit_before is None else client.judge(made.audit_before, POLICY).verdict
    table.add_row("verdict", was, made.verdict or "-")
    return audits, table


def main() -> int:
    """Run the demo and return its exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--home", type=Path, default=ROOT / ".demo", help="folder for everything; emptied first")
    parser.add_argument("--only-harden", action="store_true", help="only the last act: the ordinary model is hardened")
    options = parser.parse_args()
    home = options.home.absolute()
    # Networks as small as these are slower on two threads than on one, and much slower where a core is busy otherwise.
    torch.set_num_threads(1)
    os.environ.setdefault("SEATRIAL_TORCH_THREADS", "1")
    began = time.monotonic()
    empty_home(home)
    reports: dict[str, bytes] = {}
    with service(home) as url, Client(url) as client:
        console.print(f"The service listens on {url}; its log is {home / 'service.log'}.")
        digits = read_digits()
        trained = train_models(digits, home, is_ordinary_only=options.only_harden)
        about = {"version": "1", "task": "image-classification"}
        dataset = client.add_dataset(digits.save(digits.held_out, home / "digits.npz"), {"name": "digits", **about}).id
        models = {
            name: client.add_model(made.weights, manifest(f"digits-{name}", made.layers)).id
            for name, made in trained.items()
        }
        audits = {}
        if not options.only_harden:
            outliers = save_outliers(digits, home / "shuffled.npz")
            audits = audit_models(client, trained, models, dataset, outliers)
            console.print(comparison(trained, audits))
            reports |= {name: client.report(audit.id) for name, audit in audits.items()}
        seen = digits.save(digits.seen, home / "training.npz")
        training = client.add_dataset(seen, {"name": "digits-training", "split": "train", **about}).id
        made = harden(client, models["ordinary"], training, dataset)
        if made.state != RunState.SUCCEEDED:
            console.print(f"The hardening {made.state}: {made.error.detail if made.error else 'no reason was given'}")
            return 1
        pair, table = versions(client, made)
        console.print(table)
        reports["hardening"] = client.hardening_report(made.id)
    for name, report in reports.items():
        path = home / "reports" / f"{name}.html"
        path.write_bytes(report)
        console.print(f"Report: {path}", soft_wrap=True, highlight=False)
    console.print(made.result.summary if made.result else "The versions were not compared.")
    console.print(f"Done in {time.monotonic() - began:.0f} s. `make serve` keeps a service running.")
    return tell_failures(console, audits | pair) or int(made.verdict != "passed")


if __name__ == "__main__":
    sys.exit(main())
