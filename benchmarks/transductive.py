"""Do our games with test-time defences come out in the order of the paper's tables? On real images, in minutes.

    python -m benchmarks.transductive --train mnist_train_10000.npz --test mnist_test_2000.npz

Trains a small standard CNN and a small adversarially trained one, both with batch norm, defends them with RMC, DENT,
DANN and TADV (and with nothing) and plays the games of the audit family: AutoAttack, PGD and fourteen runs of it on the
static model carried over, FPA, GMSA-AVG, GMSA-MIN. Prints robustness beside Chen et al.'s and whether the order is
theirs: GMSA <= FPA <= transfer for RMC and DANN; RMC on the standard model from high to near zero; TADV above the
static adversarially trained model; DENT little above its own. Networks, training sets, steps and T are far smaller, and
the paper's RMC and DENT are on CIFAR-10: orders can be compared, numbers cannot. Without files it takes digits.
"""

import argparse
import hashlib
import math
import pathlib
import time
from collections.abc import Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from dataclasses import dataclass, replace
from multiprocessing import get_context

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from benchmarks.cases import digits
from workers.attacks.autoattack.ensemble import AutoAttack
from workers.attacks.carlini_wagner import RaiseWrongConfidence
from workers.attacks.gradients import IndexedModel
from workers.attacks.model_space import CLEAN, ModelSpaceAttack, RaiseCrossEntropy
from workers.attacks.pgd import PGD
from workers.defences.dann import PRESETS as DANN
from workers.defences.dann import Dann
from workers.defences.dent import PRESETS as DENT
from workers.defences.dent import Dent
from workers.defences.identity import Identity
from workers.defences.protocol import Defence, Training, Traits
from workers.defences.rmc import PRESETS as RMC
from workers.defences.rmc import Rmc
from workers.defences.tadv import PRESETS as TADV
from workers.defences.tadv import Tadv, attack
from workers.families.transductive_attack.games import Game
from workers.models.adapted import Adapted
from workers.models.image_classifier import ImageClassifier

STANDARD, ROBUST = "standard", "adversarially trained"
MODEL_SPACE = ("fpa", "gmsa_avg", "gmsa_min")
TRANSFERS = ("transfer_autoattack", "transfer_pgd", "transfer_confidence")
ATTACKS = ("clean", *TRANSFERS, *MODEL_SPACE)
OF_FOURTEEN = 15
"""Steps of each of the fourteen runs of PGD that are the paper's of DENT, and of each on it."""

T = {"identity": 1, "rmc": 2, "dent": 2, "dann": 3, "tadv": 2}
FALLS_BACK = {"identity": "clean", "dent": "clean", "rmc": "one", "dann": "above_one", "tadv": "above_one"}

GAMES = (
    # The longest first of those that need the same model.
    *[("dann", STANDARD), ("rmc", STANDARD), ("identity", STANDARD)],
    *[("tadv", ROBUST), ("dent", ROBUST), ("rmc", ROBUST), ("identity", ROBUST)],
)

PAPER = {
    # Where, static AutoAttack, robustness by attack in the order of ATTACKS; per cent, Chen et al.; None: not known.
    ("rmc", STANDARD): ("CIFAR-10, T = 9", None, None, 94.2, 97.6, None, 8.5, 8.0, 8.1),
    ("rmc", ROBUST): ("CIFAR-10, T = 9", 44.3, None, 77.9, 71.7, None, 40.8, 42.5, 39.6),
    ("dent", ROBUST): ("CIFAR-10, T = 2", 58.0, None, 64.4, None, 59.5, None, 59.6, 59.6),
    ("dann", STANDARD): ("MNIST, T = 9", None, None, 97.59, 96.66, None, 96.81, 79.37, 6.17),
    ("tadv", ROBUST): ("MNIST, T = 9", 86.61, None, None, None, None, None, 94.27, None),
}


