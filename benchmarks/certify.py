"""What randomized smoothing costs beyond the network's own forward passes.

    python -m benchmarks.certify --threads 1
    python -m benchmarks.certify --weights cnn.safetensors --layers cnn.json --images test.npz --device cuda

Noisy copies a second, with all that is done to them (noise, adding it, forward pass, softmax, classes, histogram), as
a share of the copies a second of the same network's bare forward passes: same rows, memory format and precision, no
gradients, no softmax, the same batch again and again. The median of paired runs that alternate. Asked with shared
noise: 0.9 for a ResNet-20 at 3x32x32, 0.8 for a small CNN at 1x28x28. Noise that is independent from example to example
is measured too; nothing is asked of it.

With all classes' scores counted too (a histogram for each, as `uncertainty` asks for), at most 5 % slower than without.

Also, in the same alternation, against noise as it was before it lay on a grid: float32 draws, added to the image in
floating point. Asked: at least 0.98 times as many copies a second for the ResNet-20.

Without --weights it trains its own models on scikit-learn's bundled digits (see benchmarks/cases.py); a CPU gets an
eighth of the examples for the ResNet-20.
"""

import argparse
import json
import statistics
import time
import warnings
from collections.abc import Callable
from contextlib import ExitStack

import numpy as np
import torch
from torch import Tensor

from benchmarks.cases import Case, add_options, given_case, own_cases, parse
from workers.certification.class_scores import ClassScores
from workers.certification.grid import to_pixels
from workers.certification.noise import Noise
from workers.certification.smoothing import Smoother
from workers.runtime.seeds import derive_seed

Call = Callable[[], object]


class FloatNoise(Noise):
    """Noise as it was: float32, not rounded."""

    def draws(self, start: int, stop: int, example_id: int | None = None) -> Tensor:
        """Return draws ``start`` to ``stop``, float32."""
        return super().draws(start, stop, example_id).view(torch.float32)

    def _make(self, piece: int) -> None:
        # Where the integers would stand: both take four bytes.
        values = self._values[piece * self._piece : (piece + 1) * self._piece].view(torch.float32)
        if self._device.type == "cpu":
            generator = np.random.Generator(np.random.SFC64([self._seed, piece]))
            generator.standard_normal(dtype=np.float32, out=values.numpy())
            values.mul_(self.sigma)
        else:
            values.normal_(0, self.sigma, generator=torch.Generator(self._device).manual_seed(self._seed))


class FloatSmoother(Smoother):
    """Adds that noise in floating point."""

    def _add(self, steps: Tensor, drawn: Tensor, out: Tensor) -> None:
        torch.add(to_pixels(steps), drawn, out=out)


