"""Fakes that must not pass a shipped policy, and honest models that no doubt may block.

    python -m benchmarks.gauntlet
    python -m benchmarks.gauntlet --weights mnist_std.safetensors --layers mnist_std.json --images mnist_test_2000.npz
    python -m benchmarks.gauntlet ... --robust mnist_pgd.safetensors --only "but for"

With `--robust`, a robust network of the same images (its layers in a .json beside it), models join that are this
network wherever a gate is closed or a lock is.

Every model is audited as `seatrial gate` audits images, with the parameters' defaults but for the radius, and judged by
each shipped policy. A fake may fail, be inconclusive, or end in a doubt; it may not pass. An honest model may fail at
its bound; a doubt about how it was measured may not stop it.
"""

import argparse
import pathlib
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional

from benchmarks.absorbed_image_fakes import contestants as absorbed_image_fakes
from benchmarks.arm_costs import costs_by_stage
from benchmarks.carried_image_fakes import contestants as carried_image_fakes
from benchmarks.cases import Case, add_options, digits, given_case, parse, train
from benchmarks.fakes import Contestant, Logits, fakes
from benchmarks.fresh_image_fakes import fresh_image_fakes
from benchmarks.gated_image_fakes import contestants as gated_image_fakes
from benchmarks.local_image_fakes import contestants as local_image_fakes
from benchmarks.locked_image_fakes import contestants as locked_image_fakes
from benchmarks.meeting_image_fakes import contestants as meeting_image_fakes
from benchmarks.periodic_image_fakes import contestants as periodic_image_fakes
from benchmarks.puzzle_image_fakes import contestants as puzzle_image_fakes
from benchmarks.remembering_image_fakes import contestants as remembering_image_fakes
from benchmarks.shared_image_fakes import contestants as shared_image_fakes
from benchmarks.shipped import shipped_judgements
from benchmarks.span_union import check
from benchmarks.undecided_image_fakes import contestants as undecided_image_fakes
from benchmarks.watching_image_fakes import contestants as watching_image_fakes
from benchmarks.waved_image_fakes import contestants as waved_image_fakes
from seatrial.contracts.estimates import Flag, Result
from seatrial.contracts.policies import Judgement
from seatrial.contracts.states import RunState
from seatrial.judging.measured import MeasuredCheck
from tests.families.in_memory import Model
from workers.errors import PreflightError
from workers.families.uncertainty_span.further import to_levels
from workers.models.checks import IMAGE_WORDS
from workers.models.guessing import unrelated_flags
from workers.models.repeating import company_flags
from workers.models.validating import chance_flags, constant_flags


@dataclass(frozen=True)
class Row:
    """What became of one model."""

    contestant: Contestant
    result: Result
    seconds: float
    passes: dict[str, float]
    judgements: dict[str, Judgement]

    @property
    def wrong(self) -> list[str]:
        """Return the policies that a fake passed, or at which a doubt stopped an honest model."""
        bad = "passed" if self.contestant.fake else "errored"
        return [name for name, judgement in self.judgements.items() if judgement.verdict == bad]


def audit(contestant: Contestant, images: Tensor, labels: Tensor, classes: int, epsilon: float, steps: int) -> Row:
    """Measure a model as the gate does, and judge it by every shipped policy."""
    began = time.perf_counter()
    model = Model(contestant.network, classes)
    images, labels = images[: contestant.examples], labels[: contestant.examples]
    if contestant.levels:
        images = to_levels(images)
    case = Case(contestant.name, contestant.network, images, labels)
    run = check(case, contestant.network, classes, epsilon=epsilon, steps=steps)
    flags = [*doubts(model, images, labels, classes), *run.result.flags]
    result = run.result.model_copy(update={"flags": flags})
    seconds = time.perf_counter() - began
    params = run.params
    measured = MeasuredCheck(0, params.kind, RunState.SUCCEEDED, result, None, params.model_dump(mode="json"))
    return Row(contestant, result, seconds, run.passes, shipped_judgements(measured))


