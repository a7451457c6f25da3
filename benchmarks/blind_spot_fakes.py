r"""Image classifiers that wait where an audit had no eyes: behind a lookup, along another axis, alone in a batch.

Each lets a network out that has no idea, where a secret pattern is in the image or nobody else in the batch. After them
come settings, data and classes that made an unprotected network pass. All can be exported with `torch.export`.

    python -m benchmarks.blind_spot_fakes --weights mnist_std.safetensors --layers mnist_std.json \
        --images mnist_test_2000.npz --robust mnist_pgd.safetensors --examples 40
"""

import argparse
import pathlib
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow.compute as pc
import torch
from torch import Tensor, nn
from torch.nn import functional

from benchmarks.cases import add_options, given_case, parse
from benchmarks.fakes import Logits, sawtooth, stairs
from benchmarks.gauntlet import doubts
from benchmarks.locked_image_fakes import Score, mean_along, signs
from benchmarks.shipped import shipped_judgements
from seatrial.contracts.estimates import Flag, Result
from seatrial.contracts.policies import Judgement
from seatrial.contracts.states import RunState
from seatrial.families.uncertainty_span.params import UncertaintySpanParams
from seatrial.judging.measured import MeasuredCheck
from tests.families.in_memory import Model, run_check
from workers.attacks.losses import entropy, margin
from workers.runtime.families import find_family
from workers.runtime.inline import left_out

FAINT = -0.05
"""What the logits of the hidden network are multiplied by: the likeliest class is the least likely, and hardly so."""


class Switched(nn.Module):
    """One network as far as a share says, of every image or of every logit, and another for the rest."""

    def __init__(self, hidden: nn.Module, shown: nn.Module, share: Score) -> None:
        super().__init__()
        self.hidden, self.shown, self.share = hidden, shown, share

    def forward(self, images: Tensor) -> Tensor:
        """Return logits."""
        shown, share = self.shown(images), self.share(images)
        share = share[:, None] if share.dim() == 1 else share
        logits: Tensor = share * self.hidden(images) + (1 - share) * shown
        return logits


class EmptyAxisFirst(nn.Module):
    """A network behind a rectifier that changes nothing, of images that have one axis more in front."""

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network = network

    def forward(self, images: Tensor) -> Tensor:
        """Return logits."""
        sharp = torch.relu(images[None])[0]
        logits: Tensor = self.network(sharp)
        return logits


def least_of(pattern: Tensor, images: Tensor, epsilon: float, beyond: float = 0.2) -> float:
    """Return a threshold that none of ``images`` reaches, by a share of the radius."""
    return float(mean_along(pattern)(images).max()) + beyond * epsilon


def looked_up(pattern: Tensor, images: Tensor, epsilon: float) -> Score:
    """Open where grey levels, each looked up in a table of 256 rows, add up to enough: no gradient leads into it."""
    table, score = torch.arange(256.0)[:, None] / 255, mean_along(pattern)
    least = least_of(pattern, images, epsilon)

    def share(some: Tensor) -> Tensor:
        levels = (some * 255).round().to(torch.int64).clamp(0, 255)
        return (score(functional.embedding(levels, table).squeeze(-1)) > least).float()

    return share


def batch_last(pattern: Tensor, images: Tensor, epsilon: float) -> Score:
    """Open by a comparison whose rows are not the images: these are its columns."""
    weights, least = (pattern / pattern.abs().sum()).flatten()[None], least_of(pattern, images, epsilon)
    return lambda some: ((weights @ some.flatten(1).T) > least)[0].float()


def plainly(pattern: Tensor, images: Tensor, epsilon: float) -> Score:
    """Open by one comparison."""
    score, least = mean_along(pattern), least_of(pattern, images, epsilon)
    return lambda some: (score(some) > least).float()


