"""What randomized smoothing costs beyond the network's own forward passes.

    python -m benchmarks.certify --threads 1
    python -m benchmarks.certify --weights cnn.safetensors --layers cnn.json --images test.npz --device cuda

Noisy copies a second, with all that is done to them (noise, adding it, forward pass, softmax, classes, histogram), as
a share of the copies a second of the same network's bare forward passes: same rows, memory format and precision, no
gradients, no softmax, the same batch again and again. The median of paired runs that alternate. Asked with shared
noise: 0.9 for a ResNet-20 at 3x32x32, 0.8 for a small CNN at 1x28x28. Noise that is independent from example to example
is measured too; nothing is asked of it.

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

import torch
from torch import Tensor

from benchmarks.cases import Case, add_options, given_case, own_cases, parse
from workers.certification.noise import Noise
from workers.certification.smoothing import Smoother
from workers.runtime.seeds import derive_seed

Call = Callable[[], object]


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
        self.batch = self._record()

    def _count(self) -> None:
        self.passes += 1

    def noise(self) -> Noise:
        """Return noise none of which has been drawn yet."""
        _, channels, height, width = self.case.images.shape
        return Noise(self.sigma, (channels, height, width), self.device, derive_seed, shared=self.shared)

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
        statistics, noise, everyone = self.smoother.start(self.case.images), self.noise(), range(len(self.ids))
        self.smoother.extend(statistics, self.case.images, self.candidates, everyone, noise, 0, self.draws, self.ids)
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
        start = time.perf_counter()
        call()
        if self.device.type == "cuda":
            torch.cuda.synchronize()
        return time.perf_counter() - start

    def measure(self, repeats: int) -> tuple[float, float, float]:
        """Return copies a second of the bare network and of ours, and the median of the paired shares."""
        self.plain(), self.ours()
        pairs = []
        for repeat in range(repeats):
            # Who goes first alternates too: a processor slows down as it warms up.
            order = [self.plain, self.ours] if repeat % 2 == 0 else [self.ours, self.plain]
            took = {call.__name__: self.seconds(call) for call in order}
            pairs.append((took["plain"], took["ours"]))
        copies = len(self.ids) * self.draws
        return (
            copies / statistics.median(plain for plain, _ in pairs),
            copies / statistics.median(ours for _, ours in pairs),
            statistics.median(plain / ours for plain, ours in pairs),
        )


def overhead(case: Case, arguments: argparse.Namespace) -> list[dict[str, object]]:
    """Measure one case, print its table and return its numbers."""
    print(f"\n{case.name} on {case.images.device}, {len(case.images)} examples, {arguments.draws} draws each")
    numbers: list[dict[str, object]] = []
    for precision in arguments.precisions:
        autocast = torch.bfloat16 if precision == "bfloat16" else None
        for shared in (True, False):
            contest = Contest(case, autocast, shared=shared, sigma=arguments.sigma, draws=arguments.draws)
            plain, ours, share = contest.measure(arguments.repeats)
            noise = "shared" if shared else "independent"
            is_last = contest.batch.shape[1] > 1 and contest.batch.is_contiguous(memory_format=torch.channels_last)
            layout = "channels last" if is_last else "contiguous"
            print(f"  {precision}, {noise + ' noise':18} {len(contest.batch):5} rows, {layout:13}", end="")
            print(f"  bare {plain:9.0f}/s  ours {ours:9.0f}/s  share {share:.3f}")
            numbers.append(
                {
                    "case": case.name,
                    "device": str(case.images.device),
                    "precision": precision,
                    "noise": noise,
                    "rows": len(contest.batch),
                    "memory_format": layout,
                    "bare_per_second": plain,
                    "ours_per_second": ours,
                    "share": share,
                }
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
