"""Our AutoAttack, beside the authors' where it is installed, on the same model, images and radius.

    python -m benchmarks.autoattack
    python -m benchmarks.autoattack --weights cnn.safetensors --layers cnn.json --images test.npz --epsilon 0.0314

Prints robust accuracy, by attack for ours, and processor seconds per example, which other work on the machine changes
less than the clock; runs alternate and the ratio is the median of the paired ones. The peer is the PyPI package
``pyautoattack``, the authors' program made installable (``pip install --no-deps pyautoattack``, anywhere on
``PYTHONPATH``); without it ours is printed alone. Without options a small CNN is trained adversarially on scikit-
learn's bundled digits.
"""

import argparse
import importlib.util
import json
import statistics
import time
import warnings
from dataclasses import replace

import torch
from sklearn.datasets import load_digits
from torch import Tensor, nn
from torch.nn import functional

from benchmarks.cases import Case, add_options, given_case, parse
from workers.attacks.autoattack.checks import square_improves
from workers.attacks.autoattack.ensemble import BROKE, AutoAttack, Evaluation
from workers.attacks.pgd import PGD
from workers.attacks.robust_accuracy import pgd_untargeted, robust_accuracy


def own_case(examples: int) -> Case:
    """Return a small CNN on 1x8x8 digits, trained against PGD at l_inf 0.1 for a few seconds."""
    torch.manual_seed(0)
    bundle = load_digits()
    order = torch.randperm(len(bundle.target))
    images = torch.tensor(bundle.images / 16, dtype=torch.float32).unsqueeze(1)[order]
    labels = torch.tensor(bundle.target)[order]
    model = nn.Sequential(
        *[nn.Conv2d(1, 16, 3, 1, 1), nn.ReLU(), nn.Conv2d(16, 32, 3, 2, 1), nn.ReLU()],
        *[nn.Flatten(), nn.Linear(32 * 16, 64), nn.ReLU(), nn.Linear(64, 10)],
    )
    optimizer = torch.optim.Adam(model.parameters(), 2e-3)
    search = PGD("linf", 0.1, 0.03, 5)
    for _ in range(12):
        for rows in (examples + torch.randperm(len(images) - examples)).split(64):
            attacked = pgd_untargeted(search, model, images[rows], labels[rows], until_wrong=False).final
            optimizer.zero_grad()
            functional.cross_entropy(model(attacked), labels[rows]).backward()
            optimizer.step()
    return Case("small CNN 1x8x8", model.eval().requires_grad_(False), images[:examples], labels[:examples])


def ours(case: Case, norm: str, epsilon: float, batch: int, steps: int) -> list[Evaluation]:
    """Run our standard ensemble, batch by batch."""
    ensemble = replace(AutoAttack.standard(norm, epsilon), steps=steps)
    found = []
    for start in range(0, len(case.images), batch):
        images, labels = case.images[start : start + batch], case.labels[start : start + batch]
        own = [torch.Generator().manual_seed(start + i) for i in range(len(images))]
        found.append(ensemble.run(case.model, images, labels, generators=own))
    return found


def theirs(case: Case, norm: str, epsilon: float, batch: int, steps: int) -> Tensor:
    """Run the authors' standard ensemble; return which examples (n,) hold, by another pass over its images."""
    from pyautoattack import AutoAttack as Peer

    peer = Peer(case.model, norm={"linf": "Linf", "l2": "L2"}[norm], eps=epsilon, seed=0)
    # Their constructor works out the checkpoints, of its own 100 steps.
    for attack in (peer.apgd, peer.apgd_targeted):
        attack.n_iter = attack.n_iter_orig = steps
        attack.n_iter_2, attack.n_iter_min, attack.size_decr = (
            max(int(share * steps), 1) for share in (0.22, 0.06, 0.03)
        )
    peer.fab.n_iter = steps
    attacked = peer.run_standard_evaluation(case.images, case.labels, batch_size=batch)
    attacked = attacked[0] if isinstance(attacked, tuple) else attacked
    with torch.no_grad():
        return case.model(attacked).argmax(1) == case.labels