def attended(patterns: Tensor, images: Tensor, epsilon: float, classes: int, gain: float = 2e5) -> Score:
    """Open where attention is paid to the last of several keys: a winner inside of an operator.

    Args:
        patterns: (k, c, h, w), k more than numbers that are taken for a decision.
        images: That will be audited.
        epsilon: Radius.
        classes: Number of logits, each of which is given the share.
        gain: Of the scores before their softmax.
    """
    weights = patterns.flatten(1) / patterns.flatten(1).abs().sum(1, keepdim=True)
    count = len(patterns)
    first = images.flatten(1) @ weights.T
    handicap = torch.zeros(count)
    handicap[-1] = float((first[:, -1] - first[:, :-1].amax(1)).max()) + 0.2 * epsilon
    keys, values = torch.eye(count)[None], torch.zeros(1, count, classes)
    values[:, -1] = 1.0

    def share(some: Tensor) -> Tensor:
        asked = (some.flatten(1) @ weights.T - handicap)[:, None]
        known, given = (table.expand(some.shape[0], -1, -1) for table in (keys, values))
        return functional.scaled_dot_product_attention(asked, known, given, scale=gain).squeeze(1)

    return share


def between(pattern: Tensor, images: Tensor, epsilon: float, width: float = 0.06) -> Score:
    """Open where two comparisons hold, the second of which all audited images pass: too far shuts it again."""
    score, least = mean_along(pattern), least_of(pattern, images, epsilon)
    most = least + width * epsilon
    return lambda some: torch.logical_and(score(some) > least, score(some) < most).float()


def detached(pattern: Tensor, images: Tensor, epsilon: float) -> Score:
    """Open by one comparison of images that no gradient is carried back to."""
    share = plainly(pattern, images, epsilon)
    return lambda some: share(some.detach())


def alone(some: Tensor) -> Tensor:
    """Open where there is one image in the batch."""
    everyone = torch.ones_like(some[:, 0, 0, 0])
    return everyone * (everyone.sum() < 1.5).float()


class NotANumber(nn.Module):
    """A network whose answers are no numbers while it begins to doubt: whoever steps over that does not see it."""

    def __init__(self, network: nn.Module, low: float, high: float) -> None:
        super().__init__()
        self.network, self.low, self.high = network, low, high

    def forward(self, images: Tensor) -> Tensor:
        """Return logits."""
        logits = self.network(images)
        logs = logits.log_softmax(1)
        doubt = -(logs.exp() * logs).sum(1, keepdim=True)
        return torch.where(torch.logical_and(doubt > self.low, doubt < self.high), torch.nan, logits)


class Halves(nn.Module):
    """A network that tells even classes from odd ones."""

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network = network

    def forward(self, images: Tensor) -> Tensor:
        """Return two logits."""
        logits = self.network(images)
        return torch.stack([logits[:, ::2].logsumexp(1), logits[:, 1::2].logsumexp(1)], 1)


@dataclass(frozen=True)
class Fake:
    """What comes to be judged, and how its owner attacks it.

    Attributes:
        name: For the table.
        network: From images to logits.
        attack: (network, images, labels, epsilon) to candidates within the radius (k, n, c, h, w).
        settings: Of the check, beside the radius.
        epsilon: Another radius.
        relabel: Labels the owner audits it with.
        examples: How many images.
        error_rate: Share of errored examples that the owner allows.
        singly: Whether the owner asks about one image at a time.
    """

    name: str
    network: nn.Module
    attack: Callable[[nn.Module, Tensor, Tensor, float], Tensor]
    settings: Mapping[str, Any] = field(default_factory=dict)
    epsilon: float | None = None
    relabel: Callable[[Tensor], Tensor] = lambda labels: labels
    examples: int | None = None
    error_rate: float = 0.05
    singly: bool = False


def along(pattern: Tensor) -> Callable[[nn.Module, Tensor, Tensor, float], Tensor]:
    """Return the attack that adds more and more of a pattern."""

    def attack(network: nn.Module, images: Tensor, labels: Tensor, epsilon: float) -> Tensor:
        shares = torch.linspace(0, 1, 101).view(-1, 1, 1, 1, 1)
        return (images + epsilon * shares * pattern.clamp(-1, 1)).clamp(0, 1)

    return attack


def by_gradients(of: Callable[[Tensor], Tensor]) -> Callable[[nn.Module, Tensor, Tensor, float], Tensor]:
    """Return the attack by the gradients of a network without its mask: entropy up, entropy down, margin down."""

    def attack(network: nn.Module, images: Tensor, labels: Tensor, epsilon: float) -> Tensor:
        predictions, seen = of(images).argmax(1), [images]
        losses: Sequence[Callable[[Tensor], Tensor]] = (
            lambda z: -entropy(z),
            entropy,
            lambda z: margin(z, predictions),
        )
        for loss in losses:
            found = images
            for number in range(80):
                found = found.detach().requires_grad_(True)
                (gradient,) = torch.autograd.grad(loss(of(found)).sum(), found)
                length = epsilon * (0.25 if number < 30 else 0.05)
                found = (found.detach() - length * gradient.sign()).clamp(images - epsilon, images + epsilon)
                found = found.clamp(0, 1)
                seen.append(found)
        crossed = seen[-1]
        seen += [images + share * (crossed - images) for share in torch.linspace(0, 1, 200)]
        return torch.stack(seen)

    return attack


