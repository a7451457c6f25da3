"""Our PGD engine against foolbox's on the same model, images, steps and batches.

    python -m benchmarks.pgd
    python -m benchmarks.pgd --weights cnn.safetensors --layers cnn.json --images test.npz --epsilon 0.1

Measures two things, each as the median ratio of paired runs that alternate with the peer's: all steps on all examples
in the same float32 arithmetic, and robust accuracy, where examples already broken leave our batch. Then what
channels-last memory, bfloat16 autocast, torch.compile and, on a GPU, CUDA graphs add to ours. Without options it trains
its own models on scikit-learn's bundled digits: a small CNN at 1x28x28, and a ResNet-20 at 3x32x32 (an eighth of the
examples on a CPU).
"""

import argparse
import json
import statistics
import time
import warnings
from collections.abc import Callable

import foolbox
import torch
from torch import Tensor

from benchmarks.cases import Case, add_options, given_case, own_cases, parse
from workers.attacks.pgd import PGD
from workers.attacks.robust_accuracy import pgd_untargeted, robust_accuracy
from workers.models.replaying import Replayed

Call = Callable[[], object]


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
            "CUDA graphs": Replayed(self.case.model) if kind == "cuda" else "not available: no GPU",
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
    add_options(parser)
    parser.add_argument("--epsilon", type=float, help="radius; default: where about half of the examples break")
    arguments = parse(parser)
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
