"""The image engine's halves that a GPU runs, each beside the CPU's numbers and the GPU's measured peak of products.

    make bench-gpu
    python -m benchmarks.gpu --device cpu

First the peak: the fastest of square products of matrices in float32 (without TF32) and in bfloat16, in FLOP/s. Then,
on the networks of :mod:`benchmarks.cases`: forward passes, forward passes with their way back, and robust accuracy
under PGD, each in float32, that again with passes replayed as CUDA graphs, and forward passes under bfloat16. A line
says seconds, FLOP/s as torch counts those of a forward pass (``torch.utils.flop_counter``) as a share of the peak of
that precision, and how far the answers are from the CPU's: logits by their largest relative difference, decisions by
how many differ. Ends with status 1 where more than ``--apart`` of the decisions do, and with status 2 where there is no
GPU. ``make bench-gpu`` then runs what pgd, certify and text_attack measure on a GPU. It was written where there was
none; ``--device cpu`` holds the CPU against itself.
"""

import argparse
import sys
import time
from collections.abc import Callable
from copy import deepcopy
from dataclasses import replace

import torch
from torch import Tensor, nn
from torch.utils.flop_counter import FlopCounterMode

from benchmarks.cases import Case, own_cases
from workers.attacks.pgd import PGD
from workers.attacks.robust_accuracy import robust_accuracy
from workers.models.replaying import Replayed

SIZES = (1024, 2048, 4096, 8192)
NO_GPU = 2
PASSES = {"forward": 1, "forward, bfloat16": 1, "gradient": 2}
"""Times the products of a forward pass: a gradient by the images alone has as many again on its way back."""


def timed(device: torch.device, work: Callable[[], object], repeats: int) -> float:
    """Return the seconds of the fastest run, the first of all left out: it compiles and fills caches."""
    fastest = float("inf")
    for number in range(repeats + 1):
        _wait(device)
        began = time.perf_counter()
        work()
        _wait(device)
        if number:
            fastest = min(fastest, time.perf_counter() - began)
    return fastest


def _wait(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize()


def peak(device: torch.device, dtype: torch.dtype, repeats: int) -> float:
    """Return the most FLOP/s that products of square matrices reach."""
    sizes = SIZES if device.type == "cuda" else (256,)
    found = 0.0
    for size in sizes:
        left, right = (torch.randn(size, size, device=device, dtype=dtype) for _ in range(2))
        found = max(found, 2 * size**3 / timed(device, lambda left=left, right=right: left @ right, repeats))  # type: ignore[misc]
    return found


def counted(work: Callable[[], object]) -> int:
    """Return the FLOP of some work, as torch counts them."""
    with FlopCounterMode(display=False) as counter:
        work()
    return int(counter.get_total_flops())


def _backward(model: nn.Module, images: Tensor, labels: Tensor) -> Tensor:
    leaf = images.detach().clone().requires_grad_()
    loss = nn.functional.cross_entropy(model(leaf), labels, reduction="sum")
    (gradient,) = torch.autograd.grad(loss, leaf)
    return gradient


def halves(case: Case, steps: int, dtype: torch.dtype) -> dict[str, tuple[Callable[[], Tensor], bool]]:
    """Return what is run by name, and whether it is in bfloat16."""
    model, images, labels, device = case.model, case.images, case.labels, case.images.device
    search = PGD("linf", 0.1, 0.025, steps)

    def forward() -> Tensor:
        with torch.no_grad():
            return model(images)  # type: ignore[no-any-return]

    def half() -> Tensor:
        with torch.no_grad(), torch.autocast(device.type, dtype=dtype):
            return model(images).float()  # type: ignore[no-any-return]

    # Nothing is recorded on a CPU: there it is the same search twice.
    replayed = Replayed(model) if device.type == "cuda" else model
    return {
        "forward": (forward, False),
        "forward, bfloat16": (half, True),
        "gradient": (lambda: _backward(model, images, labels), False),
        f"PGD, {steps} steps": (lambda: robust_accuracy(search, model, images, labels).float()[:, None], False),
        "the same, CUDA graphs": (lambda: robust_accuracy(search, replayed, images, labels).float()[:, None], False),
    }


def compare(name: str, ours: Tensor, reference: Tensor) -> tuple[str, float]:
    """Return how far answers are apart, in words, and the share of decisions that differ."""
    found, wanted = ours.detach().float().cpu().flatten(1), reference.detach().float().cpu().flatten(1)
    largest = float((found - wanted).abs().max() / wanted.abs().max().clamp_min(1e-12))
    if name == "gradient":
        return f"largest difference {largest:.1e} of the largest", 0.0
    differ = found.argmax(1) != wanted.argmax(1) if wanted.shape[1] > 1 else (found != wanted)[:, 0]
    return f"largest difference {largest:.1e}, {int(differ.sum())} of {len(differ)} decisions", float(
        differ.float().mean()
    )


def main() -> None:
    """Print peaks and a line per half; see the module."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--examples", type=int, default=256)
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--apart", type=float, default=0.02, help="share of decisions that may differ from the CPU's")
    arguments = parser.parse_args()
    device = torch.device(arguments.device)
    if device.type == "cuda" and not torch.cuda.is_available():
        print("no GPU: torch finds none here, and nothing was measured", file=sys.stderr)
        sys.exit(NO_GPU)
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
    torch.backends.cudnn.deterministic = True
    peaks = {is_half: peak(device, (torch.float32, torch.bfloat16)[is_half], arguments.repeats) for is_half in (0, 1)}
    where = torch.cuda.get_device_name(device) if device.type == "cuda" else "cpu"
    print(f"torch {torch.__version__}, {where}: float32 {peaks[0]:.3g}, bfloat16 {peaks[1]:.3g} FLOP/s of products")
    worst = 0.0
    for on_cpu in own_cases(arguments.examples, torch.device("cpu"))[: 2 if device.type == "cuda" else 1]:
        # The same weights: trained twice they would be two networks.
        model = deepcopy(on_cpu.model).to(device)
        case = replace(on_cpu, model=model, images=on_cpu.images.to(device), labels=on_cpu.labels.to(device))
        forward, _ = halves(case, arguments.steps, torch.bfloat16)["forward"]
        flops = counted(forward)
        references = halves(on_cpu, arguments.steps, torch.bfloat16)
        for name, (work, is_half) in halves(case, arguments.steps, torch.bfloat16).items():
            told, apart = compare(name, work(), references["forward" if is_half else name][0]())
            seconds, passes = timed(device, work, arguments.repeats), PASSES.get(name)
            # Examples that are broken leave a batch of PGD: how many products it takes is not known.
            share = f"{passes * flops / seconds / peaks[is_half]:6.1%} of the peak" if passes else " " * 18
            print(f"{case.name:24} {name:20} {seconds:8.4f} s  {share}  {told}", flush=True)
            worst = max(worst, apart)
    sys.exit(int(worst > arguments.apart))


if __name__ == "__main__":
    main()