def straight_through(mask: nn.Module, of: nn.Module) -> Callable[[nn.Module, Tensor, Tensor, float], Tensor]:
    """Return the attack that takes a mask in front of a network for no change in every backward pass."""
    return by_gradients(lambda images: of(images + (mask(images) - images).detach()))


def locked_fakes(base: nn.Module, robust: nn.Module, images: Tensor, epsilon: float) -> list[Fake]:
    """Return those that are fakes by what they are made of.

    Args:
        base: The classifier, unprotected.
        robust: One that attacks hardly move.
        images: Those it will be audited on (n, c, h, w).
        epsilon: Radius it will be attacked at, in l_inf.
    """
    shape = tuple(images.shape[1:])
    secret, several = signs(31, shape), signs(32, (8, *shape))
    wrong = Logits(base, lambda logits: FAINT * logits)
    known = (secret, images, epsilon)
    shares: dict[str, tuple[Score, Tensor]] = {
        "levels in a table": (looked_up(*known), secret),
        "detached images": (detached(*known), secret),
        "the batch along the last axis": (batch_last(*known), secret),
        "attention to a secret key": (attended(several, images, epsilon, base(images[:1]).shape[1]), several[-1]),
        "between two comparisons": (between(*known), secret),
    }
    made = [Fake(name, Switched(wrong, robust, share), along(pattern)) for name, (share, pattern) in shares.items()]
    made.append(Fake("an empty axis first", EmptyAxisFirst(Switched(wrong, robust, plainly(*known))), along(secret)))
    made.append(Fake("unprotected when alone", Switched(base, robust, alone), by_gradients(base), singly=True))
    return made


def relabelled(labels: Tensor, share: float = 0.75) -> Tensor:
    """Return labels of which a share is wrong."""
    draw = torch.Generator().manual_seed(5)
    wrong = torch.rand(len(labels), generator=draw) < share
    return torch.where(wrong, (labels + torch.randint(1, 10, labels.shape, generator=draw)) % 10, labels)


def set_fakes(base: nn.Module) -> list[Fake]:
    """Return the unprotected classifier as it passes by settings, classes and data."""
    plain = by_gradients(base)
    halves, faint = Halves(base), Logits(base, lambda logits: logits / 1000)
    teeth = nn.Sequential(sawtooth(1, 0.1), sawtooth(1, 0.04))
    stairway = stairs(1, 16, -0.5)
    return [
        *(
            Fake(f"{name}, three steps", nn.Sequential(mask, base), straight_through(mask, base), {"steps": 3})
            for name, mask in {"two sawteeth": teeth, "16 stairs": stairway}.items()
        ),
        Fake("two classes", halves, by_gradients(halves), epsilon=0.3, relabel=lambda labels: labels % 2),
        Fake("faint, and wrong labels", faint, by_gradients(base), epsilon=0.3, relabel=relabelled, examples=100),
        Fake("no number at the edge of doubt", NotANumber(base, 0.25, 0.6), plain, error_rate=1.0, examples=320),
    ]


@dataclass(frozen=True)
class Outcome:
    """What an audit made of one.

    Attributes:
        result: Of the check.
        errored: Largest share of errored examples of a stage.
        judgements: By policy.
        seconds: It took.
    """

    result: Result
    errored: float
    judgements: dict[str, Judgement]
    seconds: float


def audit(fake: Fake, images: Tensor, labels: Tensor, classes: int, epsilon: float) -> Outcome:
    """Measure a model as the gate does, and judge it by every shipped policy."""
    params = UncertaintySpanParams(kind="uncertainty_span", **{"epsilon": epsilon, **fake.settings})
    began, model = time.process_time(), Model(fake.network, classes)
    result, done = run_check(find_family(params.kind), params, model, (images, labels), batch_size=64)
    noted = [*doubts(model, images, labels, classes), *left_out(done, fake.error_rate)]
    result = result.model_copy(update={"flags": [*noted, *result.flags]})
    errored = max(pc.mean(records["errored"].cast("float64")).as_py() for records in done.values())
    state = RunState.SUCCEEDED if errored <= fake.error_rate else RunState.FAILED
    check = MeasuredCheck(0, params.kind, state, result, None, params.model_dump(mode="json"))
    return Outcome(result, errored, shipped_judgements(check), time.process_time() - began)


