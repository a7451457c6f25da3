"""Hardening on a GPU, in float32 and in bfloat16, beside the CPU's: seconds, and what the networks then decide.

    make bench-gpu
    python -m benchmarks.gpu_training --device cpu

The library's own adversarial training (PGD of five steps at l_inf 0.1) of a small CNN on bundled digits enlarged to
28x28, from the same weights in the same order of batches. A line says seconds an epoch, the accuracy of held-out digits
before and under PGD of ten steps, and on how many held-out digits the network decides otherwise than the one trained on
the CPU. Roundings grow while a network is trained, so that decisions do differ: ends with status 1 where either
accuracy is lower than the CPU's by more than ``--apart``, and with status 2 where there is no GPU. bfloat16 is for
GPUs: on the CPU the library refuses it, and the line says so.
"""

import argparse
import copy
import sys
import time

import numpy as np
import torch
from torch import Tensor, nn

from benchmarks.cases import digits
from benchmarks.gpu import NO_GPU
from benchmarks.training import network
from seatrial.contracts.training import methods
from workers.attacks.pgd import PGD
from workers.attacks.robust_accuracy import robust_accuracy
from workers.errors import PreflightError
from workers.models.image_classifier import ImageClassifier
from workers.training.data import InMemory
from workers.training.engine import train
from workers.training.models import TrainableImages

EPSILON, HELD_OUT, BATCH = 0.1, 256, 64
PRECISIONS = ("float32", "bfloat16")


def hardened(module: nn.Module, data: InMemory, precision: str, device: torch.device, epochs: int) -> float:
    """Train a network in place; return the seconds an epoch took.

    Raises:
        PreflightError: The device has not that precision.
    """
    model = TrainableImages(
        ImageClassifier(
            module.to(device),
            labels=[str(k) for k in range(10)],
            input_shape=(1, 28, 28),
            mean=[0.0],
            std=[1.0],
            device=device,
        )
    )
    spec = methods()["adversarial"]
    body = {"epochs": epochs, "batch_size": BATCH, "epsilon": EPSILON, "steps": 5, "learning_rate": 0.05}
    params = spec.params.model_validate({"method": "adversarial", "keep": "last", "precision": precision, **body})
    few = InMemory(data.read(range(BATCH)), data.labels[:BATCH])
    began = time.perf_counter()
    train(model, spec.load()(params, model), params, data, few, seed=0)
    if device.type == "cuda":
        torch.cuda.synchronize()
    return (time.perf_counter() - began) / epochs


def decided(module: nn.Module, images: Tensor, labels: Tensor) -> tuple[Tensor, float, float]:
    """Return decisions (n,), accuracy, and accuracy under PGD, all computed on the CPU."""
    module.cpu().eval()
    with torch.no_grad():
        found = module(images).argmax(1)
    robust = robust_accuracy(PGD("linf", EPSILON, EPSILON / 4, 10), module, images, labels)
    return found, float((found == labels).float().mean()), float(robust.float().mean())


def main() -> None:
    """Print a line for the CPU, and one for each precision of the device."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--apart", type=float, default=0.05, help="accuracy that may be lost beside the CPU's")
    arguments = parser.parse_args()
    device = torch.device(arguments.device)
    if device.type == "cuda" and not torch.cuda.is_available():
        print("no GPU: torch finds none here, and nothing was measured", file=sys.stderr)
        sys.exit(NO_GPU)
    images, labels = digits((1, 28, 28))
    data = InMemory(images[HELD_OUT:], labels[HELD_OUT:].numpy().astype(np.int64))
    held_out = images[:HELD_OUT], labels[:HELD_OUT]
    where = torch.cuda.get_device_name(device) if device.type == "cuda" else "cpu"
    print(f"torch {torch.__version__}, {where}: {arguments.epochs} epochs of {len(data.labels)} digits by {BATCH}")
    untrained = network()
    reference = copy.deepcopy(untrained)
    seconds = hardened(reference, data, "float32", torch.device("cpu"), arguments.epochs)
    wanted, clean, robust = decided(reference, *held_out)
    print(f"{'cpu, float32':18} {seconds:7.3f} s an epoch  accuracy {clean:.3f}, under PGD {robust:.3f}", flush=True)
    lost = 0.0
    for precision in PRECISIONS:
        module = copy.deepcopy(untrained)
        try:
            seconds = hardened(module, data, precision, device, arguments.epochs)
        except PreflightError as refused:
            print(f"{device.type}, {precision}: {refused}")
            continue
        found, *accuracies = decided(module, *held_out)
        print(
            f"{f'{device.type}, {precision}':18} {seconds:7.3f} s an epoch  accuracy {accuracies[0]:.3f}, under PGD "
            f"{accuracies[1]:.3f}; decides otherwise than the CPU's on {int((found != wanted).sum())} of {HELD_OUT}",
            flush=True,
        )
        lost = max(lost, clean - accuracies[0], robust - accuracies[1])
    sys.exit(int(lost > arguments.apart))


if __name__ == "__main__":
    main()
