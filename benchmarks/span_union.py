"""What the widest span of `uncertainty_span` reaches beside a stronger attack, what it costs, and what masks hide.

    python -m benchmarks.span_union
    python -m benchmarks.span_union --weights mnist_std.safetensors --layers mnist_std.json \
        --images mnist_test_2000.npz --epsilon 0.03 --examples 96 --reference mnist_std.npz
    python -m benchmarks.span_union ... --masks

Passes are counted where the model is called: one for a forward pass, two for one with its backward pass. "before" are
those of effort `quick`: the paper's attacks, the same at twice the radius and, where the softmax saturates, on tempered
logits. The reference is the span of the same examples that an attack reaches which is given `--times` the passes of
the whole check; it is read from `--reference` where that file is there, and written to it where it is not.
"""

import argparse
import pathlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from benchmarks.cases import Case, add_options, given_case, own_cases, parse
from benchmarks.fakes import Logits, sawtooth, stairs
from benchmarks.strongest import strongest
from seatrial.contracts.estimates import Result
from seatrial.families.uncertainty_span.params import UncertaintySpanParams
from tests.families.in_memory import Model, run_check
from workers.families.uncertainty_span.family import FAMILY

BEFORE = ("attack", "growth", "tempered")
BATCH = 64


class Counted:
    """A model that counts its passes: one forward, two forward and backward."""

    def __init__(self, network: Callable[[Tensor], Tensor]) -> None:
        self.network, self.passes = network, 0

    def __call__(self, images: Tensor) -> Tensor:
        """Return its logits."""
        is_attacked = images.requires_grad and torch.is_grad_enabled()
        self.passes += len(images) * (2 if is_attacked else 1)
        return self.network(images)


@dataclass(frozen=True)
class Run:
    """One check: what was asked, what came out, and the passes of each stage, an example."""

    params: UncertaintySpanParams
    result: Result
    passes: dict[str, float]
    classes: int

    def value(self, name: str) -> float:
        """Return an estimate."""
        found = self.result.estimates[name].value
        return float("nan") if found is None else found

    @property
    def ratio(self) -> float:
        """Return how many times the passes of the check before it costs."""
        return sum(self.passes.values()) / sum(self.passes.get(name, 0.0) for name in BEFORE)

    @property
    def flags(self) -> str:
        """Return the flags in words."""
        return ", ".join(f"{flag.code} ({flag.severity})" for flag in self.result.flags) or "-"


def check(case: Case, network: Callable[[Tensor], Tensor], classes: int | None = None, **params: Any) -> Run:
    """Run a whole check of a network on the images of a case; where no classes are given it is asked for them."""
    counted, count = Counted(network), len(case.images)
    if classes is None:
        with torch.no_grad():
            classes = network(case.images[:1]).shape[1]
    asked = UncertaintySpanParams(kind="uncertainty_span", **params)
    passes: dict[str, float] = {}

    def watch(stage: str) -> None:
        passes[stage] = counted.passes / count - sum(passes.values())

    model, data = Model(counted, classes), (case.images, case.labels)
    result, _ = run_check(FAMILY, asked, model, data, batch_size=BATCH, watch=watch)
    return Run(asked, result, passes, classes)


def reference(arguments: argparse.Namespace, case: Case, run: Run, norm: str, epsilon: float) -> float | None:
    """Return the mean span of a stronger attack; None where none is asked for."""
    path: pathlib.Path | None = arguments.reference
    if path is not None and path.exists():
        stored = np.load(path)
        if len(stored["highest"]) != len(case.images):
            raise SystemExit(f"{path} is of {len(stored['highest'])} examples, not of {len(case.images)}")
        return float((stored["highest"] - stored["lowest"]).mean())
    if arguments.times == 0:
        return None
    counted = Counted(case.model)

    def is_spent() -> bool:
        return counted.passes > arguments.times * sum(run.passes.values()) * len(case.images)

    lowest, highest = strongest(counted, case.images, norm, epsilon, is_spent)
    if path is not None:
        np.savez(path, lowest=lowest, highest=highest)
    return float((highest - lowest).mean())


def masks(channels: int) -> Iterator[tuple[str, torch.nn.Module]]:
    """Yield what hides an unprotected network's gradients, and says hardly anything else."""
    for period in (0.05, 0.02, 0.1):
        yield f"sawtooth, slopes +3 and -1, period {period}", sawtooth(channels, period)
    yield "16 stairs, treads downward", stairs(channels, 16, -0.5)
    yield "32 stairs, treads upward", stairs(channels, 32, 0.3)
    yield "16 stairs, treads flat", stairs(channels, 16, 0.0)


def main() -> None:
    """Measure the models of the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_options(parser)
    parser.add_argument("--examples", type=int, default=64)
    parser.add_argument("--epsilon", type=float, default=0.1)
    parser.add_argument("--norm", choices=["linf", "l2"], default="linf")
    parser.add_argument("--steps", type=int, default=150)
    parser.add_argument("--effort", choices=["quick", "standard", "thorough"], default="standard")
    parser.add_argument("--reference", type=pathlib.Path, help=".npz of the reference: lowest and highest (examples,)")
    parser.add_argument("--times", type=float, default=0, help="passes of the reference, in those of the check")
    parser.add_argument("--masks", action="store_true", help="the same network behind masks, instead")
    arguments = parse(parser)
    cpu = torch.device("cpu")
    cases = [given_case(arguments, cpu)] if arguments.weights else own_cases(arguments.examples, cpu)[:1]
    asked = {name: getattr(arguments, name) for name in ("epsilon", "norm", "steps", "effort")}
    for case in cases:
        name = f"{case.name}, {asked['norm']} {asked['epsilon']:g}, {len(case.images)} examples"
        run = check(case, case.model, **asked)
        if arguments.masks:
            print(f"| {name} | mus | by gradients | mus_worst | flags |\n| --- | --- | --- | --- | --- |")
            _show_mask("no mask", run)
            for mask, layer in masks(case.images.shape[1]):
                _show_mask(mask, check(case, torch.nn.Sequential(layer, case.model), **asked))
            _show_mask("logits clipped", check(case, Logits(case.model, lambda z: z.clamp(-4, 4)), **asked))
            continue
        strong = reference(arguments, case, run, asked["norm"], asked["epsilon"])
        stages = ", ".join(f"{stage} {passes:.0f}" for stage, passes in run.passes.items())
        print(f"{name}: mus {run.value('mus'):.4f}, mus_worst {run.value('mus_worst'):.4f}", end="")
        if strong is not None:
            worst, paper = run.value("mus_worst") / strong, run.value("mus") / strong
            print(f", reference {strong:.4f}: ratio {worst:.3f} (mus {paper:.3f})", end="")
        print(f"\n  passes {sum(run.passes.values()):.0f} an example, {run.ratio:.2f}x those before: {stages}")
        print(f"  mus_calibrated {run.value('mus_calibrated'):.4f}; flags: {run.flags}", flush=True)


def _show_mask(name: str, run: Run) -> None:
    gradients = max(run.value(key) for key in ("mus", "mus[attack=ascent]"))
    print(
        f"| {name} | {run.value('mus'):.3f} | {gradients:.3f} | {run.value('mus_worst'):.3f} | {run.flags} |",
        flush=True,
    )


if __name__ == "__main__":
    main()