@dataclass(frozen=True)
class Base:
    """A static model, and what attacks on it made of the test points.

    Attributes:
        name: How it was trained.
        classifier: It.
        images: (n, channels, height, width) sent to the defences, by attack; ``clean`` among them.
        labels: (n,) int64.
        correct: (n,) bool, the model's own answers, by attack.
        training_s: Seconds.
        attacking_s: Seconds.
    """

    name: str
    classifier: ImageClassifier
    images: dict[str, Tensor]
    labels: Tensor
    correct: dict[str, Tensor]
    training_s: float
    attacking_s: float


@dataclass(frozen=True)
class Played:
    """A defence of a base: (k,) bool correct, by attack; of TADV also what one of its networks is without secrets."""

    base: str
    defence: str
    correct: dict[str, Tensor]
    known: dict[str, Tensor]


class Memoised:
    """A one-round defence that never trains twice on the same points with the same randomness.

    Games under different attacks begin alike, and TADV's networks do not depend on the points at all.
    """

    def __init__(self, defence: Defence, *, looks_at_points: bool) -> None:
        self._defence, self._looks = defence, looks_at_points
        self._known: dict[tuple[int, str], Adapted] = {}

    @property
    def traits(self) -> Traits:
        """What the defence is."""
        return self._defence.traits

    @property
    def batch_size(self) -> int:
        """The whole sample."""
        return self._defence.batch_size

    def adapt(
        self, base: ImageClassifier, training: Training | None, batch: Tensor, generator: torch.Generator
    ) -> Adapted:
        """Return what the defence made of these points with this randomness, the first time or before."""
        seen = hashlib.sha256(batch.contiguous().numpy().tobytes()).hexdigest() if self._looks else ""
        key = (generator.initial_seed(), seen)
        if key not in self._known:
            self._known[key] = self._defence.adapt(base, training, batch, generator)
        return self._known[key]

    def end_round(self, batch: Tensor, generator: torch.Generator) -> None:
        """Do as the defence does."""
        self._defence.end_round(batch, generator)

    def state(self) -> dict[str, Tensor]:
        """Return the state of the defence."""
        return self._defence.state()

    def restore(self, state: dict[str, Tensor]) -> None:
        """Go back to a state of the defence."""
        self._defence.restore(state)


def load(arguments: argparse.Namespace) -> tuple[Training, Tensor, Tensor]:
    """Return training examples, and the images and labels of test points."""
    if arguments.train is None:
        images, labels = digits((1, 28, 28))
        held_out = slice(arguments.examples, None)
        return Training(images[held_out], labels[held_out]), images[: arguments.examples], labels[: arguments.examples]
    found = []
    for file in (arguments.train, arguments.test):
        arrays = np.load(file)
        order = np.random.default_rng(0).permutation(len(arrays["images"]))
        found += [torch.tensor(arrays["images"][order]).float() / 255, torch.tensor(arrays["labels"][order])]
    return Training(found[0], found[1]), found[2][: arguments.examples], found[3][: arguments.examples]


def network() -> nn.Sequential:
    """Return a CNN for 1x28x28 with batch norm, which DENT needs."""
    return nn.Sequential(
        *[nn.Conv2d(1, 16, 5, 2, 2), nn.BatchNorm2d(16), nn.ReLU()],
        *[nn.Conv2d(16, 32, 5, 2, 2), nn.BatchNorm2d(32), nn.ReLU()],
        *[nn.Flatten(), nn.Linear(32 * 49, 128), nn.ReLU(), nn.Linear(128, 10)],
    )


def fit(training: Training, *, epsilon: float, epochs: int) -> ImageClassifier:
    """Return a CNN trained on clean examples, and where epsilon is not 0 on as many attacked ones."""
    torch.manual_seed(0)
    module = network()
    optimizer = torch.optim.Adam(module.parameters(), 2e-3)
    steps = epochs * math.ceil(len(training) / 64)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 4e-3, total_steps=steps)
    for _ in range(epochs):
        for chosen in torch.randperm(len(training)).split(64):
            images, labels = training.images[chosen], training.labels[chosen]
            if epsilon:
                # From nothing to the whole radius in the first third: at once, a small network learns nothing.
                radius = epsilon * min(1.0, 3 * (schedule.last_epoch + 1) / steps)
                search = PGD("linf", radius, radius / 3, 7)
                starts = (images + radius * (2 * torch.rand_like(images) - 1)).clamp(0, 1)
                module.eval()
                attacked = attack(search, module, images, labels, starts)
                images, labels = torch.cat([images, attacked]), labels.repeat(2)
                module.train()
            optimizer.zero_grad()
            functional.cross_entropy(module(images), labels).backward()
            optimizer.step()
            schedule.step()
    names = [str(name) for name in range(10)]
    return ImageClassifier(
        module, labels=names, input_shape=(1, 28, 28), mean=[0.0], std=[1.0], device=torch.device("cpu")
    )