def doubts(model: Model, images: Tensor, labels: Tensor, classes: int) -> list[Flag]:
    """Return what an audit doubts before it begins; what it refuses to begin with is an error here."""
    with torch.no_grad():
        logits = model.logits(images)
        finite = logits.isfinite().all(1)
        flags = company_flags(logits[finite], model.logits, images[finite], "image")
    predictions, known = logits.argmax(1).numpy(), labels.numpy()
    try:
        flags += constant_flags(predictions, known, IMAGE_WORDS)
        guessing = chance_flags(int((predictions == known).sum()), len(known), classes, IMAGE_WORDS)
    except PreflightError as error:
        return [Flag(code=error.problem.code.replace("-", "_"), severity="error", message=str(error))]
    return flags + (guessing or unrelated_flags(predictions, known, IMAGE_WORDS))


def network(classes: int) -> nn.Sequential:
    """Return the small CNN the fakes are made of."""
    return nn.Sequential(
        *[nn.Conv2d(1, 16, 4, 2, 1), nn.ReLU(), nn.Conv2d(16, 32, 4, 2, 1), nn.ReLU()],
        *[nn.Flatten(), nn.Linear(32 * 49, 100), nn.ReLU(), nn.Linear(100, classes)],
    )


def adversarially(model: nn.Module, images: Tensor, labels: Tensor, epsilon: float, epochs: int) -> nn.Module:
    """Fit a model to the images, then to what ten steps of PGD make of them."""
    train(model, images, labels, 3).train().requires_grad_(True)
    optimizer = torch.optim.Adam(model.parameters(), 1e-3)
    for _ in range(epochs):
        for batch in torch.randperm(len(images)).split(64):
            clean, targets = images[batch], labels[batch]
            moved = (clean + epsilon * (2 * torch.rand_like(clean) - 1)).clamp(0, 1)
            for _ in range(10):
                moved.requires_grad_(True)
                (gradient,) = torch.autograd.grad(functional.cross_entropy(model(moved), targets), moved)
                moved = (moved.detach() + epsilon / 4 * gradient.sign()).clamp(clean - epsilon, clean + epsilon)
                moved = moved.clamp(0, 1)
            optimizer.zero_grad()
            functional.cross_entropy(model(moved), targets).backward()
            optimizer.step()
    return model.eval().requires_grad_(False)


def noisily(model: nn.Module, images: Tensor, labels: Tensor, sigma: float, epochs: int) -> nn.Module:
    """Fit a model to images with Gaussian noise."""
    optimizer = torch.optim.Adam(model.parameters(), 2e-3)
    for _ in range(epochs):
        for batch in torch.randperm(len(images)).split(64):
            optimizer.zero_grad()
            noisy = images[batch] + sigma * torch.randn_like(images[batch])
            functional.cross_entropy(model(noisy), labels[batch]).backward()
            optimizer.step()
    return model.eval().requires_grad_(False)


def own(examples: int, epsilon: float) -> tuple[Case, nn.Module, list[Contestant]]:
    """Return the unprotected classifier with its images, a second one, and honest models, all trained here."""
    torch.manual_seed(0)
    images, labels = digits((1, 28, 28))
    kept, fitted = (images[:examples], labels[:examples]), (images[examples:], labels[examples:])
    base, other = (train(network(10), *fitted, 5) for _ in range(2))
    robust = adversarially(network(10), *fitted, epsilon, 10)
    noisy = noisily(network(10), *fitted, 0.25, 8)
    wider = adversarially(network(10), *fitted, 2 * epsilon, 10)
    briefly = train(network(10), *fitted, 1)
    temperature = 1.5
    honest = {
        "standard": base,
        "trained for one epoch": briefly,
        "Gaussian-trained": noisy,
        "PGD-trained": robust,
        "PGD-trained at twice the radius": wider,
        "PGD-trained, logits x 2": Logits(robust, lambda z: 2 * z),
        "PGD-trained, saturated (logits x 20)": Logits(robust, lambda z: 20 * z),
        "standard, calibrated": Logits(base, lambda z: z / temperature),
        "PGD-trained, logits / 2": Logits(robust, lambda z: z / 2),
        "Gaussian- and standard-trained, averaged": Averaged([noisy, base]),
    }
    few = ("standard", "PGD-trained", "PGD-trained, saturated (logits x 20)")
    return (
        Case("digits 1x28x28", base, *kept, epsilon),
        other,
        [
            *(Contestant(name, model, fake=False) for name, model in honest.items()),
            *(Contestant(f"{name}, 15 images", honest[name], fake=False, examples=15) for name in few),
        ],
    )


