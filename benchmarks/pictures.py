"""What the kept pictures of the worst attacked images cost: passes, seconds of the processor and bytes of records.

    python -m benchmarks.pictures [--samples 100 500] [--effort standard]

A convolutional network of three layers, drawn and not trained, on 32x32 images of noise, audited in memory stage by
stage. The passes do not depend on the machine.
"""

import argparse
import io
import time
from collections import Counter
from collections.abc import Callable
from typing import Any

import pyarrow.parquet as pq
import torch
from torch import Tensor, nn

from seatrial.families.uncertainty_span.effort import PICTURES
from seatrial.families.uncertainty_span.params import UncertaintySpanParams
from tests.families.in_memory import Model, run_check
from workers.families.uncertainty_span.family import UncertaintySpan


class Metered(UncertaintySpan):
    """The family, with what each of its stages takes."""

    def __init__(self, passes: Counter[str]) -> None:
        self.seconds: Counter[str] = Counter()
        self.passes: Counter[str] = Counter()
        self._all = passes

    def run(self, params: UncertaintySpanParams, shard: Any, context: Any) -> Any:
        """Run a shard, and note what it took."""
        before, began = self._all.total(), time.process_time()
        records = super().run(params, shard, context)
        self.seconds[shard.stage] += time.process_time() - began
        self.passes[shard.stage] += self._all.total() - before
        return records


def counted(network: nn.Module, passes: Counter[str]) -> Callable[[Tensor], Tensor]:
    """Return a network that counts the images it is asked about."""

    def ask(images: Tensor) -> Tensor:
        passes["forward"] += len(images)
        out: Tensor = network(images)
        return out

    return ask


def main() -> None:
    """Print a row for each number of samples."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--samples", type=int, nargs="+", default=[100, 500])
    parser.add_argument("--effort", default="standard")
    options = parser.parse_args()
    torch.manual_seed(0)
    torch.set_num_threads(1)
    layers = [nn.Conv2d(3, 8, 3, 2, 1), nn.ReLU(), nn.Conv2d(8, 16, 3, 2, 1), nn.ReLU(), nn.Flatten()]
    network = nn.Sequential(*layers, nn.Linear(16 * 64, 10)).requires_grad_(False)
    params = UncertaintySpanParams.model_validate(
        {"kind": "uncertainty_span", "epsilon": 8 / 255, "steps": 50, "effort": options.effort}
    )
    print("| examples | images asked about | of these for pictures | seconds | of these for pictures | bytes kept |")
    print("| --- " * 6 + "|")
    for samples in options.samples:
        images = torch.randint(0, 256, (samples, 3, 32, 32)).float() / 255
        labels = network(images).argmax(1)
        passes: Counter[str] = Counter()
        family = Metered(passes)
        _, done = run_check(family, params, Model(counted(network, passes), 10), (images, labels), batch_size=64)
        written = io.BytesIO()
        pq.write_table(done[PICTURES], written)
        shares = (
            f"{family.passes[PICTURES] / family.passes.total():.2%}",
            f"{family.seconds[PICTURES] / family.seconds.total():.2%}",
        )
        print(
            f"| {samples} | {family.passes.total():,} | {family.passes[PICTURES]:,} ({shares[0]}) "
            f"| {family.seconds.total():.1f} | {family.seconds[PICTURES]:.1f} ({shares[1]}) | {written.tell():,} |",
            flush=True,
        )


if __name__ == "__main__":
    main()
