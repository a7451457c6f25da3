"""Training by the library against the same loop written by hand: ``python -m benchmarks.training``.

Both take the same steps on the same batches of the same network; the weights they end in are compared. Who goes first
alternates, and the ratio is the median over pairs. Seconds are the processor's, so that other work on the machine says
little.
"""

import argparse
import statistics
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from seatrial.contracts.training import methods
from workers.models.image_classifier import ImageClassifier
from workers.training.data import InMemory, epoch_order
from workers.training.engine import train
from workers.training.models import TrainableImages

EPSILON, STEPS = 0.1, 5
EXAMPLES, BATCH = 4096, 64


def network() -> nn.Module:
    """Return the small CNN of the demonstration's size, for 28x28 images."""
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Conv2d(1, 16, 4, stride=2, padding=1),
        nn.BatchNorm2d(16),
        nn.ReLU(),
        nn.Conv2d(16, 32, 4, stride=2, padding=1),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(32 * 49, 100),
        nn.ReLU(),
        nn.Linear(100, 10),
    )


def by_library(slug: str, body: dict[str, Any], data: InMemory) -> tuple[float, nn.Module]:
    """Return the seconds of the processor an epoch takes, validation on one batch included, and the module."""
    module = network()
    model = TrainableImages(
        ImageClassifier(
            module,
            labels=[str(k) for k in range(10)],
            input_shape=(1, 28, 28),
            mean=[0.0],
            std=[1.0],
            device=torch.device("cpu"),
        )
    )
    spec = methods()[slug]
    params = spec.params.model_validate({"method": slug, "epochs": 1, "batch_size": BATCH, "keep": "last", **body})
    method = spec.load()(params, model)
    few = InMemory(data.read(range(1)), data.labels[:1])
    start = time.process_time()
    train(model, method, params, data, few, seed=0)
    return time.process_time() - start, module


def by_hand(
    attack: Callable[[nn.Module, Tensor, Tensor], Tensor], rate: float, data: InMemory
) -> tuple[float, nn.Module]:
    """Return the same of a plain loop."""
    module = network().train()
    optimizer = torch.optim.SGD(module.parameters(), lr=rate, momentum=0.9)
    images, labels = data.inputs, torch.as_tensor(data.labels)
    assert isinstance(images, Tensor)
    start = time.process_time()
    order = torch.as_tensor(epoch_order(len(labels), 0, 0))
    for at in order.split(BATCH):
        x, y = images[at], labels[at]
        x = attack(module, x, y)
        optimizer.zero_grad()
        F.cross_entropy(module(x), y).backward()
        optimizer.step()
    return time.process_time() - start, module


def pgd(module: nn.Module, images: Tensor, labels: Tensor) -> Tensor:
    """Return images after PGD without a random start, in eval mode."""
    module.eval()
    for each in module.parameters():
        each.requires_grad_(False)
    low, high = (images - EPSILON).clamp(min=0), (images + EPSILON).clamp(max=1)
    found = images
    for _ in range(STEPS):
        found = found.detach().requires_grad_()
        (gradient,) = torch.autograd.grad(F.cross_entropy(module(found), labels, reduction="sum"), found)
        found = (found.detach() + 2.5 * EPSILON / STEPS * gradient.sign()).clamp(low, high)
    for each in module.parameters():
        each.requires_grad_(True)
    module.train()
    return found


CASES: dict[str, tuple[str, dict[str, Any], Callable[[nn.Module, Tensor, Tensor], Tensor]]] = {
    "cross-entropy": (
        "gradient_normalised",
        {"gradients": "plain", "optimizer": "sgd", "weight_decay": 0.0, "learning_rate": 0.01, "milestones": []},
        lambda module, images, labels: images,
    ),
    "PGD, 5 steps": (
        "adversarial",
        {"epsilon": EPSILON, "steps": STEPS, "random_start": False, "learning_rate": 0.01},
        pgd,
    ),
}


def main() -> None:
    """Print a line for each case."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pairs", type=int, default=9)
    parser.add_argument("--threads", type=int, default=1)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    draw = torch.Generator().manual_seed(0)
    data = InMemory(
        torch.rand(EXAMPLES, 1, 28, 28, generator=draw),
        torch.randint(10, (EXAMPLES,), generator=draw).numpy().astype(np.int64),
    )
    print(f"torch {torch.__version__}, {options.threads} thread(s), {EXAMPLES} images of 28x28 in batches of {BATCH}")
    for name, (slug, body, attack) in CASES.items():
        ratios, seconds = [], []
        for pair in range(options.pairs + 1):
            takes: dict[str, tuple[float, nn.Module]] = {}
            for who in ("ours", "hand") if pair % 2 else ("hand", "ours"):
                takes[who] = by_library(slug, body, data) if who == "ours" else by_hand(attack, 0.01, data)
            # The first pair warms up.
            if pair:
                ratios.append(takes["ours"][0] / takes["hand"][0])
                seconds.append((takes["hand"][0], takes["ours"][0]))
        apart = max(
            float((a - b).detach().abs().max())
            for a, b in zip(takes["ours"][1].parameters(), takes["hand"][1].parameters(), strict=True)
        )
        hand, ours = (statistics.median(column) for column in zip(*seconds, strict=True))
        print(
            f"{name}: by hand {hand:.3f} s, ours {ours:.3f} s, paired ratio {statistics.median(ratios):.3f} "
            f"({min(ratios):.3f} to {max(ratios):.3f}); weights apart by at most {apart:.1e}"
        )


if __name__ == "__main__":
    main()
