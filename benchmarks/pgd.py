"""Our PGD engine against foolbox's on the same model, images, steps and batches.

    python benchmarks/pgd.py
    python benchmarks/pgd.py --weights cnn.safetensors --layers cnn.json --images test.npz --epsilon 0.1

Measures two things, each as the median ratio of paired runs that alternate with the peer's: all steps on all examples
in the same float32 arithmetic, and robust accuracy, where examples already broken leave our batch. Then what
channels-last memory, bfloat16 autocast and torch.compile add to ours. Without options it trains its own models on
scikit-learn's bundled digits: a small CNN at 1x28x28, and a ResNet-20 at 3x32x32 (an eighth of the examples on a CPU).
"""

import argparse
import json
import pathlib
import statistics
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass

import foolbox
import numpy as np
import torch
from sklearn.datasets import load_digits
from torch import Tensor, nn
from torch.nn import functional

from app.contracts.targets import LayersArchitecture
from workers.attacks.pgd import PGD
from workers.attacks.robust_accuracy import pgd_untargeted, robust_accuracy
from workers.targets.architectures import CifarResNet, layers

Call = Callable[[], object]


@dataclass(frozen=True)
class Case:
    """A model to attack, and with what."""

    name: str
    model: nn.Module
    images: Tensor
    labels: Tensor
    epsilon: float | None = None


def digits(shape: tuple[int, int, int]) -> tuple[Tensor, Tensor]:
    """Return the bundled 8x8 digits enlarged to (n, *shape) in [0, 1], and their labels."""
    bundle = load_digits()
    images = torch.tensor(bundle.images / 16, dtype=torch.float32).unsqueeze(1)
    images = functional.interpolate(images, shape[1:], mode="bilinear").clamp(0, 1).expand(-1, *shape).contiguous()
    order = torch.randperm(len(images), generator=torch.Generator().manual_seed(0))
    return images[order], torch.tensor(bundle.target)[order]


def train(model: nn.Module, images: Tensor, labels: Tensor, epochs: int) -> nn.Module:
    """Fit a model in the ordinary way and freeze it."""
    optimizer = torch.optim.Adam(model.parameters(), 2e-3)
    for _ in range(epochs):
        for batch in torch.randperm(len(images)).split(64):
            optimizer.zero_grad()
            functional.cross_entropy(model(images[batch]), labels[batch]).backward()
            optimizer.step()
    return model.eval().requires_grad_(False)


def own_cases(examples: int, device: torch.device) -> list[Case]:
    """Return two small models trained here."""
    torch.manual_seed(0)
    cases = []
    cnn = nn.Sequential(
        *[nn.Conv2d(1, 16, 4, 2, 1), nn.ReLU(), nn.Conv2d(16, 32, 4, 2, 1), nn.ReLU()],
        *[nn.Flatten(), nn.Linear(32 * 49, 100), nn.ReLU(), nn.Linear(100, 10)],
    )
    for name, model, shape, epochs in (
        ("small CNN 1x28x28", cnn, (1, 28, 28), 5),
        ("ResNet-20 3x32x32", CifarResNet(20, 3, 10), (3, 32, 32), 2),
    ):
        images, labels = (tensor.to(device) for tensor in digits(shape))
        train(model.to(device), images[examples:], labels[examples:], epochs)
        attacked = examples // 8 if device.type == "cpu" and name.startswith("ResNet") else examples
        cases.append(Case(name, model, images[:attacked], labels[:attacked]))
    return cases


