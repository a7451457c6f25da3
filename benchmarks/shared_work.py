"""What the games of one check share: seconds of a check with RMC and TADV that makes it once, beside one for each game.

    python -m benchmarks.shared_work --train mnist_train_10000.npz --test mnist_test_2000.npz

A small CNN is defended by RMC and TADV, presets `small`, under transferred PGD, FPA, GMSA-AVG and GMSA-MIN: once with
RMC's attacked training examples and TADV's networks kept for all games of the process, once made anew by each. Seconds
are of computing (both runs in this process, one after the other), and the records of the two are compared.
"""

import argparse
import time
from pathlib import Path

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from benchmarks.hardening_models import small_cnn
from seatrial.families.transductive_attack.params import TransductiveAttackParams
from tests.families.in_memory import Context, run_check
from workers.families.contexts import Records
from workers.families.transductive_attack.family import FAMILY
from workers.models.image_classifier import ImageClassifier
from workers.runtime.shared_work import SharedWork


def main() -> None:
    """Run both and print the seconds, their ratio and whether the records are the same."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--train", type=Path, required=True)
    parser.add_argument("--test", type=Path, required=True)
    parser.add_argument("--training", type=int, default=300, help="labelled examples of the defences")
    parser.add_argument("--examples", type=int, default=8)
    parser.add_argument("--iterations", type=int, default=2)
    options = parser.parse_args()
    model = fit(*load(options.train, 3000))
    further = {"training_dataset": load(options.train, options.training)}
    sample = load(options.test, options.examples)
    for name in ("tadv", "rmc"):
        params = TransductiveAttackParams.model_validate(
            {
                "kind": "transductive_attack",
                "defences": [{"name": name}],
                "attacks": ["transfer_pgd", "fpa", "gmsa_avg", "gmsa_min"],
                "epsilon": 0.1,
                "step_size": 0.02,
                "steps": 10,
                "iterations": options.iterations,
                "training_dataset": "dat_1",
            }
        )
        apart_s, apart = measure(params, model, sample, further, most_bytes=0)
        shared_s, shared = measure(params, model, sample, further, most_bytes=2**30)
        same = all(shared[stage].equals(apart[stage]) for stage in apart)
        print(
            f"{name}: {apart_s:.1f} s of computing apart, {shared_s:.1f} s shared, {apart_s / shared_s:.2f}x; ", end=""
        )
        print("the same records" if same else "OTHER RECORDS")


def load(path: Path, count: int) -> tuple[Tensor, Tensor]:
    """Return the first images (count, channels, height, width) in [0, 1] and labels (count,) of a file."""
    with np.load(path) as arrays:
        return torch.tensor(arrays["images"][:count]).float() / 255, torch.tensor(arrays["labels"][:count]).long()


def fit(images: Tensor, labels: Tensor) -> ImageClassifier:
    """Return a small CNN trained for two epochs."""
    classifier = small_cnn(0).classifier
    module = classifier.module.requires_grad_(True)
    optimizer = torch.optim.Adam(module.parameters(), lr=2e-3)
    for at in [part for _ in range(2) for part in torch.randperm(len(images)).split(64)]:
        loss = functional.cross_entropy(classifier.logits(images[at]), labels[at])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    module.requires_grad_(False).eval()
    return classifier


def measure(
    params: TransductiveAttackParams,
    model: ImageClassifier,
    sample: tuple[Tensor, Tensor],
    further: dict[str, tuple[Tensor, Tensor]],
    *,
    most_bytes: int,
) -> tuple[float, dict[str, Records]]:
    """Run a check with so much room for what its games share; return seconds of computing and records by stage."""
    work = SharedWork(most_bytes)
    Context.shared = lambda self, purpose, make: work.get("chk_1", purpose, make)  # type: ignore[method-assign]
    began = time.process_time()
    _, records = run_check(FAMILY, params, model, sample, data_of=further)
    return time.process_time() - began, records


if __name__ == "__main__":
    main()