class Contest:
    """One case: noisy copies counted, against the same number of rows passed through the network."""

    def __init__(self, case: Case, autocast: torch.dtype | None, *, shared: bool, sigma: float, draws: int) -> None:
        self.case, self.autocast, self.draws = case, autocast, draws
        self.device, self.passes = case.images.device, 0
        self.ids = list(range(len(case.images)))
        self.shared, self.sigma = shared, sigma
        with torch.inference_mode():
            self.candidates = case.model(case.images).argmax(1)
        self.classes = case.model(case.images[:1]).shape[1]
        self.smoother = Smoother(case.model, classes=self.classes, check_cancelled=self._count, autocast=autocast)
        self.float_smoother = FloatSmoother(case.model, classes=self.classes, autocast=autocast)
        self.batch = self._record()

    def _count(self) -> None:
        self.passes += 1

    def noise(self, kind: type[Noise] = Noise) -> Noise:
        """Return noise none of which has been drawn yet."""
        _, channels, height, width = self.case.images.shape
        return kind(self.sigma, (channels, height, width), self.device, derive_seed, shared=self.shared)

    def _record(self) -> Tensor:
        """Return the largest batch the network is given, as it is laid out, and count the passes."""
        given: list[Tensor] = []

        def recording(images: Tensor) -> Tensor:
            if not given or len(images) > len(given[-1]):
                given.append(images.clone())
            return self.case.model(images)

        smoother = Smoother(recording, classes=self.classes, check_cancelled=self._count, autocast=self.autocast)
        smoother.select(self.case.images, self.noise(), self.draws, self.ids)
        self.passes_a_run = self.passes
        return given[-1]

    def ours(self) -> Tensor:
        """Return the total score of every example."""
        return self._extended(self.smoother, self.noise())

    def all_classes(self) -> Tensor:
        """Return the same, with all classes' scores counted."""
        return self._extended(self.smoother, self.noise(), ClassScores(len(self.ids), self.classes, self.device))

    def floats(self) -> Tensor:
        """Return the same of noise that is added in floating point."""
        return self._extended(self.float_smoother, self.noise(FloatNoise))

    def _extended(self, smoother: Smoother, noise: Noise, scores: ClassScores | None = None) -> Tensor:
        statistics, everyone = smoother.start(self.case.images, scores), range(len(self.ids))
        given = self.case.images, self.candidates, everyone, noise, 0, self.draws, self.ids
        smoother.extend(statistics, *given, scores)
        return statistics.total.cpu()

    def plain(self) -> None:
        """Pass as many rows through the network."""
        with ExitStack() as stack:
            stack.enter_context(torch.inference_mode())
            stack.enter_context(torch.autocast(self.device.type, self.autocast, enabled=self.autocast is not None))
            for _ in range(self.passes_a_run):
                self.case.model(self.batch)

    def seconds(self, call: Call) -> float:
        """Time one call, to the end of what it left running on a GPU."""
        if self.device.type == "cuda":
            torch.cuda.synchronize()
        # What else runs on a processor does not count, where one thread does everything.
        clock = time.process_time if self.device.type == "cpu" and torch.get_num_threads() == 1 else time.perf_counter
        start = clock()
        call()
        if self.device.type == "cuda":
            torch.cuda.synchronize()
        return clock() - start

    def measure(self, repeats: int) -> dict[str, float]:
        """Return copies a second, bare and ours, and the medians of paired shares: of bare, and of floats."""
        calls: list[Call] = [self.plain, self.ours, self.all_classes, self.floats]
        names = ["plain", "ours", "all_classes", "floats"]
        took: dict[str, list[float]] = {name: [] for name in names}
        for call in calls:
            call()
        for repeat in range(repeats):
            # Who goes first alternates too: a processor slows down as it warms up.
            pairs = list(zip(names, calls, strict=True))
            for name, call in pairs if repeat % 2 == 0 else pairs[::-1]:
                took[name].append(self.seconds(call))
        copies = len(self.ids) * self.draws
        return {
            "bare_per_second": copies / statistics.median(took["plain"]),
            "ours_per_second": copies / statistics.median(took["ours"]),
            "share": statistics.median(plain / ours for plain, ours in zip(took["plain"], took["ours"], strict=True)),
            "of_ours": statistics.median(
                one / counted for one, counted in zip(took["ours"], took["all_classes"], strict=True)
            ),
            "of_floats": statistics.median(one / ours for one, ours in zip(took["floats"], took["ours"], strict=True)),
        }


def overhead(case: Case, arguments: argparse.Namespace) -> list[dict[str, object]]:
    """Measure one case, print its table and return its numbers."""
    print(f"\n{case.name} on {case.images.device}, {len(case.images)} examples, {arguments.draws} draws each")
    numbers: list[dict[str, object]] = []
    for precision in arguments.precisions:
        autocast = torch.bfloat16 if precision == "bfloat16" else None
        for shared in (True, False):
            contest = Contest(case, autocast, shared=shared, sigma=arguments.sigma, draws=arguments.draws)
            found = contest.measure(arguments.repeats)
            noise = "shared" if shared else "independent"
            is_last = contest.batch.shape[1] > 1 and contest.batch.is_contiguous(memory_format=torch.channels_last)
            layout = "channels last" if is_last else "contiguous"
            print(f"  {precision}, {noise + ' noise':18} {len(contest.batch):5} rows, {layout:13}", end="")
            print(f"  bare {found['bare_per_second']:9.0f}/s  ours {found['ours_per_second']:9.0f}/s", end="")
            print(f"  share {found['share']:.3f}  of floats' speed {found['of_floats']:.3f}", end="")
            print(f"  all classes counted: {found['of_ours']:.3f} of that")
            numbers.append(
                {
                    "case": case.name,
                    "device": str(case.images.device),
                    "precision": precision,
                    "noise": noise,
                    "rows": len(contest.batch),
                    "memory_format": layout,
                }
                | found
            )
    return numbers


def main() -> None:
    """Run every case and print a table and one line of JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--examples", type=int, default=32)
    parser.add_argument("--draws", type=int, default=1000)
    parser.add_argument("--sigma", type=float, default=0.25)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--precisions", nargs="+", choices=["float32", "bfloat16"], default=["float32"])
    parser.add_argument("--device", default="cpu")
    add_options(parser)
    arguments = parse(parser)
    warnings.filterwarnings("ignore", category=UserWarning, module="torch")
    # As workers compute: see workers/runtime/device.py.
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
    torch.backends.cudnn.deterministic = True
    device = torch.device(arguments.device)
    cases = [given_case(arguments, device)] if arguments.weights else own_cases(arguments.examples, device)
    print(f"torch {torch.__version__}, {torch.get_num_threads()} threads")
    print("\n" + json.dumps([row for case in cases for row in overhead(case, arguments)]))


if __name__ == "__main__":
    main()