def given_case(arguments: argparse.Namespace, device: torch.device) -> Case:
    """Return the model and images of the command line."""
    from safetensors.torch import load_file

    note = json.loads(arguments.layers.read_text())
    if note["arch"][0] == "ResNetCifar":
        model: nn.Module = CifarResNet(6 * note["arch"][1] + 2, 3, 10)
    else:
        model = layers(LayersArchitecture(kind="layers", layers=note["arch"]))
    model.load_state_dict(load_file(str(arguments.weights)), strict=False)
    statistics_ = [torch.tensor(note["normalisation"][key]).view(1, -1, 1, 1) for key in ("mean", "std")]

    class Normalised(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = model
            self.register_buffer("mean", statistics_[0])
            self.register_buffer("std", statistics_[1])

        def forward(self, images: Tensor) -> Tensor:
            return self.inner((images - self.mean) / self.std)

    arrays = np.load(arguments.images)
    order = np.random.default_rng(0).permutation(len(arrays["images"]))[: arguments.examples]
    images = torch.tensor(arrays["images"][order]).float() / 255
    labels = torch.tensor(arrays["labels"][order])
    ready = Normalised().to(device).eval().requires_grad_(False)
    return Case(arguments.weights.stem, ready, images.to(device), labels.to(device), arguments.epsilon)


class Contest:
    """One case: the same attack by us and by the peer."""

    def __init__(self, case: Case, arguments: argparse.Namespace) -> None:
        self.case, self.batch, self.repeats = case, arguments.batch, arguments.repeats
        self.device = case.images.device
        self.epsilon = case.epsilon or self._halving_epsilon(arguments.steps)
        # The usual 2/255 at 8/255.
        self.step_size = self.epsilon / 4
        self.search = PGD("linf", self.epsilon, self.step_size, arguments.steps)
        self.peer_model = foolbox.PyTorchModel(case.model, bounds=(0, 1), device=self.device)
        self.peer = foolbox.attacks.LinfPGD(abs_stepsize=self.step_size, steps=arguments.steps, random_start=False)

    def _halving_epsilon(self, steps: int) -> float:
        """Return the radius at which about half of the examples break: neither everything leaves nor nothing."""
        low, high = 0.0, 0.5
        for _ in range(8):
            middle = (low + high) / 2
            search = PGD("linf", middle, middle / 4, steps)
            robust = robust_accuracy(search, self.case.model, self.case.images, self.case.labels)
            low, high = (middle, high) if robust.float().mean() > 0.5 else (low, middle)
        return high

    def batches(self) -> list[tuple[Tensor, Tensor]]:
        """Return images and labels as both sides get them."""
        return list(zip(self.case.images.split(self.batch), self.case.labels.split(self.batch), strict=True))

    def peer_run(self) -> tuple[Tensor, Tensor]:
        """Return foolbox's last iterates and which examples they break."""
        results = [self.peer(self.peer_model, x, y, epsilons=self.epsilon) for x, y in self.batches()]
        return torch.cat([clipped for _, clipped, _ in results]), torch.cat([broken for *_, broken in results])

    def ours_full(self, model: Callable[[Tensor], Tensor] | None = None) -> tuple[Tensor, Tensor]:
        """Return our last iterates and which examples they break."""
        model = self.case.model if model is None else model
        found = [pgd_untargeted(self.search, model, x, y, until_wrong=False) for x, y in self.batches()]
        final = torch.cat([outcome.final for outcome in found])
        return final, torch.cat([outcome.final_logits[:, 0] for outcome in found]).argmax(1) != self.case.labels

    def ours_early(self) -> Tensor:
        """Return which examples any of our iterates breaks."""
        return torch.cat([~robust_accuracy(self.search, self.case.model, x, y) for x, y in self.batches()])

    def seconds(self, call: Call) -> float:
        """Time one call, to the end of what it left running on a GPU."""
        if self.device.type == "cuda":
            torch.cuda.synchronize()
        start = time.perf_counter()
        call()
        if self.device.type == "cuda":
            torch.cuda.synchronize()
        return time.perf_counter() - start

    def ratio(self, theirs: Call, ours: Call) -> tuple[float, float, float]:
        """Return median seconds of theirs and of ours, and the median of the paired ratios theirs / ours."""
        theirs(), ours()
        pairs = []
        for repeat in range(self.repeats):
            # Who goes first alternates too: a processor slows down as it warms up.
            order = [theirs, ours] if repeat % 2 == 0 else [ours, theirs]
            took = {call: self.seconds(call) for call in order}
            pairs.append((took[theirs], took[ours]))
        return (
            statistics.median(their for their, _ in pairs),
            statistics.median(our for _, our in pairs),
            statistics.median(their / our for their, our in pairs),
        )

    def variants(self) -> dict[str, Callable[[Tensor], Tensor] | str]:
        """Return the model made faster in other ways, or the reason why not."""
        import copy

        last = copy.deepcopy(self.case.model).to(memory_format=torch.channels_last)
        kind = self.device.type

        def autocast(images: Tensor) -> Tensor:
            with torch.autocast(kind, torch.bfloat16):
                return self.case.model(images).float()

        found: dict[str, Callable[[Tensor], Tensor] | str] = {
            "channels_last": lambda images: last(images.contiguous(memory_format=torch.channels_last)),
            "autocast bf16": autocast,
        }
        try:
            compiled = torch.compile(copy.deepcopy(self.case.model), dynamic=False)
            images = self.case.images[: self.batch].clone().requires_grad_()
            torch.autograd.grad(compiled(images).sum(), images)
            found["compile"] = compiled
        except Exception as error:  # compilers fail in many ways; none of them is this script's business
            found["compile"] = f"not available: {type(error).__name__}"
        return found


def report(contest: Contest) -> dict[str, object]:
    """Measure one case, print its table and return its numbers."""
    case = contest.case
    their_images, their_broken = contest.peer_run()
    our_images, our_broken = contest.ours_full()
    same = (our_images - their_images).abs().amax().item()
    early = contest.ours_early()
    full = contest.ratio(contest.peer_run, contest.ours_full)
    robust = contest.ratio(contest.peer_run, contest.ours_early)
    clean = (case.model(case.images).argmax(1) == case.labels).float().mean().item()
    print(f"\n{case.name} on {case.images.device}, {len(case.images)} examples, batches of {contest.batch}, ", end="")
    print(f"l_inf {contest.epsilon:g}, {contest.search.steps} steps, clean accuracy {clean:.3f}")
    print(f"  {'':34}{'foolbox':>9}{'ours':>9}{'ratio':>8}   robust accuracy (foolbox, ours)")
    accuracies = [1 - broken.float().mean().item() for broken in (their_broken, our_broken, early)]
    for name, (theirs, ours, ratio), accuracy in (
        ("all steps, float32", full, accuracies[1]),
        ("robust accuracy, early leaving", robust, accuracies[2]),
    ):
        print(f"  {name:34}{theirs:8.2f}s{ours:8.2f}s{ratio:7.2f}x   {accuracies[0]:.3f}, {accuracy:.3f}")
    numbers: dict[str, object] = {
        "case": case.name,
        "device": str(case.images.device),
        "clean_accuracy": clean,
        "full_ratio": full[2],
        "robust_ratio": robust[2],
        "robust_accuracy": {"foolbox": accuracies[0], "ours_full": accuracies[1], "ours_early": accuracies[2]},
        "largest_pixel_difference": same,
    }
    for name, model in contest.variants().items():
        if isinstance(model, str):
            print(f"  {name:34}{model}")
            numbers[name] = None
            continue
        plain, changed, ratio = contest.ratio(contest.ours_full, lambda model=model: contest.ours_full(model))
        broken = contest.ours_full(model)[1]
        print(f"  ours, {name + ' over plain':28}{plain:8.2f}s{changed:8.2f}s{ratio:7.2f}x   ", end="")
        print(f"{1 - broken.float().mean().item():.3f} with it")
        numbers[name] = ratio
    print(f"  largest pixel difference from foolbox: {same:.2g}")
    return numbers


def main() -> None:
    """Run every case on every device and print a table and one line of JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--examples", type=int, default=256)
    parser.add_argument("--batch", type=int, default=128)
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--threads", type=int, default=0, help="CPU threads; 0: torch's choice")
    parser.add_argument("--weights", type=pathlib.Path, help="safetensors, instead of the script's own models")
    parser.add_argument("--layers", type=pathlib.Path, help="JSON with arch and normalisation (mean, std)")
    parser.add_argument("--images", type=pathlib.Path, help=".npz with images (uint8, NCHW) and labels")
    parser.add_argument("--epsilon", type=float, help="radius; default: where about half of the examples break")
    arguments = parser.parse_args()
    if arguments.threads:
        torch.set_num_threads(arguments.threads)
    warnings.filterwarnings("ignore", category=UserWarning, module="torch")
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
    print(f"torch {torch.__version__}, foolbox {foolbox.__version__}, {torch.get_num_threads()} threads")
    numbers = []
    for device in [torch.device("cpu")] + [torch.device("cuda")] * torch.cuda.is_available():
        cases = [given_case(arguments, device)] if arguments.weights else own_cases(arguments.examples, device)
        numbers += [report(Contest(case, arguments)) for case in cases]
    print("\n" + json.dumps(numbers))


if __name__ == "__main__":
    main()