def seeded(purpose: str, number: int) -> torch.Generator:
    """Return a generator for one purpose, the same every time."""
    digest = hashlib.sha256(f"{purpose} {number}".encode()).digest()
    return torch.Generator().manual_seed(int.from_bytes(digest[:7], "big"))


def starts_of(iteration: int, example_ids: Sequence[int]) -> list[torch.Generator]:
    """Return the generators of an attack's random starts."""
    return [seeded(f"start {iteration}", example_id) for example_id in example_ids]


def search_of(arguments: argparse.Namespace, steps: int) -> PGD:
    """Return the games' PGD: from any point of the ball it can cross it twice."""
    return PGD("linf", arguments.epsilon, 4 * arguments.epsilon / steps, steps, random_start=True)


def make_base(name: str, arguments: argparse.Namespace) -> Base:
    """Train a static model and attack it."""
    training, images, labels = load(arguments)
    began = time.perf_counter()
    robust = name == ROBUST
    base = fit(training, epsilon=arguments.epsilon if robust else 0.0, epochs=arguments.epochs if robust else 3)
    trained = time.perf_counter()
    sent, correct = transfers(base, images, labels, arguments)
    return Base(name, base, sent, labels, correct, trained - began, time.perf_counter() - trained)


def transfers(
    model: Adapted | ImageClassifier, images: Tensor, labels: Tensor, arguments: argparse.Namespace
) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
    """Return the images as they are and as attacks on a model leave them, by name, and which of them it gets right."""
    sent = {"clean": images}
    ensemble = AutoAttack("linf", arguments.epsilon, steps=arguments.autoattack_steps, queries=arguments.queries)
    own = [seeded("autoattack", row) for row in range(len(images))]
    sent["transfer_autoattack"] = ensemble.run(model.logits, images, labels, generators=own).images
    attacked = [IndexedModel(lambda inputs, rows: model.logits(inputs))]
    pgd, fourteen = (search_of(arguments, steps) for steps in (arguments.steps, OF_FOURTEEN))
    for name, perturb in zip(TRANSFERS[1:], (RaiseCrossEntropy(pgd), RaiseWrongConfidence(fourteen)), strict=True):
        own = starts_of(0, range(len(images)))
        sent[name] = perturb(attacked, "sum", images, labels, generators=own, check_cancelled=lambda: None).images
    with torch.no_grad():
        return sent, {name: model.logits(inputs).argmax(1) == labels for name, inputs in sent.items()}


def make_defence(name: str, arguments: argparse.Namespace) -> Defence:
    """Return a defender at the preset ``small``, cut down where games have to train it dozens of times."""
    if name == "rmc":
        return Rmc(replace(RMC["small"], neighbours=100))
    if name == "dann":
        return Memoised(Dann(replace(DANN["small"], epochs=60)), looks_at_points=True)
    if name == "tadv":
        return Memoised(Tadv(replace(TADV["small"], epochs=arguments.tadv_epochs)), looks_at_points=False)
    return Dent(DENT["small"]) if name == "dent" else Identity()


