"""How many forward passes adaptive sampling spares, and how often it decides as the fixed procedure does.

    python -m benchmarks.adaptive --weights cnn.safetensors --layers cnn.json --images test.npz --sigma 0.25

Certifies the same images of the same model on the same noise twice: with n draws each (CERTIFY of Cohen et al.), and
with draws that end once it is settled at which of the default radii an image is certified. Asked: at least 5 times
fewer forward passes, and the same decision at every radius for at least 99 % of the images. Without --weights it trains
a CNN on scikit-learn's bundled digits with Gaussian noise of sigma.
"""

import argparse
import time

import numpy as np
import torch
from torch import nn
from torch.nn import functional

from benchmarks.cases import Case, add_options, digits, given_case, parse
from seatrial.families.certified_calibration.params import CertifiedCalibrationParams
from workers.certification.anytime import Schedule, fixed_schedule, geometric_schedule
from workers.certification.bernoulli import abstains, certified_radius, probability_needed
from workers.certification.noise import Noise
from workers.certification.procedure import Evidence, gather_evidence
from workers.certification.smoothing import Smoother
from workers.runtime.seeds import derive_seed

BATCH = 64


def own_case(examples: int, sigma: float, seed: int = 0) -> Case:
    """Return a small CNN trained on noisy digits."""
    torch.manual_seed(seed)
    images, labels = digits((1, 28, 28))
    model = nn.Sequential(
        *[nn.Conv2d(1, 16, 4, 2, 1), nn.ReLU(), nn.Conv2d(16, 32, 4, 2, 1), nn.ReLU()],
        *[nn.Flatten(), nn.Linear(32 * 49, 100), nn.ReLU(), nn.Linear(100, 10)],
    )
    optimizer = torch.optim.Adam(model.parameters(), 2e-3)
    for _ in range(10):
        for batch in torch.randperm(len(images) - examples).split(64):
            seen = images[examples:][batch]
            optimizer.zero_grad()
            functional.cross_entropy(model(seen + sigma * torch.randn_like(seen)), labels[examples:][batch]).backward()
            optimizer.step()
    return Case("small CNN on noisy digits", model.eval().requires_grad_(False), images[:examples], labels[:examples])


def certify(case: Case, schedule: Schedule, params: CertifiedCalibrationParams) -> tuple[list[Evidence], float]:
    """Return the evidence of every batch and the seconds it took."""
    needed = probability_needed(np.array(params.radii), params.sigma)
    _, channels, height, width = case.images.shape
    smoother = Smoother(case.model, classes=case.model(case.images[:1]).shape[1])

    def noise(purpose: str) -> Noise:
        return Noise(
            params.sigma,
            (channels, height, width),
            case.images.device,
            lambda block, _: derive_seed(purpose, block),
            shared=True,
        )

    started = time.perf_counter()
    found = [
        gather_evidence(
            smoother,
            images,
            list(range(len(images))),
            selection=noise("selection"),
            estimation=noise("estimation"),
            n0=params.n0,
            schedule=schedule,
            probabilities=needed,
        )
        for images in case.images.split(BATCH)
    ]
    return found, time.perf_counter() - started


def decide(found: list[Evidence], params: CertifiedCalibrationParams) -> np.ndarray:
    """Return (images, 1 + radii) whether it abstains, and whether it certifies at each radius."""
    p_lower = np.concatenate([evidence.p_lower for evidence in found])
    abstained, radius = abstains(p_lower), certified_radius(p_lower, params.sigma)
    return np.stack([abstained, *[~abstained & (radius >= asked) for asked in params.radii]], axis=1)


def main() -> None:
    """Certify both ways and print what came of it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--examples", type=int, default=100)
    parser.add_argument("--n", type=int, default=100_000)
    parser.add_argument("--sigma", type=float, default=0.25)
    parser.add_argument("--device", default="cpu")
    add_options(parser)
    arguments = parse(parser)
    device = torch.device(arguments.device)
    case = given_case(arguments, device) if arguments.weights else own_case(arguments.examples, arguments.sigma)
    case = Case(case.name, case.model.to(device), case.images.to(device), case.labels.to(device))
    params = CertifiedCalibrationParams(
        kind="certified_calibration", sigma=arguments.sigma, n=arguments.n, sampling="adaptive"
    )
    adaptive, adaptive_s = certify(case, geometric_schedule(params.n, params.alpha), params)
    fixed, fixed_s = certify(case, fixed_schedule(params.n, params.alpha), params)
    draws = [sum(int(evidence.draws.sum()) for evidence in found) for found in (fixed, adaptive)]
    passes = [taken + len(case.images) * params.n0 for taken in draws]
    same = (decide(fixed, params) == decide(adaptive, params)).all(axis=1)
    right = [
        np.concatenate([evidence.candidates for evidence in found]) == case.labels.cpu().numpy()
        for found in (fixed, adaptive)
    ]
    print(f"{case.name}, {len(case.images)} images, n {params.n:,}, sigma {params.sigma:g}, radii {params.radii}")
    print(f"  forward passes: fixed {passes[0]:,}, adaptive {passes[1]:,}: {passes[0] / passes[1]:.1f}x fewer")
    print(f"  seconds: fixed {fixed_s:.1f}, adaptive {adaptive_s:.1f}: {fixed_s / adaptive_s:.1f}x")
    print(f"  same decision at every radius: {same.sum()} of {len(same)} images ({same.mean():.1%})")
    for name, found, hit in (("fixed", fixed, right[0]), ("adaptive", adaptive, right[1])):
        accuracies = (decide(found, params)[:, 1:] & hit[:, None]).mean(axis=0)
        print(f"  certified accuracy, {name:8}", " ".join(f"{accuracy:.3f}" for accuracy in accuracies))


if __name__ == "__main__":
    main()