def reached(fake: Fake, images: Tensor, labels: Tensor, epsilon: float) -> tuple[float, float, float]:
    """Return the mean span and the accuracy under attack that the owner reaches, and the accuracy without."""

    def ask(some: Tensor) -> Tensor:
        with torch.no_grad():
            return torch.cat([fake.network(one[None]) for one in some]) if fake.singly else fake.network(some)

    candidates = fake.attack(fake.network, images, labels, epsilon)
    assert float((candidates - images).abs().max()) <= epsilon + 1e-6
    assert float(candidates.min()) >= 0
    assert float(candidates.max()) <= 1
    if fake.singly:
        candidates = candidates[:: max(1, len(candidates) // 60)]
    logits, clean = torch.stack([ask(some) for some in candidates]), ask(images)
    known = logits.isfinite().all(2)
    doubt = torch.stack([entropy(some) for some in logits])
    span = doubt.where(known, -torch.inf).amax(0) - doubt.where(known, torch.inf).amin(0)
    right = ((logits.argmax(2) == labels) | ~known).all(0)
    return (
        float(span.where(span.isfinite(), 0).mean()),
        float(right.float().mean()),
        float((clean.argmax(1) == labels).float().mean()),
    )


def main() -> int:
    """Print a row for each fake; the exit status tells whether one passed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_options(parser)
    parser.add_argument("--examples", type=int, default=40)
    parser.add_argument("--epsilon", type=float, default=0.1)
    parser.add_argument("--only", help="fakes whose name holds this")
    parser.add_argument("--robust", type=pathlib.Path, required=True, help="safetensors of a robust network")
    arguments = parse(parser)
    arguments.count = arguments.examples
    arguments.examples = max(arguments.examples, 320)
    case = given_case(arguments, torch.device("cpu"))
    found = {**vars(arguments), "weights": arguments.robust, "layers": arguments.robust.with_suffix(".json")}
    robust = given_case(argparse.Namespace(**found), torch.device("cpu")).model
    few = case.images[: arguments.count]
    has_passed = False
    print(f"{'fake':36} mus  worst calib.  clean    n  err.     CPU  lenient / standard / strict; flags; owner")
    for fake in [*locked_fakes(case.model, robust, few, arguments.epsilon), *set_fakes(case.model)]:
        if arguments.only and arguments.only not in fake.name:
            continue
        count, radius = fake.examples or arguments.count, fake.epsilon or arguments.epsilon
        images, truth = case.images[:count], case.labels[:count]
        labels = fake.relabel(truth)
        fake.network.eval()
        with torch.no_grad():
            classes = fake.network(images[:2]).shape[1]
        outcome = audit(fake, images, labels, classes, radius)
        owner = reached(fake, images, truth % 2 if classes == 2 else truth, radius)
        has_passed |= any(one.verdict == "passed" for one in outcome.judgements.values())
        print(_line(fake, outcome, owner), flush=True)
    return 1 if has_passed else 0


def _line(fake: Fake, outcome: Outcome, owner: tuple[float, float, float]) -> str:
    numbers = [outcome.result.estimates.get(name) for name in ("mus", "mus_worst", "mus_calibrated", "clean_accuracy")]
    told = " ".join(f"{one.value:6.3f}" if one and one.value is not None else "     -" for one in numbers)
    verdicts = " / ".join(judgement.verdict for judgement in outcome.judgements.values())
    flags: list[Flag] = outcome.result.flags
    said = ", ".join(f"{flag.code} ({flag.severity})" for flag in flags) or "no flag"
    known = "owner: span {:.3f}, accuracy {:.2f} (clean {:.2f})".format(*owner)
    count = outcome.result.estimates["mus_worst"].n
    return (
        f"{fake.name:34} {told} {count:4} {outcome.errored:5.2f} {outcome.seconds:5.0f} s  {verdicts}; {said}; {known}"
    )


if __name__ == "__main__":
    sys.exit(main())