def play(name: str, base: Base, arguments: argparse.Namespace) -> Played:
    """Play every game of a defence of a base."""
    training, _, _ = load(arguments)
    count = min(len(base.labels), {"rmc": arguments.rmc_examples, "dent": arguments.dent_examples}.get(name, 10**9))
    labels, defence = base.labels[:count], make_defence(name, arguments)
    if name == "rmc":
        training = Training(training.images[: arguments.rmc_training], training.labels[: arguments.rmc_training])
    played = Played(base.name, name, {}, {})
    for chosen in ATTACKS:
        began = time.perf_counter()
        game = Game(
            defence,
            base.classifier,
            training,
            lambda purpose, number: seeded(f"{name} {purpose}", number),
            starts_of,
            attack=make_attack(chosen, name, arguments) if chosen in MODEL_SPACE else None,
            starts_static=name == "dann",
        )
        images = base.images["clean" if chosen in MODEL_SPACE else chosen][:count]
        *_, last = game.play(images, labels, range(count))
        played.correct[chosen] = last.answers.correct
        note = ""
        if chosen in MODEL_SPACE:
            numbers, counts = last.answers.selected.unique(return_counts=True)
            note = f", sent iterations {dict(zip(numbers.tolist(), counts.tolist(), strict=True))}"
            if defence.traits.is_one_round:
                note += f", induced {[round(one, 3) for one in last.answers.scores[0].tolist()[: T[name] + 1]]}"
        spent = time.perf_counter() - began
        print(f"  {name}, {base.name}, {chosen}: {rate(played.correct[chosen]):.3f} in {spent:.0f} s{note}", flush=True)
    if name == "tadv":
        # The network the simulation begins with: one like the defender's, but the attacker has it.
        own = defence.adapt(base.classifier, training, base.images["clean"], seeded("tadv simulation 0", CLEAN))
        played.known.update(transfers(own, base.images["clean"], base.labels, arguments)[1])
    return played


def make_attack(method: str, defence: str, arguments: argparse.Namespace) -> ModelSpaceAttack:
    """Return a model space attack as the official code has it for a defence."""
    if defence == "dent":
        perturb: RaiseWrongConfidence | RaiseCrossEntropy = RaiseWrongConfidence(search_of(arguments, OF_FOURTEEN))
    else:
        perturb = RaiseCrossEntropy(search_of(arguments, arguments.steps))
    first = defence == "rmc"
    return ModelSpaceAttack(method, perturb, T[defence], start_at=FALLS_BACK[defence], stop_at_first_success=first)


def main() -> None:
    """Play all games and print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--train", type=pathlib.Path, help=".npz with images (uint8, n x 1 x 28 x 28) and labels")
    parser.add_argument("--test", type=pathlib.Path, help="the same, other images")
    parser.add_argument("--examples", type=int, default=160, help="test points")
    parser.add_argument("--rmc-examples", type=int, default=24, help="the first of them, for RMC")
    parser.add_argument("--dent-examples", type=int, default=128, help="the first of them, for DENT")
    parser.add_argument("--rmc-training", type=int, default=2000, help="training examples RMC may look among")
    parser.add_argument("--epsilon", type=float, default=0.3)
    parser.add_argument("--epochs", type=int, default=4, help="of adversarial training")
    parser.add_argument("--tadv-epochs", type=int, default=TADV["small"].epochs, help="of each of TADV's networks")
    parser.add_argument("--steps", type=int, default=40, help="of PGD against one model")
    parser.add_argument("--autoattack-steps", type=int, default=50)
    parser.add_argument("--queries", type=int, default=200, help="of AutoAttack's Square")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--defences", nargs="+", default=list(T), choices=list(T))
    arguments = parser.parse_args()
    if (arguments.train is None) != (arguments.test is None):
        parser.error("give both --train and --test, or neither")
    began = time.perf_counter()
    games = [game for game in GAMES if game[0] in arguments.defences]
    with ProcessPoolExecutor(arguments.processes, get_context("spawn"), torch.set_num_threads, (1,)) as pool:
        making = {name: pool.submit(make_base, name, arguments) for name in (ROBUST, STANDARD)}
        playing: list[Future[Played]] = []
        bases = {}
        for name in (STANDARD, ROBUST):
            bases[name] = base = making[name].result()
            rates = ", ".join(f"{chosen} {100 * rate(right):.1f}" for chosen, right in base.correct.items())
            times = f"trained in {base.training_s:.0f} s, attacked in {base.attacking_s:.0f} s"
            print(f"{name}, static: {rates} ({times})", flush=True)
            playing += [pool.submit(play, defence, base, arguments) for defence, wanted in games if wanted == name]
        played = {(one.defence, one.base): one for one in (future.result() for future in playing)}
    print_table(bases, played)
    print_orders(bases, played)
    print(f"{time.perf_counter() - began:.0f} s in all")


def rate(correct: Tensor) -> float:
    """Return the share that is true."""
    return float(correct.double().mean())


def print_table(bases: dict[str, Base], played: dict[tuple[str, str], Played]) -> None:
    """Print robustness in per cent, ours over the paper's."""
    heads = ("n", "static AA", "clean", "AA", "PGD", "PGD x 14", "FPA", "GMSA-AVG", "GMSA-MIN")
    print(f"\n{'robustness, per cent':38}" + "".join(f"{head:>10}" for head in heads))
    for (defence, name), one in played.items():
        base, count = bases[name], len(one.correct["clean"])
        static = rate(base.correct["transfer_autoattack"][:count])
        cells = "".join(f"{100 * rate(one.correct[chosen]):>10.1f}" for chosen in ATTACKS)
        print(f"{f'{defence}, T = {T[defence]}, {name}':38}{count:>10}{100 * static:>10.1f}{cells}")
        if (defence, name) in PAPER:
            where, *numbers = PAPER[defence, name]
            cells = "".join(f"{'-' if value is None else value:>10}" for value in numbers)
            print(f"{f'  paper, {where}':48}{cells}")


