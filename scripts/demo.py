"""Three classifiers of handwritten digits, audited over HTTP: an ordinary one, the same behind a mask, a robust one.

The mask leaves the ordinary model as fragile as it was and takes the attacker's eyes away: plain PGD calls it robust.
Starts a service of its own in .demo/, trains and uploads the models, follows the audits, prints a comparison and writes
the HTML reports. Needs no network and ends with status 0 when every check succeeded.
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
from rich.console import Console
from rich.table import Table
from safetensors.torch import save_file
from sklearn.datasets import load_digits
from torch import Tensor, nn

from app.cli.audits import progress_display
from seatrial.client import Client
from seatrial.contracts.audits import AuditRead

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
CHECK = {"kind": "uncertainty_span", "norm": "linf", "epsilon": EPSILON, "steps": 40}
POLICY = {"name": "demo", "rules": [{"metric": "uncertainty_span.mus_worst", "max": 0.75}]}

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
class Trained:
    """A model to audit: its weights, its layers, and the accuracy that plain PGD leaves it."""

    weights: Path
    layers: list[list[Any]]
    under_pgd: float


def make_assets(folder: Path) -> tuple[dict[str, Trained], Path, Path]:
    """Train the models and write them, the held-out digits and a set of outliers; return the models and the paths."""
    digits = load_digits()
    pixels = (digits.images * 255 / 16).round().astype(np.uint8)[:, None]
    images, labels = torch.tensor(pixels).float() / 255, torch.tensor(digits.target).long()
    shuffled = np.random.default_rng(0).permutation(len(images))
    seen, held_out = shuffled[:TRAINING_DIGITS], shuffled[TRAINING_DIGITS:]
    began = time.monotonic()
    ordinary = train(images[seen], labels[seen], epochs=20, is_adversarial=False)
    robust = train(images[seen], labels[seen], epochs=30, is_adversarial=True)
    console.print(f"Trained the ordinary and the adversarial model in {time.monotonic() - began:.0f} s.")
    trained = {}
    for name, model, layers in (
        ("ordinary", ordinary, LAYERS),
        ("masked", masked(ordinary), MASK + LAYERS),
        ("adversarial", robust, LAYERS),
    ):
        attacked = adversarial(model, images[held_out], labels[held_out], steps=40)
        with torch.no_grad():
            under_pgd = (model(attacked).argmax(1) == labels[held_out]).float().mean().item()
        trained[name] = Trained(folder / f"{name}.safetensors", layers, under_pgd)
        save_file(model.state_dict(), trained[name].weights)
    data = folder / "digits.npz"
    np.savez(data, images=pixels[held_out], labels=digits.target[held_out])
    # Digits with their rows shuffled: the same grey values, no digit any more.
    rows = np.random.default_rng(1).permuted(np.arange(8)[None].repeat(200, 0), axis=1)
    outliers = folder / "shuffled.npz"
    np.savez(
        outliers,
        images=np.take_along_axis(pixels[held_out][:200], rows[:, None, :, None], axis=2),
        labels=digits.target[held_out][:200],
    )
    return trained, data, outliers


def comparison(trained: dict[str, Trained], audits: dict[str, AuditRead]) -> Table:
    """Return the models side by side."""
    rows = {
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
        "outlier AUROC, unattacked": "auroc[epsilon=0]",
        f"outlier AUROC, attacked at {EPSILON:g}": f"auroc[epsilon={EPSILON:g}]",
    }
    table = side_by_side(f"uncertainty_span, l_inf {EPSILON:g}, 95% intervals", rows, audits)
    table.add_row("accuracy left by plain PGD", *(f"{trained[name].under_pgd:.3f}" for name in audits))
    table.add_row("verdict", *(audit.verdict or "-" for audit in audits.values()))
    return table


def main() -> int:
    """Run the demo and return its exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--home", type=Path, default=ROOT / ".demo", help="folder for everything; emptied first")
    home = parser.parse_args().home.absolute()
    # Networks as small as these are slower on two threads than on one, and much slower where a core is busy otherwise.
    torch.set_num_threads(1)
    os.environ.setdefault("SEATRIAL_TORCH_THREADS", "1")
    began = time.monotonic()
    empty_home(home)
    with service(home) as url, Client(url) as client:
        console.print(f"The service listens on {url}; its log is {home / 'service.log'}.")
        trained, data, outliers = make_assets(home)
        dataset = client.add_dataset(data, {"name": "digits", "version": "1", "task": "image-classification"})
        others = client.add_dataset(outliers, {"name": "shuffled", "version": "1", "task": "image-classification"})
        check = {**CHECK, "outliers": {"dataset": others.id, "kind": "ood", "epsilons": [EPSILON]}}
        audits = {}
        for name, made in trained.items():
            model = client.add_model(made.weights, manifest(f"digits-{name}", made.layers))
            submitted = client.submit(model.id, dataset.id, [check], samples=SAMPLES, policy=POLICY)
            console.print(f"Auditing {model.name}: {submitted.id}")
            with progress_display() as show:
                audits[name] = client.wait(submitted.id, progress=show, until_judged=True)
            report = home / "reports" / f"{name}.html"
            report.write_bytes(client.report(submitted.id))
    console.print(comparison(trained, audits))
    for name in audits:
        console.print(f"Report: {home / 'reports' / f'{name}.html'}", soft_wrap=True, highlight=False)
    console.print(f"Done in {time.monotonic() - began:.0f} s. `make serve` keeps a service running.")
    return tell_failures(console, audits)


if __name__ == "__main__":
    sys.exit(main())
