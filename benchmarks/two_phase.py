"""Robust accuracy in two phases beside AutoAttack on every example: the interval's width, and how often it misses.

    python -m benchmarks.two_phase
    python -m benchmarks.two_phase --weights cnn.safetensors --layers cnn.json --images test.npz --epsilon 0.0314

On a model: what AutoAttack on `--examples` costs in passes, the width of its interval, and how many passes and what
width two phases come to with `--survivors` of all images; a backward pass counts as two. "narrower" is the ratio of
widths at the cost of each, squared and multiplied by the costs' ratio: how many times the examples plain AutoAttack
would need, at its own price, for the width of two phases. Then how often either end is wrong, simulated.
"""

import argparse

import numpy as np
import torch
from scipy.stats import binom

from benchmarks.cases import Case, add_options, digits, given_case, parse
from benchmarks.gauntlet import adversarially, network
from seatrial.contracts.estimates import Estimate
from seatrial.families.shared.robust_accuracy import RobustAccuracyParams
from seatrial.statistics.nested import nested_proportion
from tests.families.in_memory import Context, Model
from workers.families import robust_accuracy
from workers.families.protocol import Shard
from workers.families.robust_accuracy_first import FIRST, SECOND, run_first, stages


class Counted:
    """A model that counts its passes: one forward, three with the way back."""

    def __init__(self, model: torch.nn.Module) -> None:
        self.model, self.passes = model, 0

    def __call__(self, images: torch.Tensor) -> torch.Tensor:
        """Return logits."""
        self.passes += len(images) * (3 if images.requires_grad and torch.is_grad_enabled() else 1)
        logits: torch.Tensor = self.model(images)
        return logits


def own_case() -> Case:
    """Return a small CNN on digits, trained against PGD at l_inf 0.1."""
    torch.manual_seed(0)
    images, labels = digits((1, 28, 28))
    return Case(
        "digits 1x28x28", adversarially(network(10), images[:800], labels[:800], 0.1, 6), images[800:], labels[800:]
    )


def measure(case: Case, params: RobustAccuracyParams, examples: int, batch: int) -> tuple[Estimate, float]:
    """Return the robust accuracy of the first examples, and the passes it took."""
    counted = Counted(case.model)
    classes = case.model(case.images[:1]).shape[1]
    data = (case.images[:examples], case.labels[:examples])
    done = {}
    planned = stages(params, None)
    if len(planned) > 1:
        context = Context(Model(counted, classes), data, Shard(FIRST, 0, examples), batch, examples)
        done[FIRST] = run_first(params, context)
        planned = stages(params, done[FIRST])
    limit = planned[-1].limit or examples
    context = Context(Model(counted, classes), data, Shard(SECOND, 0, limit), batch, limit, done=done)
    records = robust_accuracy.attacked(robust_accuracy.run(params, context))
    return robust_accuracy.estimate(params, records, done.get(FIRST))["robust_accuracy"], counted.passes


def width(found: Estimate) -> float:
    """Return the width of an interval."""
    if found.low is None or found.high is None:
        raise ValueError("no interval")
    return found.high - found.low


def simulate(samples: int) -> list[tuple[int, int, float, float, float, float]]:
    """Return examples, survivors, both shares, and how often the lower and the upper end are wrong."""
    rng, rows = np.random.default_rng(0), []
    for n, survivors in ((200, 20), (200, 60), (1000, 100), (10_000, 400)):
        for p in (0.02, 0.1, 0.3, 0.5, 0.9, 0.99):
            for q in (0.5, 0.9, 0.97, 0.995):
                wrong = np.zeros(2)
                standing = rng.binomial(n, p, samples)
                attacked = np.minimum(survivors, standing)
                held = binom.rvs(attacked, q, random_state=rng)
                for numbers in zip(standing.tolist(), held.tolist(), attacked.tolist(), strict=True):
                    found = nested_proportion(numbers[0], n, numbers[1], numbers[2])
                    wrong += ((found.low or 0.0) > p * q, (1.0 if found.high is None else found.high) < p * q)
                rows.append((n, survivors, p, q, *(wrong / samples)))
    return rows


def main() -> None:
    """Print the table of the model, then the worst rows of the simulation."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_options(parser)
    parser.add_argument("--epsilon", type=float, default=0.1)
    parser.add_argument("--norm", choices=["linf", "l2"], default="linf")
    parser.add_argument("--examples", type=int, default=10**6, help="images of the first phase")
    parser.add_argument("--plain", type=int, default=100, help="images of AutoAttack in one phase")
    parser.add_argument("--survivors", type=int, nargs="+", default=[50, 100])
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--queries", type=int, default=5000)
    parser.add_argument("--batch", type=int, default=100)
    parser.add_argument("--samples", type=int, default=4000, help="of the simulation")
    arguments = parse(parser)
    case = given_case(arguments, torch.device("cpu")) if arguments.weights else own_case()
    asked = {name: getattr(arguments, name) for name in ("norm", "epsilon", "steps", "queries")}
    examples = min(arguments.examples, len(case.images))
    plain, price = measure(case, RobustAccuracyParams(**asked), arguments.plain, arguments.batch)
    print(
        f"{case.name}, {arguments.norm} {arguments.epsilon:g}, {len(case.images)} images, AutoAttack of "
        f"{arguments.steps} steps"
    )
    print(f"{'':28} {'robust':>7} {'interval':>16} {'width':>6} {'passes':>12} {'narrower':>9}")
    print(_line(f"one phase, {arguments.plain} images", plain, price, ""))
    for survivors in arguments.survivors:
        found, cost = measure(case, RobustAccuracyParams(**asked, survivors=survivors), examples, arguments.batch)
        ratio = (width(plain) / width(found)) ** 2 * price / cost
        print(_line(f"two, {examples} and {survivors}", found, cost, f"{ratio:8.1f}x"), flush=True)
    rows = simulate(arguments.samples)
    worst = max(rows, key=lambda row: max(row[4:]))
    print(f"\nsimulated, {len(rows)} populations of {arguments.samples} samples: an end is wrong at most", end=" ")
    print(
        f"{max(worst[4:]):.3f} of the time ({worst[0]} examples, {worst[1]} survivors, shares {worst[2]:g} and "
        f"{worst[3]:g})"
    )


def _line(name: str, found: Estimate, passes: float, ratio: str) -> str:
    interval = f"[{found.low:.3f}, {found.high:.3f}]"
    return f"{name:28} {found.value:7.3f} {interval:>16} {width(found):6.3f} {passes:12,.0f} {ratio:>9}"


if __name__ == "__main__":
    main()