def report(case: Case, arguments: argparse.Namespace) -> dict[str, object]:
    """Measure one case, print its numbers and return them."""
    norm, epsilon, batch, examples = arguments.norm, arguments.epsilon, arguments.batch, len(case.images)
    has_peer = importlib.util.find_spec("pyautoattack") is not None and not arguments.alone
    seconds: dict[str, list[float]] = {"ours": [], "theirs": []}
    evaluations: list[Evaluation] = []
    held_by_peer = None
    for repeat in range(arguments.repeats):
        order = ["ours", "theirs"] if repeat % 2 == 0 else ["theirs", "ours"]
        for who in order if has_peer else ["ours"]:
            start = time.process_time()
            if who == "ours":
                evaluations = ours(case, norm, epsilon, batch, arguments.steps)
            else:
                held_by_peer = theirs(case, norm, epsilon, batch, arguments.steps)
            seconds[who].append((time.process_time() - start) / examples)
    robust = torch.cat([evaluation.robust for evaluation in evaluations])
    correct = torch.cat([evaluation.correct for evaluation in evaluations])
    pgd = robust_accuracy(PGD(norm, epsilon, epsilon / 4, 40), case.model, case.images, case.labels)
    names = evaluations[0].attacks
    after = {name: sum(int(e.holding_after(name).sum()) for e in evaluations) for name in names}
    broke = {name: sum(int((e.outcomes[name] == BROKE).sum()) for e in evaluations) for name in names}
    print(f"{case.name}: {examples} examples, {norm} {epsilon:g}, {arguments.steps} steps, batches of {batch}")
    print(f"  clean accuracy {correct.float().mean():.4f}, PGD-40 {pgd.float().mean():.4f}")
    for name in names:
        print(f"  after {name:8} {after[name] / examples:.4f}   ({broke[name]} broken by it)")
    print(f"  ours     {robust.float().mean():.4f}   {statistics.median(seconds['ours']):.3f} s per example")
    numbers: dict[str, object] = {
        "case": case.name,
        "norm": norm,
        "epsilon": epsilon,
        "robust_accuracy": robust.float().mean().item(),
        "pgd40": pgd.float().mean().item(),
        "seconds_per_example": statistics.median(seconds["ours"]),
    }
    if held_by_peer is not None:
        ratio = statistics.median(t / o for t, o in zip(seconds["theirs"], seconds["ours"], strict=True))
        print(
            f"  authors' {held_by_peer.float().mean():.4f}   {statistics.median(seconds['theirs']):.3f} s per example"
        )
        print(
            f"  time of theirs over ours {ratio:.2f}; only they break {int((robust & ~held_by_peer).sum())}, ", end=""
        )
        print(f"only we break {int((~robust & held_by_peer).sum())}")
        numbers |= {"peer_robust_accuracy": held_by_peer.float().mean().item(), "ratio": ratio}
    doubt = square_improves(after["fab-t"], after["square"], examples)
    print(f"  {doubt.message}" if doubt else "  no doubt raised by Square")
    return numbers


def main() -> None:
    """Run one case and print its numbers and a line of JSON."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--examples", type=int, default=200)
    parser.add_argument("--batch", type=int, default=200)
    parser.add_argument("--repeats", type=int, default=1)
    parser.add_argument("--norm", choices=["linf", "l2"], default="linf")
    parser.add_argument("--epsilon", type=float, default=0.1)
    parser.add_argument("--steps", type=int, default=100, help="of every run of APGD and FAB")
    add_options(parser)
    parser.add_argument("--alone", action="store_true", help="without the peer, even where it is installed")
    arguments = parse(parser)
    warnings.filterwarnings("ignore", category=UserWarning, module="torch")
    numbers = report(
        given_case(arguments, torch.device("cpu")) if arguments.weights else own_case(arguments.examples), arguments
    )
    print(json.dumps(numbers))


if __name__ == "__main__":
    main()