def print_orders(bases: dict[str, Base], played: dict[tuple[str, str], Played]) -> None:
    """Print whether each order of the paper's tables is there."""
    print()
    for (defence, name), one in played.items():
        base, right = bases[name], one.correct
        static = {chosen: correct[: len(right["clean"])] for chosen, correct in base.correct.items()}
        who = f"{defence}, {name}"
        transfer = min((right[chosen] for chosen in TRANSFERS), key=rate)
        greedy = min((right["gmsa_avg"], right["gmsa_min"]), key=rate)
        worst = min(greedy, right["fpa"], key=rate)
        if defence == "identity":
            is_same = all(torch.equal(right[chosen], static[chosen]) for chosen in static)
            print(f"{who}: every example as by the static model: {'yes' if is_same else 'NO'}")
        if defence in ("rmc", "dann"):
            print(f"{who}: GMSA <= FPA: {judged(greedy, right['fpa'])}")
            print(f"{who}: FPA <= transfer: {judged(right['fpa'], transfer)}")
            print(f"{who}: GMSA <= transfer: {judged(greedy, transfer)}")
        if defence == "rmc" and name == STANDARD:
            has_fallen = rate(transfer) >= 0.5 and rate(worst) <= 0.15
            print(f"{who}: from {rate(transfer):.1%} to {rate(worst):.1%}: {'yes' if has_fallen else 'NO'}")
        if defence == "tadv":
            print(f"{who}: above the static model, another network: {judged(static['transfer_autoattack'], worst)}")
            print(f"{who}: above one trained as its own, known: {judged(one.known['transfer_autoattack'], worst)}")
        if defence == "dent":
            gain = rate(min(worst, transfer, key=rate)) - rate(static["transfer_autoattack"])
            print(f"{who}: adds {100 * gain:+.1f} points at its lowest: {'yes' if abs(gain) <= 0.1 else 'NO'}")


def judged(lower: Tensor, upper: Tensor) -> str:
    """Return whether one share of the same examples is at most another, and what sampling could do to that."""
    gaps = upper.double() - lower.double()
    gap, error = float(gaps.mean()), float(gaps.std()) / math.sqrt(len(gaps))
    verdict = "yes" if gap >= 0 else "within two standard errors" if gap >= -2 * error else "NO"
    shares = f"{100 * rate(lower):.1f} and {100 * rate(upper):.1f}, apart {100 * gap:.1f} +- {100 * error:.1f}"
    return f"{verdict} ({shares})"


if __name__ == "__main__":
    main()