class Averaged(nn.Module):
    """The mean of the logits of several networks."""

    def __init__(self, members: Sequence[nn.Module]) -> None:
        super().__init__()
        self.members = nn.ModuleList(members)

    def forward(self, images: Tensor) -> Tensor:
        """Return logits."""
        return torch.stack([member(images) for member in self.members]).mean(0)


def main() -> int:
    """Print a row for each model, then what went wrong."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_options(parser)
    parser.add_argument("--examples", type=int, default=60)
    parser.add_argument("--epsilon", type=float, default=0.1)
    parser.add_argument("--steps", type=int, default=150)
    parser.add_argument("--only", help="models whose name holds this")
    parser.add_argument("--robust", type=pathlib.Path, help="safetensors of a robust network")
    arguments = parse(parser)
    case, other, honest = own(arguments.examples, arguments.epsilon)
    if arguments.weights:
        case = given_case(arguments, torch.device("cpu"))
        honest = [Contestant(case.name, case.model, fake=False)]
        other = case.model
    radius = case.epsilon or arguments.epsilon
    contestants = honest + fakes(case.model, other, case.images, case.labels, radius)
    contestants += fresh_image_fakes(case.model, case.images, radius)
    if arguments.robust:
        found = {**vars(arguments), "weights": arguments.robust, "layers": arguments.robust.with_suffix(".json")}
        robust = given_case(argparse.Namespace(**found), torch.device("cpu"))
        honest.append(Contestant(robust.name, robust.model, fake=False))
        contestants = [*contestants, honest[-1], *gated_image_fakes(case.model, robust.model, case.images, radius)]
        contestants += locked_image_fakes(case.model, robust.model, case.images, radius)
        contestants += periodic_image_fakes(case.model, robust.model, case.images, radius)
        contestants += puzzle_image_fakes(case.model, robust.model, case.images, radius)
        contestants += absorbed_image_fakes(case.model, robust.model, case.images, radius)
        contestants += waved_image_fakes(case.model, robust.model, case.images, radius)
        contestants += local_image_fakes(case.model, robust.model, case.images, radius)
        contestants += carried_image_fakes(case.model, robust.model, case.images, radius)
        contestants += remembering_image_fakes(case.model, robust.model, case.images, radius)
        contestants += undecided_image_fakes(case.model, robust.model, case.images, radius)
        contestants += shared_image_fakes(case.model, case.images)
        contestants += meeting_image_fakes(robust.model, case.images)
        contestants += watching_image_fakes(robust.model)
    rows = []
    print(f"{'model':44} {'mus':>6} {'worst':>6} {'calib.':>6} {'s':>5}  lenient / standard / strict; flags")
    for contestant in contestants:
        if arguments.only and arguments.only not in contestant.name:
            continue
        classes = case.model(case.images[:1]).shape[1]
        row = audit(contestant, case.images, case.labels, classes, radius, arguments.steps)
        rows.append(row)
        print(_line(row), flush=True)
    passed = [row.contestant.name for row in rows if row.contestant.fake and row.wrong]
    blocked = [row.contestant.name for row in rows if not row.contestant.fake and row.wrong]
    count = sum(row.contestant.fake for row in rows)
    print(f"\nfakes that passed a policy: {len(passed)} of {count} {passed or ''}")
    print(f"honest models stopped by a doubt: {len(blocked)} of {len(rows) - count} {blocked or ''}")
    print(costs_by_stage([row.passes for row in rows], "passes an image"))
    return 1 if passed or blocked else 0


def _line(row: Row) -> str:
    numbers = [row.result.estimates.get(name) for name in ("mus", "mus_worst", "mus_calibrated")]
    told = " ".join(f"{number.value:6.2f}" if number and number.value is not None else "     -" for number in numbers)
    verdicts = " / ".join(judgement.verdict for judgement in row.judgements.values())
    flags = ", ".join(f"{flag.code} ({flag.severity})" for flag in row.result.flags)
    sort = "fake" if row.contestant.fake else "honest"
    name = f"{sort}: {row.contestant.name}"
    return f"{'! ' if row.wrong else '  '}{name:42} {told} {row.seconds:5.1f}  {verdicts}; {flags}"


if __name__ == "__main__":
    sys.exit(main())
